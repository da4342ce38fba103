"""Which routes `--takeover` names; a name that the job does not have is a mistake of typing."""

from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.driver.run import Observers, RunOptions, run_job
from sluiceway.driver.stop import StopSignal
from sluiceway.errors import WrongUsageError
from sluiceway.jobfile.blocks.models import JobSpec
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.compile.config import CompiledJob
from sluiceway.jobfile.loader import load_job
from sluiceway.observe.log import stderr_log
from sluiceway.observe.progress import Progress

_JOBS = Path(__file__).parents[3] / "examples"
_ENVIRON = {"SLUICEWAY_KAFKA": "127.0.0.1:1", "SLUICEWAY_METASTORE": "thrift://127.0.0.1:1"}


def _compiled(spec: JobSpec, routes: int) -> CompiledJob:
    job = compile_routes(spec)
    (one,) = job.routes
    return replace(job, routes=tuple(replace(one, route=f"r{n}") for n in range(routes)))


@pytest.mark.parametrize(
    ("routes", "takeover", "said"),
    [
        (1, {"nope": 2}, "no route `nope`"),
        (2, {"nope": 2}, "no route `nope`"),
        (2, {"": 2}, "has 2 routes"),
    ],
)
def test_takeover_of_a_route_that_the_job_has_not_is_wrong_usage(
    routes: int, takeover: dict[str, int], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = load_job(_JOBS / "orders.yaml", environ=_ENVIRON).spec
    job = _compiled(spec, routes)
    monkeypatch.setattr("sluiceway.driver.run.compile_routes", lambda _: job)
    eyes = Observers(stderr_log(level="error"), Progress())
    with pytest.raises(WrongUsageError, match=said) as refused:
        run_job(spec, RunOptions(takeover=takeover), eyes, StopSignal())
    assert (refused.value.code, refused.value.exit_code) == ("SW480", 2)
