"""What `status` says of a lost room whose rows announcements wait for."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from sluiceway.audit.rooms import observed_rooms
from sluiceway.jobfile.compile.room_rule import MirrorRule, RoomRule
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
