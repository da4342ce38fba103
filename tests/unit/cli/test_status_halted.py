"""The commands that `status` gives for a halted route work as pasted, whether its driver lives."""

import os
import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluiceway.audit.job_status import ObservedJob, ObservedRoute
from sluiceway.cli.commands.status import _table, status_document
from sluiceway.cli.views.typed_commands import typed_fields
from sluiceway.cluster.applications import Application, ApplicationFolder
from sluiceway.errors import TableMismatchError
from sluiceway.host.process import own_identity
from sluiceway.route.halt_report import halt_report
from sluiceway.route.status import RouteState, RouteStatus

HERE = f"{socket.gethostname()} pid 4711"
STATUS = RouteStatus(
    route="r",
    table="t",
    state=RouteState.HALTED,
    message="halted",
    code="SW404",
    report=halt_report(TableMismatchError("dropped"), "r"),
)


def commands(driver: str | None, status: RouteStatus = STATUS) -> list[str]:
    config: Any = SimpleNamespace(job="orders")
    seen = ObservedJob((ObservedRoute(config, status, driver, None),))
    shown = [line for line in _table(seen, "my.yaml").splitlines() if line.startswith("  $ ")]
    told = status_document("orders", seen, typed_fields(Path("my.yaml")))
    (route,) = cast("list[dict[str, Any]]", told["routes"])
    assert len(route["report"]["commands"]) == len(shown)
    return [f"{line.removeprefix('  $ ').rpartition('sluiceway ')[2]}" for line in shown]


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("driver", "wanted"),
    [
        (None, ["validate my.yaml", "run my.yaml"]),
        (HERE, ["validate my.yaml", "kill 4711", "run my.yaml --standby"]),
        ("elsewhere pid 9", ["validate my.yaml", "run my.yaml --standby"]),
    ],
)
def test_second_run_is_told_only_where_no_driver_lives(
    driver: str | None, wanted: list[str]
) -> None:
    assert commands(driver) == wanted


def test_driver_that_tries_again_by_itself_needs_no_start() -> None:
    assert commands(HERE, replace(STATUS, next_try_ms=1)) == ["validate my.yaml"]


def test_submitted_job_is_restarted() -> None:
    folder = ApplicationFolder("orders")
    folder.make()
    running = Application("orders", "/j.yaml", "local", "client", "", 1, own_identity())
    folder.write(running)
    assert commands(HERE) == ["validate my.yaml", "restart my.yaml"]
    folder.write(replace(running, supervisor=replace(own_identity(), pid=os.getpid() + 2**21)))
    assert commands(HERE)[-1] == "run my.yaml --standby"
