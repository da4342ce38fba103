"""A mirror that repeats, rows of room b, a lost room, epochs that are discarded: all rows, once."""

import itertools
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from sluiceway.errors import InvariantError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.operator_records import (
    ORIGIN_HEADER,
    ORIGIN_LOG,
    ChangedSource,
    OriginLog,
    SourceChangeRecord,
)
from sluiceway.ledger.records import Body, FenceRecord, encode_record
from sluiceway.rooms import followed_copy
from sluiceway.rooms.followed_copy import FollowedCopy
from sluiceway.route.prepare import prepare_record
from sluiceway.route.route_planner import fold_after, follows
from sluiceway.schedule.planner import PlannedEpoch, PlannedSplit, plan_splits
from sluiceway.sources.contract import Headers, LogBounds, SourceBatch, SourcePartition
from sluiceway.sources.origins import OriginReader
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.plan import TaskResult
from tools.ledger_records import data, fence, fold_of, record, sources, span
from tools.origin_rows import OriginBatch, SimpleReader, origin_answer

if TYPE_CHECKING:
    from collections.abc import Callable

ORDERS = SourcePartition("orders", 0)
NAME = "c1/orders/0"
TIME = 1_795_000_000_000
SEEDS = range(250)


def put(fold: Fold, body: Body) -> None:
    if isinstance(body, FenceRecord):
        body = replace(body, format=fold.format, min_reader=fold.format)
    made = record(fold, body)
    fold.apply(made, encode_record(made))


@dataclass
class Rooms:
    """Room a with its log and driver, a mirror, and room b.

    Attributes:
        log_a: Offsets of the rows in a's log; others are holes.
        log_b: What b's log has: the offset in a of a copied row, or None.
        end: Committed end in a.
        table: Rows of the table: `(room, offset)`.
    """

    rng: random.Random
    log_a: list[int] = field(default_factory=list)
    log_b: list[int | None] = field(default_factory=list)
    mirrored: int = 0
    end: int = 0
    table: Counter[tuple[str, int]] = field(default_factory=Counter)
    fold: Fold = field(default_factory=Fold)
    copy: FollowedCopy = field(init=False)
    position: int = -1

    def __post_init__(self) -> None:
        self.fold = fold_of(fence(), sources(0))
        self.copy = FollowedCopy(
            OriginLog("sw-origin", NAME, "t1", BigInt(0)), "t2", 0, 0, whole=True
        )

    def write_a(self) -> None:
        begin = self.log_a[-1] + 1 if self.log_a else 0
        self.log_a.append(begin + self.rng.choice((0, 0, 0, 1, 3)))

    def write_b(self) -> None:
        self.log_b.append(None)

    def mirror(self) -> None:
        """Copy some rows; killed, it begins again at a place before."""
        if self.rng.random() < 0.2:
            self.mirrored = self.rng.randint(0, self.mirrored)
        for at in self.log_a[self.mirrored : self.mirrored + self.rng.randint(1, 4)]:
            self.log_b.append(at)
            self.mirrored += 1

    def commit_a(self) -> None:
        """An epoch of a's driver."""
        log_end = self.log_a[-1] + 1 if self.log_a else 0
        until = self.rng.randint(self.end, log_end)
        rows = [at for at in self.log_a if self.end <= at < until]
        if until == self.end:
            return
        read = span(0, self.end, until, gaps=until - self.end - len(rows))
        put(self.fold, data(self.fold.term, self.fold.last_epoch + 1, read))
        self.table.update(("a", at) for at in rows)
        self.end = until

    def follow(self) -> None:
        """The standby reads b's log along, and learns of a's committed end now and then."""
        if self.rng.random() < 0.5:
            self.copy.origin = replace(self.copy.origin, end=BigInt(self.end))
            self.copy.commit(self.end)
        until = self.rng.randint(self.copy.next, len(self.log_b))
        if until > self.copy.next:
            self.copy.add_batch(self.batch(self.copy.next, until))
            self.copy.next = until

    def batch(self, start: int, end: int) -> SourceBatch:
        rows: list[Headers] = [
            () if at is None else (("sw-origin", f"{NAME}:{at}@{TIME}".encode()),)
            for at in self.log_b[start:end]
        ]
        return OriginBatch.of(start, rows, TIME)

    def switch(self) -> None:
        """Room b takes over."""
        self.copy.origin = replace(self.copy.origin, end=BigInt(self.end))
        self.copy.commit(self.end)
        put(self.fold, fence(driver="b"))
        known = self.fold.sources["orders", 0]
        self.position = self.copy.place
        moved = ChangedSource(
            *("orders", 0, "c1", "t1", "c2", "t2"),
            BigInt(known.end),
            BigInt(self.position),
            known.generation + 1,
            {ORIGIN_HEADER: "sw-origin", ORIGIN_LOG: NAME},
        )
        put(self.fold, SourceChangeRecord("me@host", "a is lost", (moved,)))

    def plan(self, fold: Fold) -> PlannedSplit | None:
        bounds = {ORDERS: LogBounds(0, len(self.log_b), len(self.log_b))}
        planned = plan_splits(fold, bounds, None)
        return planned[0] if planned else None

    def read(self, planned: PlannedSplit, epoch: int) -> tuple[TaskResult, list[int]]:
        """A task: it reads some of the log, in some fetches."""
        start = planned.split.start_offset
        until = self.rng.randint(start, len(self.log_b))
        cuts = sorted({start, until, *(self.rng.randint(start, until) for _ in range(2))})
        pieces = itertools.pairwise(cuts)
        inner = SimpleReader([self.batch(*piece) for piece in pieces], start)
        reader = OriginReader(inner, [planned.split])
        kept: list[int] = []
        while not reader.finished():
            kept += [int(at) for batch in reader.read(1.0) for at in batch.offsets]
        (end,) = reader.ends()
        return origin_answer(self.fold.term, epoch, start, end), kept

    def run_b(self) -> None:
        """Two epochs, the second planned ahead of the first's commit; each may be discarded."""
        epoch = self.fold.last_epoch + 1
        first = self.plan(self.fold)
        if first is None:
            return
        answer, kept = self.read(first, epoch)
        after = fold_after(self.fold, [answer])
        assert after is not None
        ahead = self.plan(after)
        if self.rng.random() < 0.7:
            self.commit_b(first, answer, kept)
        if self.rng.random() < 0.2:
            put(self.fold, fence(driver="c"))
            return
        if ahead is None:
            return
        planned = PlannedEpoch(epoch + 1, [ahead], route=None, ahead=True)  # type: ignore[arg-type]
        second, more = self.read(ahead, epoch + 1)
        if follows(self.fold, planned):
            self.commit_b(ahead, second, more)

    def commit_b(self, planned: PlannedSplit, answer: TaskResult, kept: list[int]) -> None:
        body = prepare_record(self.fold, answer.epoch, {0: (planned,)}, [answer], "s")
        if body is None:
            return
        files = data(self.fold.term, body.epoch, *body.ranges).files
        put(self.fold, replace(body, files=files))
        for at in kept:
            came_from = self.log_b[at]
            self.table[("b", at) if came_from is None else ("a", came_from)] += 1


