"""What `doctor` asks of copies in the room that has them."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from sluiceway.audit import mirror_checks
from sluiceway.audit.health_checks import Finding, Health
from sluiceway.audit.mirror_checks import check_mirror
from sluiceway.errors import SourceUnavailableError
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.compile.room_rule import MirrorRule, RoomRule
from sluiceway.jobfile.loader import parse_job
from sluiceway.sources.contract import SourcePartition
from sluiceway.sources.copies import CopyTraits
from tools import session_on_disk
from tools.made_logs import MadeLog, MadeLogs
from tools.origin_rows import OriginBatch

TAIL = MirrorRule(linked=False, exactly_once=True, origin=None, own_writers=True)
HEADER = replace(TAIL, origin="sw-origin", exactly_once=False, own_writers=False)
RULE = RoomRule("b", "a", ("a", "b"), auto=False, after_s=1.0, give_way_s=1.0, digest="d")


@dataclass
class Copies(MadeLogs):
    """Room b's copies, and who may write to them."""

    allowed: tuple[str, ...] | None = ("User:mirror",)
    headers: list[str] = field(default_factory=list)
    failure: Exception | None = None

    def writers(self, topic: str) -> tuple[str, ...] | None:
        assert topic == "orders"
        if self.failure is not None:
            raise self.failure
        return self.allowed


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> Copies:
    made = Copies({SourcePartition("orders", 0): MadeLog.of(range(200))})

    def read(access: object, splits: list[object]) -> list[OriginBatch]:
        assert len(splits) == 1
        return [OriginBatch.of(100, [((name, b"x"),) for name in made.headers], 1)]

    monkeypatch.setattr(mirror_checks, "open_source", lambda _: made)
    monkeypatch.setattr(mirror_checks, "read_splits", read)
    return made


def checked(mirror: MirrorRule | None, room: str = "b") -> list[Finding]:
    job = compile_routes(parse_job(session_on_disk._JOB, Path("job.yaml"), {}).spec)
    rule = replace(RULE, room=room, mirror=mirror)
    return list(check_mirror(replace(job.routes[0], rooms=rule)))


def problems(mirror: MirrorRule) -> list[tuple[Health, str]]:
    bad = (Health.BAD, Health.WARNING)
    return [(each.health, each.found) for each in checked(mirror) if each.health in bad]


def test_only_a_room_with_copies_is_checked(copies: Copies) -> None:
    assert checked(None) == []
    assert checked(TAIL, room="a") == []
    assert all(each.fix for each in checked(TAIL) if each.health is not Health.OK)


def test_record_times_are_kept_and_tails_are_not_compacted(copies: Copies) -> None:
    exact = replace(TAIL, transactional_ids=("mm2",))
    assert problems(exact) == []
    copies.traits = CopyTraits(append_time=True)
    ((health, found),) = problems(exact)
    assert (health, "LogAppendTime" in found) == (Health.BAD, True)
    copies.traits = CopyTraits(compacted=True)
    ((health, found),) = problems(exact)
    assert (health, "compacted" in found) == (Health.WARNING, True)
    copies.headers = ["sw-origin"]
    assert problems(HEADER) == []


def test_newest_rows_have_the_header(copies: Copies) -> None:
    copies.headers = ["other", "other"]
    ((health, found),) = problems(HEADER)
    assert (health, found) == (
        Health.BAD,
        "0 of its 2 newest records have the header `sw-origin`",
    )
    copies.headers = ["other", "sw-origin"]
    assert problems(HEADER) == []


@pytest.mark.parametrize(
    ("allowed", "health", "says"),
    [
        (None, Health.WARNING, "no access rule of it can be read"),
        ((), Health.WARNING, "no rule names a writer"),
        (("User:app", "User:mirror"), Health.BAD, "these may write: User:app, User:mirror"),
    ],
)
def test_no_one_but_the_mirror_may_write(
    copies: Copies, allowed: tuple[str, ...] | None, health: Health, says: str
) -> None:
    exact = replace(TAIL, transactional_ids=("mm2",))
    copies.allowed = allowed
    ((found_health, found),) = problems(exact)
    assert found_health is health
    assert says in found
    assert problems(replace(exact, own_writers=False)) == []
    copies.allowed = ("User:mirror",)
    assert problems(exact) == []


def test_a_mirror_with_transactions_has_names_for_them(copies: Copies) -> None:
    ((health, found),) = problems(TAIL)
    assert (health, "dies in a transaction" in found) == (Health.WARNING, True)
    unseen = checked(TAIL)[-1]
    assert unseen.health is Health.SKIPPED
    assert "exactly.once.source.support=enabled" in unseen.fix
    copies.headers = ["sw-origin"]
    assert "support=enabled" not in checked(HEADER)[-1].fix


def test_a_queue_that_does_not_answer_is_a_finding(copies: Copies) -> None:
    copies.failure = SourceUnavailableError("no broker answers")
    found = [each.found for each in checked(TAIL) if each.health is Health.BAD]
    assert found == [f"[{copies.failure.code}] no broker answers"]
