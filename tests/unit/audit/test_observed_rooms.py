"""What `status` says of rooms: who has a route, who could take over, what waits."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from sluiceway.audit.rooms import observed_rooms
from sluiceway.jobfile.compile.room_rule import MirrorRule, RoomRule
from sluiceway.ledger.generations import Generation, claim_generation
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.lease import Lease
from sluiceway.ledger.room_files import GivenUpRoom, RoomReport, write_advice
from sluiceway.storage.local import LocalStorage

MIRROR = MirrorRule(linked=False, exactly_once=True, origin=None, own_writers=True)
RULE = RoomRule(
    *("b", "a", ("a", "b")), auto=False, after_s=1.0, give_way_s=1.0, digest="d", mirror=MIRROR
)
LEASE = Lease("d2", 2, 1, released=False, host="h", boot_id="x", pid=1, start_ticks=1, room="b")
TOOK_OVER = RoomReport(
    *("b", 1, "d2", "h", 1, "d", True, True, (), None, 2, 1_000), lost_room="a", lost_ms=7
)


def test_a_room_that_new_rows_wait_for_is_named_with_the_time(tmp_path: Path) -> None:
    storage, layout = LocalStorage(), LedgerLayout(str(tmp_path), "orders")

    def said(*, home: str = "b", **changes: Any) -> str:
        rule = replace(RULE, home=home, mirror=replace(MIRROR, **changes))
        return observed_rooms(storage, layout, rule, LEASE).attention(2_000)[0]

    silent = "no driver of room a has ever reported"
    assert said() == said(first=True, home="a") == silent
    waits = "; by `mirrored_first` new rows wait "
    assert said(first=True) == f"{silent}{waits}until it has copies of them"
    assert said(first=True, first_s=30.0) == f"{silent}{waits}30 s for its copies"


def test_a_lost_room_is_named_with_the_commands_until_it_is_given_up(tmp_path: Path) -> None:
    storage, layout = LocalStorage(), LedgerLayout(str(tmp_path), "orders")
    write_advice(storage, layout, layout.room("b"), TOOK_OVER)

    def said(rule: RoomRule = RULE) -> list[str]:
        seen = observed_rooms(storage, layout, rule, LEASE)
        return [each for each in seen.attention(2_000) if "wait for rows" in each]

    (found,) = said()
    assert "announcements wait for rows of room a" in found
    assert "switch JOB --drain a --room a" in found
    assert said(replace(RULE, mirror=replace(MIRROR, holds=False))) == []
    given = GivenUpRoom("a", 7, drained=True, operator="ann", reason="")
    write_advice(storage, layout, layout.given_up, given)
    assert said() == []


def test_a_standby_is_ready_only_while_it_reports(tmp_path: Path) -> None:
    storage, layout = LocalStorage(), LedgerLayout(str(tmp_path), "orders")

    def said(**changes: Any) -> str:
        now_ms = time.time_ns() // 1_000_000
        report = replace(TOOK_OVER, room="a", holds=False, reported_ms=now_ms)
        write_advice(storage, layout, layout.room("a"), replace(report, **changes))
        return observed_rooms(storage, layout, RULE, LEASE).lines()[0].partition("; standby: ")[2]

    assert said() == "a ready"
    assert said(ready=False, reasons=("no task slots",)) == "a not ready"
    assert said(reported_ms=1_000) == "a silent"


def test_a_copied_report_of_another_room_says_nothing(tmp_path: Path) -> None:
    storage, layout = LocalStorage(), LedgerLayout(str(tmp_path), "orders")
    rule = replace(RULE, mirror=None, copied=True)
    now_ms = time.time_ns() // 1_000_000
    old = replace(TOOK_OVER, room="a", reported_ms=now_ms, digest="other", notices=("old",))
    write_advice(storage, layout, layout.room("a"), old)
    assert observed_rooms(storage, layout, rule, None).lines()[0].startswith("no room has it yet; ")
    storage.make_folders(layout.stage)
    claim = Generation(1, 5, "h", "b", "o@h", "a test", ("room_down",))
    assert claim_generation(storage, layout, claim) == claim
    seen = observed_rooms(storage, layout, rule, None)
    assert seen.lines()[0].startswith("room b has it; home a, here b; another room has to adopt")
    assert seen.attention(now_ms) == []


def test_a_lease_from_before_the_job_had_rooms_is_the_home_rooms(tmp_path: Path) -> None:
    layout = LedgerLayout(str(tmp_path), "orders")
    seen = observed_rooms(LocalStorage(), layout, RULE, replace(LEASE, room=""))
    assert seen.holder == "a"


def test_the_rooms_line_names_the_term_that_a_switch_has_to_name(tmp_path: Path) -> None:
    layout = LedgerLayout(str(tmp_path), "orders")
    seen = observed_rooms(LocalStorage(), layout, RULE, LEASE)
    assert seen.lines()[0] == "room b has it, term 2; home a, here b"
