"""Dirty rows go to their store once each, in pieces that end in time, and by no fenced driver."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluiceway.errors import FencedError
from sluiceway.followers import dirty_feed
from sluiceway.followers.dirty_feed import DirtyFeeder, DirtyPlace
from sluiceway.ledger.dirty_files import CommittedDirty
from sluiceway.ledger.follower import PIECE_S, LogView
from sluiceway.types.strict_json import BigInt
from tools.ledger_records import LEDGER, data, span
from tools.table_on_disk import table_on_disk


class Store:
    """Keeps the rows that it got, and its place behind them; each row takes `row_s`."""

    def __init__(self, clock: list[float]) -> None:
        self.rows: list[tuple[int, str, int]] = []
        self.place = DirtyPlace()
        self.kept: list[int] = []
        self.row_s = 0.0
        self._clock = clock

    def open(self) -> DirtyPlace:
        return self.place

    def feed(self, found: CommittedDirty, start: int) -> Iterator[tuple[int, DirtyPlace]]:
        seq, file = found.record.seq, found.source.file
        for row in range(start, int(found.file.rows)):
            self.rows.append((seq, file, row))
            self.place = DirtyPlace(seq, file, row + 1)
            self._clock[0] += self.row_s
            yield 1, self.place

    def keep(self, place: DirtyPlace) -> None:
        self.place = place
        self.kept.append(place.seq)

    def close(self) -> None:
        """Nothing is open."""


class Eyes:
    """A log that keeps names and rows of its events."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.told.append((event, fields["rows"]))

    warning = info


