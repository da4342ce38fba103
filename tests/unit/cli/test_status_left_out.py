"""What `status` says of partitions that a route goes on without."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from sluiceway.audit.job_status import ObservedJob, ObservedRoute
from sluiceway.audit.upstream import ObservedUpstream
from sluiceway.cli.commands.status import _table, status_document
from sluiceway.cli.views.typed_commands import typed_fields
from sluiceway.followers.runner import FollowerState
from sluiceway.route.status import RouteState, RouteStatus, decode_status, encode_status

WHY = "it is gone; when it is gone for good: `sluiceway offsets retire JOB --reason TEXT`"
STATUS = RouteStatus(
    route="r",
    table="t",
    state=RouteState.RUNNING,
    left_out={"orders[broker-b/0]": WHY},
    left_out_count=22,
)


def job(status: RouteStatus) -> ObservedJob:
    config: Any = None
    return ObservedJob((ObservedRoute(config=config, status=status, driver="h pid 1", fold=None),))


def test_each_is_named_with_the_command_that_can_be_typed_and_the_job_is_not_well() -> None:
    seen = job(STATUS)
    assert not seen.is_well
    shown = _table(seen, "my.yaml").splitlines()
    named = [line for line in shown if "left out" in line]
    assert named[0].startswith("  left out: orders[broker-b/0]: it is gone; ")
    assert named[0].endswith("offsets retire my.yaml --reason TEXT`")
    assert named[1] == "  left out: 21 more"
    told = status_document("job", seen, typed_fields(Path("my.yaml")))
    (route,) = cast("list[dict[str, Any]]", told["routes"])
    assert route["ok"] is False
    assert "offsets retire " in route["left_out"]["orders[broker-b/0]"]
    assert " JOB " not in route["left_out"]["orders[broker-b/0]"]


def test_nothing_is_said_of_a_route_that_reads_all() -> None:
    seen = job(replace(STATUS, left_out={}, left_out_count=0))
    assert seen.is_well
    assert "left out" not in _table(seen, "my.yaml")


def test_drivers_file_tells_of_them() -> None:
    assert decode_status(encode_status(STATUS)) == STATUS


def test_follower_is_called_behind_once_it_lags_and_else_says_what_it_waits_for() -> None:
    seen = (
        FollowerState("files", 9, 1, 2.0, ""),
        FollowerState("catalog", 4, 6, 41.0, "", lags=True),
        FollowerState("offsets", 4, 6, 41.0, "no right to the group", lags=True),
        FollowerState("announcements", 9, 1, 2.0, "the receiver is away"),
    )
    shown = _table(job(replace(STATUS, left_out={}, left_out_count=0, followers=seen)), "my.yaml")
    assert shown.splitlines()[2:] == [
        "  catalog is 6 records (41 s) behind",
        "  offsets is 6 records (41 s) behind: no right to the group",
        "  announcements waits: the receiver is away",
        "Spark UI of h pid 1: not known",
    ]


def test_slots_that_brought_no_row_are_not_taken_for_a_lag() -> None:
    (route,) = job(replace(STATUS, left_out={}, left_out_count=0, lag_records=0)).routes
    route = replace(route, upstream=ObservedUpstream("ods.raw", 4, 17))

    def shown(route: ObservedRoute) -> str:
        return _table(ObservedJob((route,)), "my.yaml")

    assert "  reads ods.raw: slot 4 of 17; no new row is in the later ones\n" in shown(route)
    stopped = replace(route.status, lag_records=3, state=RouteState.STOPPED)
    behind = replace(route, status=stopped)
    assert "  reads ods.raw: slot 4 of 17\n" in shown(behind)
