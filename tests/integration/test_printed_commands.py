"""Commands that are printed for a real job, each run as it was printed."""

import re
import subprocess
from pathlib import Path

import pytest

from sluiceway.cli.app import run_command
from sluiceway.cli.views.error_text import print_error
from sluiceway.cli.views.typed_commands import JOB_FILE
from sluiceway.errors import SluicewayError
from sluiceway.lab.lab import LabEndpoints
from tools.job_files import JobFile, event, write_routes
from tools.lab_fixture import TopicFactory
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

HOUR = "dt=20261120/hr=07"
COMMAND = re.compile(r"`((?:\S*sluiceway|\S+ -m sluiceway) [^`]+)`|^  \$ (.+)$", re.MULTILINE)


def commands_in(text: str) -> list[str]:
    return [quoted or line for quoted, line in COMMAND.findall(text)]


@pytest.fixture
def job(lab_endpoints: LabEndpoints, new_topic: TopicFactory, tmp_path: Path) -> JobFile:
    """A good route, one that has too many dirty rows, and one whose first row is not there yet."""
    topics = [new_topic(), new_topic(), new_topic(partitions=2)]
    writer = TopicWriter(lab_endpoints.bootstrap_servers)
    writer.write(topics[0], [event(0)])
    writer.write(topics[1], [b"{broken"])
    writer.write(topics[2], [event(0)])
    routes = [f"{{topics: [{name}], table: ods.{name}" for name in topics]
    ends = ["}", ", dirty: {max_rows: 0}}", ", ready: {}}"]
    folder = tmp_path / "my jobs"
    folder.mkdir()
    return write_routes(
        folder,
        "\n".join(f"  - {route}{end}" for route, end in zip(routes, ends, strict=True)),
        bootstrap_servers=lab_endpoints.bootstrap_servers,
        metastore_uri=lab_endpoints.metastore_uri,
    )


def test_every_command_that_is_printed_for_a_job_runs_as_pasted(
    job: JobFile, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(job.path)
    run_command(["status", path])
    JOB_FILE.set(path)
    with pytest.raises(SluicewayError) as halted:
        RouteRun(job).catch_up()
    JOB_FILE.set(path)
    assert print_error(halted.value) == 6
    assert run_command(["status", path]) == 1
    third = [route.table.target.table for route in job.spec.routes][2]
    waiting = ["partitions", "why", path, HOUR, "--route", f"ods-{third}"]
    assert run_command(waiting) == 0
    assert run_command([*waiting[:3], "foo", *waiting[4:]]) == 2
    told = capsys.readouterr()
    commands = sorted(set(commands_in(told.out) + commands_in(told.err)))
    verbs = {re.split(r"sluiceway ", each, maxsplit=1)[1].split()[0] for each in commands}
    assert verbs >= {"run", "validate", "status", "partitions"}
    for command in commands:
        # A run would go on for ever; whether it takes its words is known before.
        ends = f"{command} --help" if " run " in command else command
        done = subprocess.run(  # noqa: S602 - as a person pastes it
            ends, shell=True, capture_output=True, text=True, check=False
        )
        assert "{" not in command
        assert path in command
        assert done.returncode in (0, 1), (command, done.stderr)
        assert "SW000" not in done.stderr