class Route:
    """A ledger with epochs of dirty rows, and a feeder that the test calls itself."""

    def __init__(self, root: Path, clock: list[float]) -> None:
        self.table = table_on_disk(root)
        self.store, self.eyes = Store(clock), Eyes()
        self.expected: list[tuple[int, str, int]] = []
        self.let_go = False
        self.feeder = self.new_feeder()

    def new_feeder(self) -> DirtyFeeder:
        eyes = cast("Any", self.eyes)
        return DirtyFeeder(self.table.log, LEDGER, self.store, eyes, let_go=lambda _: self.let_go)

    def commit_dirty(self, *rows: int) -> list[Path]:
        """An epoch with a dirty file of each of these numbers of rows."""
        fold = self.table.writer.fold
        start, total = fold.sources["orders", 0].end, sum(rows)
        body = data(fold.term, fold.last_epoch + 1, span(0, start, start + total), dirty=total)
        (file,) = body.dirty_files
        files = tuple(
            replace(
                file,
                staged=file.staged.replace("dirty-", f"dirty{number}-"),
                final=file.final.replace("-0-", f"-{number}-"),
                rows=BigInt(count),
            )
            for number, count in enumerate(rows)
        )
        seq = self.table.writer.commit(replace(body, dirty_files=files)).seq
        paths = [Path(self.table.log.layout.final(each.final)) for each in files]
        for path, count in zip(paths, rows, strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            self.expected += [(seq, path.name, row) for row in range(count)]
        return paths

    @property
    def through(self) -> int:
        return self.table.writer.fold.next_seq

    def follow(self, through: int | None = None, over: Callable[[], bool] = lambda: False) -> int:
        end = self.through if through is None else through
        return self.feeder.follow(LogView(self.table.log, end, over=over))

    def has_fed(self, rows: int) -> bool:
        """So many at least."""
        return len(self.store.rows) >= rows

    def fence(self) -> None:
        def fenced() -> None:
            raise FencedError("term 1 was taken over")

        self.table.log.check_held = fenced


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seconds = [10_000.0]
    monkeypatch.setattr(dirty_feed, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    return seconds


@pytest.fixture
def route(tmp_path: Path, clock: list[float]) -> Route:
    return Route(tmp_path, clock)


def test_all_dirty_rows_are_fed_once_in_the_order_of_the_log(route: Route) -> None:
    route.commit_dirty(2, 3)
    route.table.rows("dt=20261120/hr=08")
    route.commit_dirty(1)
    assert route.follow() == route.through
    assert route.store.rows == route.expected
    assert route.eyes.told == [("dirty_rows_fed", 6)]
    route.follow()
    assert route.store.rows == route.expected
    assert len(route.eyes.told) == 1


def test_drivers_that_end_after_each_row_feed_each_once(route: Route) -> None:
    route.commit_dirty(2, 3)
    route.commit_dirty(1)
    route.commit_dirty(2)
    for fed in range(1, 9):
        route.feeder = route.new_feeder()
        route.follow(over=partial(route.has_fed, fed))
        assert len(route.store.rows) == fed
    assert route.store.rows == route.expected
    assert route.follow() == route.through


def test_place_within_a_slot_that_may_not_be_followed_yet_is_kept_as_it_is(route: Route) -> None:
    route.commit_dirty(4)
    seq = route.through - 1
    for _ in range(2):
        route.follow(over=lambda: True)
    assert route.store.place.row == 2
    # The next driver has yet to give the files of that slot their names.
    route.feeder = route.new_feeder()
    assert route.follow(through=seq) == seq
    route.feeder = route.new_feeder()
    route.follow()
    assert route.store.rows == route.expected


def test_piece_of_work_ends_behind_the_slot_at_which_its_time_is_over(route: Route) -> None:
    first = route.through
    for _ in range(3):
        route.commit_dirty(1)
    route.store.row_s = PIECE_S
    assert [route.follow(), route.follow()] == [first, first + 1]
    assert route.store.rows == route.expected[:2]
    assert [told for told, _ in route.eyes.told] == ["dirty_rows_fed"] * 2


def test_piece_of_work_goes_on_until_it_has_left_the_slot_at_which_it_began(route: Route) -> None:
    route.commit_dirty(1, 1, 1)
    route.commit_dirty(1)
    route.follow(over=lambda: True)
    route.store.row_s = PIECE_S
    before = route.feeder.place()
    assert route.follow() == before + 1


def test_fenced_driver_feeds_nothing(route: Route) -> None:
    route.commit_dirty(1)
    route.fence()
    with pytest.raises(FencedError):
        route.follow()
    assert (route.store.rows, route.store.kept) == ([], [])


def test_driver_that_is_fenced_between_two_files_feeds_no_more(route: Route) -> None:
    route.commit_dirty(1, 1)
    route.follow(over=lambda: True)
    route.fence()
    with pytest.raises(FencedError):
        route.follow()
    assert route.store.rows == route.expected[:1]


def test_fenced_driver_keeps_no_place(route: Route, clock: list[float]) -> None:
    route.follow()
    kept = list(route.store.kept)
    route.table.rows()
    route.fence()
    clock[0] += 3600.0
    with pytest.raises(FencedError):
        route.follow()
    assert route.store.kept == kept


def test_place_is_kept_after_so_many_slots_without_a_row_and_after_an_hour(
    route: Route, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dirty_feed, "_KEEP_EVERY", 3)
    route.follow()
    began = route.through
    for _ in range(7):
        route.table.rows()
        route.follow()
    assert route.store.kept == [began, began + 3, began + 6]
    assert route.feeder.rest_s() == 3600.0
    clock[0] += 3600.0
    route.follow()
    assert route.store.kept[3:] == [began + 7]


def test_place_that_came_with_rows_is_kept_with_them(route: Route, clock: list[float]) -> None:
    route.follow()
    clock[0] += 3000.0
    route.commit_dirty(1)
    route.follow()
    assert route.feeder.rest_s() == 3600.0


@pytest.mark.parametrize(("let_go", "told"), [(True, []), (False, [("dirty_file_gone", 2)])])
def test_file_that_is_gone_is_told_unless_it_was_let_go_and_the_others_are_fed(
    route: Route,
    let_go: bool,  # noqa: FBT001
    told: list[tuple[str, int]],
) -> None:
    (path,) = route.commit_dirty(3)
    route.follow(over=lambda: True)
    path.unlink()
    route.commit_dirty(1)
    route.let_go = let_go
    assert route.follow() == route.through
    assert route.store.rows == [route.expected[0], route.expected[3]]
    assert [each for each in route.eyes.told if each[0] == "dirty_file_gone"] == told