def live(seed: int) -> Rooms:
    """Room a works, is lost, and its mirror perhaps goes on; room b reads all that it has."""
    rng = random.Random(seed)  # noqa: S311 - repeatable, not secret
    rooms = Rooms(rng)
    steps: list[Callable[[], None]] = [
        *(rooms.write_a,) * 3,
        *(rooms.mirror,) * 3,
        rooms.commit_a,
        rooms.commit_a,
        rooms.follow,
        rooms.follow,
    ]
    if seed % 2:
        steps.append(rooms.write_b)
    for _ in range(rng.randint(5, 60)):
        rng.choice(steps)()
    rooms.switch()
    after: list[Callable[[], None]] = [rooms.run_b, rooms.run_b, rooms.write_b]
    if seed % 3:
        after.append(rooms.mirror)
    for _ in range(rng.randint(3, 30)):
        rng.choice(after)()
    while rooms.plan(rooms.fold) is not None and rooms.fold.sources["orders", 0].end < len(
        rooms.log_b
    ):
        rooms.run_b()
    return rooms


def problems(rooms: Rooms) -> list[str]:
    """What is lost or doubled."""
    wanted = {("a", at) for at in rooms.log_a if at < rooms.end}
    wanted |= {("a", at) for at in rooms.log_b if at is not None}
    wanted |= {("b", at) for at, came_from in enumerate(rooms.log_b) if came_from is None}
    lost = wanted - set(rooms.table)
    doubled = {row for row, times in rooms.table.items() if times > 1}
    return [f"lost {sorted(lost)}"] * bool(lost) + [f"doubled {sorted(doubled)}"] * bool(doubled)


@pytest.mark.parametrize("most", [10_000, 3])
def test_nothing_is_lost_or_doubled(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_copy, "MOST_PENDING", most)
    later = 0
    for seed in SEEDS:
        rooms = live(seed)
        assert problems(rooms) == [], seed
        later += rooms.position > 0
    assert later > len(SEEDS) // 4


def _place_after_a_row(copy: FollowedCopy) -> int:
    return copy.next


def _first_commit_forgets(copy: FollowedCopy, end: int) -> None:
    del end
    copy.pending.clear()


def _thinned_from_the_front(copy: FollowedCopy) -> None:
    copy.pending.popleft()


MUTANTS: dict[str, tuple[type, str, object]] = {
    "a place after a row that is not in the table": (
        FollowedCopy,
        "place",
        property(_place_after_a_row),
    ),
    "a commit that all rows wait for": (FollowedCopy, "commit", _first_commit_forgets),
    "rows that wait are forgotten when there are many": (
        FollowedCopy,
        "_thin",
        _thinned_from_the_front,
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_wrong_places_lose_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_copy, "MOST_PENDING", 3)
    monkeypatch.setattr(*MUTANTS[name])
    assert any("lost" in text for seed in SEEDS for text in problems(live(seed)))


def test_two_origin_ends_double_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch that is planned ahead has the origin end of the epoch before."""
    whole = fold_after

    def behind(fold: Fold, answers: Any) -> Fold | None:
        after = whole(fold, answers)
        if after is not None:
            for key, known in after.sources.items():
                after.sources[key] = replace(known, origin=fold.sources[key].origin)
        return after

    monkeypatch.setitem(globals(), "fold_after", behind)
    monkeypatch.setitem(globals(), "follows", lambda fold, planned: True)
    assert any(_goes_wrong(seed) for seed in SEEDS)


def _goes_wrong(seed: int) -> bool:
    """Whether a rule of the ledger refuses what follows, or rows are there twice."""
    try:
        return any("doubled" in text for text in problems(live(seed)))
    except InvariantError:
        return True
