"""Failpoints: named once, met where they are named, silent without their variable."""

import ast
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaException
from thrift.transport.TTransport import TTransportException

from sluiceway.catalog.connection import failpoint_of
from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.observe import failpoints
from sluiceway.observe.failpoint_names import EDGES, MARKS, POINTS
from sluiceway.observe.failpoints import HIT, VARIABLE, Action, FailpointSpec, Role, edge, reach
from sluiceway.observe.steps import Step
from tools.source_trees import nodes_of

_SOURCE = Path(failpoints.__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _off() -> Iterator[None]:
    failpoints.disarm()
    yield
    failpoints.disarm()


def _arm(folder: Path, point: str, action: Action, **changes: object) -> FailpointSpec:
    spec = FailpointSpec(point, action, str(folder), **changes)  # type: ignore[arg-type]
    assert failpoints.arm(Role.DRIVER, {VARIABLE: spec.text()}) == spec
    return spec


def _calls(path: Path, name: str) -> Iterator[ast.expr]:
    """First arguments of the calls of a function or method."""
    for node in nodes_of(path):
        if isinstance(node, ast.Call) and node.args:
            called = node.func
            found = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if found == name:
                yield node.args[0]


def _literals(name: str) -> list[str]:
    return [
        argument.value
        for path in sorted(_SOURCE.rglob("*.py"))
        for argument in _calls(path, name)
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]


def _metastore_calls() -> set[str]:
    """Edges that `MetastoreConnection.call` makes of the texts it is given."""
    texts = []
    metastore = _SOURCE / "catalog/metastore.py"
    for argument in (*_calls(metastore, "call"), *_whats(metastore)):
        if isinstance(argument, ast.JoinedStr) and isinstance(argument.values[0], ast.Constant):
            texts.append(str(argument.values[0].value))
    return {failpoint_of(text) for text in texts}


def _whats(path: Path) -> Iterator[ast.expr]:
    for node in nodes_of(path):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "what":
            yield node.value


def _store_calls() -> set[str]:
    """Edges that the stores' own requests have, wherever one is named there."""
    stores = ("hdfs", "s3")
    found = (_named_in(_SOURCE / "storage" / name, f"storage.{name}.") for name in stores)
    return set[str]().union(*found)


def _named_in(folder: Path, prefix: str) -> set[str]:
    """Texts of a folder's code that begin so."""
    return {
        node.value
        for path in sorted(folder.glob("*.py"))
        for node in nodes_of(path)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith(prefix)
    }


def test_every_registered_edge_is_in_the_code_and_no_other_is() -> None:
    used = {*_literals("edge"), *_literals("_asking"), *_metastore_calls(), *_store_calls()}
    used |= _named_in(_SOURCE / "sources/rocketmq", "rocketmq.")
    assert used == set(EDGES)


def test_every_registered_mark_is_in_the_code_and_no_other_is() -> None:
    assert {*_literals("reach"), *(f"step.{step}" for step in Step)} == set(MARKS)


def test_there_are_enough_points() -> None:
    assert len(POINTS) == 2 * len(EDGES) + len(MARKS)
    assert len(POINTS) >= 60


def test_without_the_variable_nothing_happens(tmp_path: Path) -> None:
    assert failpoints.arm(Role.DRIVER, {}) is None
    reach("task.start")
    with edge("storage.read", "x"):
        pass
    assert edge("storage.read") is edge("storage.list")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("point", "action", "kind", "number"),
    [
        ("storage.read.request", Action.RAISE, OSError, errno.EIO),
        ("storage.put.write.request", Action.ENOSPC, OSError, errno.ENOSPC),
        ("storage.read.reply", Action.LOSE_REPLY, TimeoutError, errno.ETIMEDOUT),
        ("metastore.connect.request", Action.LOSE_REQUEST, TimeoutError, errno.ETIMEDOUT),
        ("metastore.read_table.reply", Action.LOSE_REPLY, TTransportException, None),
        ("kafka.describe.request", Action.LOSE_REQUEST, KafkaException, None),
    ],
)
def test_error_is_of_the_class_of_the_real_edge(
    tmp_path: Path, point: str, action: Action, kind: type[Exception], number: int | None
) -> None:
    _arm(tmp_path, point, action)
    name, _, side = point.rpartition(".")
    called = []
    with pytest.raises(kind) as caught, edge(name):
        called.append(name)
    assert called == ([name] if side == "reply" else [])
    assert getattr(caught.value, "errno", None) == number
    with edge(name):  # once only
        called.append("again")
    assert called[-1] == "again"
    assert point in (tmp_path / HIT).read_text()


