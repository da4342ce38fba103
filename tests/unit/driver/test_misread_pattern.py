"""A run with an end whose pattern is written as in a shell does not end as if all were well."""

import io
from pathlib import Path

import pytest

from sluiceway.driver.run import Observers, run_routes
from sluiceway.driver.stop import StopSignal
from sluiceway.errors import WrongUsageError
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.loader import parse_job
from sluiceway.observe.log import stderr_log
from sluiceway.observe.progress import Progress
from tools.inline_runner import InlineRunner

JOB = """\
version: 1
name: many
connections:
  main: {{kafka: {{bootstrap_servers: "k1:9092"}}}}
  hms: {{metastore: {{uri: "thrift://hms:9083"}}}}
source: {{connection: main, topics: "{pattern}"}}
format: {{json: {{}}}}
table:
  hive: {{connection: hms, name: ods.all}}
  columns: [{{name: id, type: bigint}}]
  partition_by: []
"""


class Topics:
    """A cluster that has two topics."""

    def list_topics(self) -> tuple[str, ...]:
        return ("other", "shop_orders")

    def close(self) -> None:
        pass


def run(pattern: str, stop: StopSignal) -> None:
    job = compile_routes(parse_job(JOB.format(pattern=pattern).encode(), Path("j"), {}).spec)
    eyes = Observers(stderr_log(level="error", stream=io.StringIO()), Progress())
    run_routes(job, InlineRunner(), stop, eyes, bounded=True)


def test_run_until_caught_up_fails_and_says_the_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluiceway.driver.run.open_source", lambda config: Topics())
    with pytest.raises(WrongUsageError, match="no topic matches the pattern") as caught:
        run("shop_*", StopSignal())
    assert caught.value.exit_code == 2
    assert "write `shop_.*`" in caught.value.hint
    run("late_.*", StopSignal())
    asked = StopSignal()
    asked.ask()
    run("shop_*", asked)
