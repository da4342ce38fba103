"""Submitting a job: never beside a driver of it that runs, whatever became of its supervisor."""

import os
from pathlib import Path

import pytest

from sluiceway.cluster import submission
from sluiceway.cluster.applications import Application, ApplicationFolder, DriverState
from sluiceway.cluster.submission import Wanted, submit
from sluiceway.cluster.yarn import YarnState
from sluiceway.errors import WrongUsageError
from sluiceway.host.process import ProcessIdentity, identity_of

WANTED = Wanted("orders", Path("orders.yaml"), "local[1]", {})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ApplicationFolder:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = ApplicationFolder("orders")
    found.make()
    return found


def test_a_driver_whose_supervisor_was_killed_is_not_left_behind(folder: ApplicationFolder) -> None:
    runs = identity_of(os.getpid())
    assert runs is not None
    gone = ProcessIdentity(runs.host, runs.boot_id, runs.pid, runs.start_ticks + 1)
    folder.write(Application("orders", "orders.yaml", "local[1]", "client", "", 0, gone))
    folder.write_driver(DriverState("running", 1, None, 0, runs))
    with pytest.raises(WrongUsageError, match="runs") as caught:
        submit(WANTED)
    assert "sluiceway stop orders" in caught.value.hint
    assert folder.read_driver() is not None


@pytest.mark.parametrize("state", ["NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING"])
def test_what_yarn_has_taken_is_not_submitted_again(
    folder: ApplicationFolder, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    held = Application(
        "orders", "orders.yaml", "yarn", "cluster", "", 0, cluster_id="application_1"
    )
    folder.write(held)
    monkeypatch.setattr(submission, "yarn_state", lambda *_: YarnState(state, "UNDEFINED", ""))
    with pytest.raises(WrongUsageError, match="was submitted and runs"):
        submit(WANTED)