def test_reply_of_a_call_that_failed_is_not_met(tmp_path: Path) -> None:
    _arm(tmp_path, "storage.read.reply", Action.RAISE)
    with pytest.raises(FileNotFoundError), edge("storage.read"):
        raise FileNotFoundError
    assert not (tmp_path / HIT).exists()


def test_only_the_nth_visit_of_the_place_by_the_role_counts(tmp_path: Path) -> None:
    _arm(tmp_path, "publish.file", Action.RAISE, hit=2, place="*/b", by=Role.DRIVER)
    for place in ("x/a", "x/b", "x/a"):
        reach("publish.file", place)
    with pytest.raises(RuntimeError, match=r"publish\.file"):
        reach("publish.file", "y/b")


def test_visits_of_the_other_role_do_not_count(tmp_path: Path) -> None:
    _arm(tmp_path, "publish.file", Action.RAISE, by=Role.WORKER)
    reach("publish.file")
    assert not (tmp_path / HIT).exists()


@pytest.mark.parametrize(
    "text", ["x", "[]", "{}", '{"point": "p", "action": "kill", "folder": "/x"}']
)
def test_a_spec_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UnhealthyEnvironmentError, match="unset it"):
        failpoints.arm(Role.DRIVER, {VARIABLE: text})


_CHILD = """
import sys
import time
from sluiceway.observe.failpoints import Role, arm, reach
arm(Role(sys.argv[1]))
reach("task.start")
print("lived")
"""


def _run_child(role: Role, spec: FailpointSpec) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _CHILD, role],
        env={**os.environ, VARIABLE: spec.text()},
        capture_output=True,
        text=True,
        check=False,
    )


def test_kill_takes_the_driver_and_kill_worker_the_worker(tmp_path: Path) -> None:
    killed = _run_child(Role.DRIVER, FailpointSpec("task.start", Action.KILL, str(tmp_path)))
    assert (killed.returncode, killed.stdout) == (-9, "")
    again = _run_child(Role.DRIVER, FailpointSpec("task.start", Action.KILL, str(tmp_path)))
    assert (again.returncode, again.stdout) == (0, "lived\n")
    (tmp_path / HIT).unlink()
    spec = FailpointSpec("task.start", Action.KILL_WORKER, str(tmp_path))
    assert _run_child(Role.WORKER, spec).returncode == -9


def test_stop_stops_the_driver_until_it_is_continued(tmp_path: Path) -> None:
    spec = FailpointSpec("task.start", Action.STOP, str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD, Role.DRIVER],
        env={**os.environ, VARIABLE: spec.text()},
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        child.send_signal(signal.SIGCONT)
        assert child.communicate()[0] == "lived\n"


def test_driver_at_its_own_point_kills_its_workers_and_lives(tmp_path: Path) -> None:
    script = "import sys; print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
        (tmp_path / "workers").mkdir()
        (tmp_path / "workers" / "1").write_text(str(worker.pid))
        _arm(tmp_path, "step.committed", Action.KILL_WORKER)
        reach("step.committed")
        assert worker.wait() == -signal.SIGKILL


def test_delay_goes_on_after_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _arm(tmp_path, "step.committed", Action.DELAY, delay_s=0.2)
    slept: list[float] = []
    monkeypatch.setattr(failpoints, "time", SimpleNamespace(sleep=slept.append))
    reach("step.committed")
    assert slept == [0.2]
    assert (tmp_path / HIT).exists()
