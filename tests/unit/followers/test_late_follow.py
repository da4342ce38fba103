"""A table follows the late place: each partition shown, whatever fails, and not again and again."""

import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.catalog.metastore import MetastoreClient
from sluiceway.errors import (
    FencedError,
    MetastoreUnavailableError,
    SluicewayError,
    TableMismatchError,
)
from sluiceway.followers import late_follow, runner
from sluiceway.followers.late_follow import LateTableFollower
from sluiceway.ledger.follower import PIECE_S, LogView
from sluiceway.ledger.placing import placed
from sluiceway.observe.log import stderr_log
from sluiceway.sinks.contract import DesiredPartition, ParkedPartition
from sluiceway.sinks.hive.late_table import LateTable
from tools.followed import Followed
from tools.ledger_records import data, span, with_late
from tools.table_on_disk import TableOnDisk, table_on_disk
from tools.waiting import wait_for

PATIENCE_S = 60.0
DAY = "20261120"


class Shown(LateTable):
    """A table in memory, with what it was asked to show."""

    def __init__(self) -> None:
        client = MetastoreClient("thrift://127.0.0.1:9")
        super().__init__(client, "ods.orders", "ods.late", ledger="x", place="/late")
        self.made = 0
        self.followed = 0
        self.calls: list[list[str]] = []
        self.folders: dict[tuple[str, ...], str] = {}
        self.failure: SluicewayError | None = None
        self.show_failure: SluicewayError | None = None
        self.refused: dict[tuple[str, ...], str] = {}
        self.on_show: Callable[[], None] = lambda: None

    def find(self) -> bool:
        if self.failure is not None:
            raise self.failure
        return self.made > 0

    def follow(self) -> None:
        assert self.made
        self.followed += 1

    def make(self) -> None:
        self.made += 1
        self.folders = {}

    @property
    def created_at_s(self) -> int:
        return self.made

    def show(self, partitions: Sequence[DesiredPartition]) -> tuple[ParkedPartition, ...]:
        self.calls.append(["/".join(each.values) for each in partitions])
        self.on_show()
        if self.show_failure is not None:
            raise self.show_failure
        for each in partitions:
            if each.values not in self.refused:
                self.folders[each.values] = each.location
        return tuple(
            ParkedPartition(each.values, self.refused[each.values])
            for each in partitions
            if each.values in self.refused
        )

    @property
    def hours(self) -> list[str]:
        return sorted(hour for _, hour in self.folders)


class Route:
    """A ledger in which rows come late, and who follows it."""

    def __init__(self, folder: Path) -> None:
        self.disk: TableOnDisk = table_on_disk(folder)
        self.shown = Shown()
        self.lines = io.StringIO()
        self.followers: list[Followed] = []

    def late(self, *hours: str) -> None:
        """Commit an epoch with a late file of each hour."""
        fold = self.disk.writer.fold
        start = fold.sources["orders", 0].end
        body = with_late(data(fold.term, fold.last_epoch + 1, span(0, start, start + 10)), 1)
        (file,) = body.late_files
        files = tuple(
            replace(
                file,
                staged=file.staged.replace("late-", f"{hour}-late-"),
                final=file.final.replace("hr=08", f"hr={hour}"),
                values=(DAY, hour),
            )
            for hour in hours
        )
        rows = type(file.rows)(len(hours))
        body = replace(
            body,
            late_files=files,
            files=(replace(body.files[0], rows=type(file.rows)(10 - len(hours))),),
            counts=replace(body.counts, late=rows, written=type(file.rows)(10 - len(hours))),
            late_rows=replace(body.late_rows, side=rows),
        )
        self.disk.writer.commit(lambda now: placed(body, now))
        self.disk.writer.set_published()
        for each in self.followers:
            each.through(fold)

    def follow(self) -> Followed:
        fold, eyes = self.disk.writer.fold, stderr_log(stream=self.lines)
        made = Followed(
            LateTableFollower(self.disk.log, self.shown, eyes), self.disk.log, fold, eyes
        )
        made.through(fold)
        self.followers.append(made)
        return made

    def place(self) -> Path:
        return Path(self.disk.log.layout.late_shown)

    def events(self, name: str) -> list[dict[str, object]]:
        lines = [json.loads(line) for line in self.lines.getvalue().splitlines()]
        return [line for line in lines if line["event"] == name]


@pytest.fixture
def route(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Route]:
    for name in ("FIRST_PAUSE_S", "LONGEST_PAUSE_S"):
        monkeypatch.setattr(runner, name, 0.01)
    made = Route(tmp_path)
    yield made
    for follower in made.followers:
        follower.close()


def test_partitions_of_late_files_are_shown_where_the_files_lie(route: Route) -> None:
    route.late("05", "06")
    follower = route.follow()
    assert follower.settle(PATIENCE_S)
    late = Path(route.disk.log.layout.late)
    assert route.shown.folders == {
        (DAY, hour): str(late / f"dt={DAY}" / f"hr={hour}") for hour in ("05", "06")
    }
    route.late("07")
    assert follower.settle(PATIENCE_S)
    assert route.shown.hours == ["05", "06", "07"]


def test_partition_that_is_shown_is_not_asked_for_with_each_late_row(route: Route) -> None:
    route.late("05")
    follower = route.follow()
    assert follower.settle(PATIENCE_S)
    route.late("05")
    route.late("05", "06")
    assert follower.settle(PATIENCE_S)
    route.late("05", "06")
    assert follower.settle(PATIENCE_S)
    assert route.shown.calls == [[f"{DAY}/05"], [f"{DAY}/06"]]


def test_next_driver_goes_on_from_the_place_and_anew_without_it(route: Route) -> None:
    route.late("05")
    first = route.follow()
    assert first.settle(PATIENCE_S)
    wait_for(route.place().exists)
    first.close()
    route.late("06")
    second = route.follow()
    assert second.settle(PATIENCE_S)
    assert route.shown.calls == [[f"{DAY}/05"], [f"{DAY}/06"]]
    second.close()
    route.place().write_bytes(b"{")
    assert route.follow().settle(PATIENCE_S)
    assert route.shown.calls[2:] == [[f"{DAY}/05", f"{DAY}/06"]]


def test_table_that_was_dropped_is_made_anew_with_all_that_came_late(route: Route) -> None:
    route.late("05")
    follower = route.follow()
    assert follower.settle(PATIENCE_S)
    follower.close()
    route.shown.made = 0
    again = route.follow()
    assert again.settle(PATIENCE_S)
    assert (route.shown.made, route.shown.hours) == (1, ["05"])
    # One of the same name that was made later shows nothing yet, either.
    again.close()
    route.shown.make()
    assert route.follow().settle(PATIENCE_S)
    assert route.shown.hours == ["05"]


def test_table_that_somebody_makes_again_while_the_route_runs_shows_all_anew(
    route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_follow, "_COMPARE_EVERY_S", 0.01)
    route.late("05")
    assert route.follow().settle(PATIENCE_S)
    route.shown.make()
    wait_for(lambda: route.shown.hours == ["05"])


def test_very_many_partitions_are_shown_in_pieces(
    route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_follow, "_MOST", 2)
    for number in range(5):
        route.late(f"{number:02}")
    assert route.follow().settle(PATIENCE_S)
    assert [len(call) for call in route.shown.calls] == [2, 2, 1]
    assert route.shown.hours == [f"{number:02}" for number in range(5)]


def test_metastore_that_is_away_is_waited_for(route: Route) -> None:
    route.late("05")
    route.shown.failure = MetastoreUnavailableError("no answer")
    follower = route.follow()
    wait_for(lambda: "no answer" in follower.trouble)
    assert route.events("follower_blocked")
    route.shown.failure = None
    assert follower.settle(PATIENCE_S)
    assert follower.trouble == ""
    assert route.shown.hours == ["05"]


def test_record_that_is_gone_is_told_and_nothing_behind_it_is_passed_over(route: Route) -> None:
    for hour in ("05", "06", "07"):
        route.late(hour)
    seqs = [record.seq for record, _ in route.disk.log.records()]
    record = Path(route.disk.log.layout.record(seqs[-2]))
    whole = record.read_bytes()
    record.unlink()
    route.follow()
    wait_for(lambda: bool(route.events("follower_blocked")))
    assert f"slot {seqs[-2]} is missing" in str(route.events("follower_blocked")[0]["error"])
    assert not route.place().exists()
    record.write_bytes(whole)
    wait_for(lambda: route.shown.hours == ["05", "06", "07"])


def test_metastore_that_refuses_partitions_is_asked_less_and_less_often(
    route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "LONGEST_PAUSE_S", 0.04)
    route.late("05")
    route.shown.show_failure = MetastoreUnavailableError("no answer")
    route.follow()
    wait_for(lambda: len(route.events("follower_blocked")) >= 4)
    route.shown.show_failure = None
    wait_for(lambda: route.shown.hours == ["05"])


def test_table_that_cannot_be_one_is_told_and_holds_up_no_end_of_a_run(route: Route) -> None:
    route.late("05")
    route.shown.failure = TableMismatchError("its columns differ", where="ods.late")
    follower = route.follow()
    wait_for(lambda: bool(route.events("follower_blocked")))
    # It answers at once: nobody would wait for so long.
    assert not follower.settle(86_400.0)
    told = route.events("follower_blocked")[0]
    assert (told["code"], told["follower"]) == (TableMismatchError.code, "late_table")
    route.shown.failure = None
    wait_for(lambda: route.shown.hours == ["05"])


def test_partition_that_somebody_made_himself_is_left_alone_and_tried_again(
    route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_follow, "_PARKED_RETRY_S", 0.01)
    route.late("05")
    route.late("06")
    route.shown.refused[DAY, "05"] = "location is /elsewhere"
    follower = route.follow()
    assert follower.settle(PATIENCE_S)
    assert route.shown.hours == ["06"]
    wait_for(lambda: len(route.shown.calls) > 3)
    (told,) = route.events("late_partition_conflict")
    assert (told["values"], told["reason"]) == (f"{DAY}/05", "location is /elsewhere")
    assert not route.place().exists(), "the next driver would not try again"
    assert "1 partitions were left alone" in follower.trouble
    route.shown.refused.clear()
    wait_for(lambda: route.shown.hours == ["05", "06"])
    wait_for(route.place().exists)


def fenced() -> None:
    raise FencedError("term 1 was taken over")


def test_driver_that_was_fenced_makes_and_shows_nothing(route: Route) -> None:
    route.late("05")
    route.disk.log.check_held = fenced
    follower = route.follow()
    wait_for(lambda: "taken over" in follower.trouble)
    assert (route.shown.made, route.shown.calls) == (0, [])


def test_driver_that_is_fenced_while_it_follows_changes_nothing_more(route: Route) -> None:
    route.late("05")
    follower = route.follow()
    assert follower.settle(PATIENCE_S)
    before = (list(route.shown.calls), route.shown.followed)
    route.disk.log.check_held = fenced
    route.late("06")
    wait_for(lambda: "taken over" in follower.trouble)
    assert (route.shown.calls, route.shown.followed) == before


def test_late_table_gets_the_columns_of_the_other_before_anything_is_shown_in_it(
    route: Route,
) -> None:
    route.late("05")
    follower = route.follow()
    assert follower.settle(PATIENCE_S)
    # Once when it was found, and once before it shows something.
    assert route.shown.followed == 2
    route.late("06")
    assert follower.settle(PATIENCE_S)
    assert route.shown.followed == 3


class Clock:
    """Time that only the test moves."""

    now_s = 10_000.0

    def monotonic(self) -> float:
        return self.now_s

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(late_follow, "time", made)
    return made


def _called(route: Route) -> Callable[..., int]:
    """One piece of work of a follower that the test calls itself."""
    log, eyes = route.disk.log, stderr_log(stream=route.lines)
    follower = LateTableFollower(log, route.shown, eyes)

    def follow(*, over: bool = False) -> int:
        through = route.disk.writer.fold.next_seq
        return follower.follow(LogView(log, through, over=lambda: over))

    return follow


def test_piece_of_work_ends_behind_the_batch_at_which_its_time_is_over(
    route: Route, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_follow, "_MOST", 1)
    for hour in ("05", "06", "07"):
        route.late(hour)
    follow = _called(route)
    follow(over=True)
    assert route.shown.hours == ["05"]
    route.shown.on_show = lambda: clock.pass_s(PIECE_S / 2)
    follow()
    assert route.shown.hours == ["05", "06", "07"]
    for hour in ("08", "09"):
        route.late(hour)
    route.shown.on_show = lambda: clock.pass_s(PIECE_S)
    follow()
    assert route.shown.hours[-1] == "08"
    assert follow() == route.disk.writer.fold.next_seq
    assert route.shown.hours[-1] == "09"


def test_tables_are_compared_twice_a_minute_while_no_row_is_late(
    route: Route, clock: Clock
) -> None:
    route.late("05")
    follow = _called(route)
    follow()
    followed = route.shown.followed
    for _ in range(6):
        clock.pass_s(10.0)
        follow()
    assert route.shown.followed == followed + 2


def test_tables_that_were_just_found_are_compared_half_a_minute_later(
    route: Route, clock: Clock
) -> None:
    follow = _called(route)
    follow()
    clock.pass_s(late_follow._COMPARE_EVERY_S - 1.0)
    follow()
    assert route.shown.followed == 1
    clock.pass_s(1.0)
    follow()
    assert route.shown.followed == 2


def test_table_that_is_not_found_any_more_is_told(
    route: Route, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow = _called(route)
    follow()
    # Of a table that is gone its age is what it was when it was found.
    monkeypatch.setattr(route.shown, "find", lambda: False)
    clock.pass_s(late_follow._COMPARE_EVERY_S)
    with pytest.raises(TableMismatchError, match="dropped"):
        follow()


def _asked_at(route: Route, clock: Clock) -> list[tuple[float, list[str]]]:
    """When the table was asked to show which hours, from here on; the first time is 0."""
    began_s, asked = clock.now_s, []

    def note() -> None:
        asked.append((clock.now_s - began_s, [name[-2:] for name in route.shown.calls[-1]]))

    route.shown.on_show = note
    return asked


def test_partition_that_was_left_alone_is_tried_again_once_a_minute(
    route: Route, clock: Clock
) -> None:
    route.shown.refused[DAY, "05"] = "location is /elsewhere"
    asked = _asked_at(route, clock)
    route.late("05")
    follow = _called(route)
    follow()
    for _ in range(12):
        clock.pass_s(10.0)
        follow()
    assert asked == [(0.0, ["05"]), (60.0, ["05"]), (120.0, ["05"])]


def test_partition_that_was_left_alone_is_tried_again_though_others_come(
    route: Route, clock: Clock
) -> None:
    route.shown.refused[DAY, "05"] = "location is /elsewhere"
    asked = _asked_at(route, clock)
    route.late("05")
    follow = _called(route)
    follow()
    for hour in ("06", "07", "08"):
        clock.pass_s(25.0)
        route.late(hour)
        follow()
    assert asked == [
        (0.0, ["05"]),
        (25.0, ["06"]),
        (50.0, ["07"]),
        (75.0, ["05"]),
        (75.0, ["08"]),
    ]


def test_partition_that_was_left_alone_is_looked_at_with_each_row_that_comes_late_for_it(
    route: Route, clock: Clock
) -> None:
    route.shown.refused[DAY, "05"] = "location is /elsewhere"
    asked = _asked_at(route, clock)
    follow = _called(route)
    for _ in range(2):
        route.late("05")
        follow()
    assert asked == [(0.0, ["05"])] * 2


def test_partition_that_is_left_alone_once_more_is_told_once_more(
    route: Route, clock: Clock
) -> None:
    follow = _called(route)
    for times in (1, 2):
        route.shown.refused[DAY, "05"] = "location is /elsewhere"
        route.late("05")
        follow()
        assert len(route.events("late_partition_conflict")) == times
        route.shown.refused.clear()
        clock.pass_s(late_follow._PARKED_RETRY_S)
        follow()
        # It is looked at again: what was shown is known for as long as the table answers.
        route.shown.failure = MetastoreUnavailableError("away")
        clock.pass_s(late_follow._COMPARE_EVERY_S)
        with pytest.raises(MetastoreUnavailableError):
            follow()
        route.shown.failure = None


def test_only_partitions_that_are_shown_are_told_as_shown(route: Route, clock: Clock) -> None:
    route.shown.refused[DAY, "05"] = "location is /elsewhere"
    follow = _called(route)
    route.late("05")
    follow()
    assert route.events("late_partitions_shown") == []
    route.late("05", "06", "07")
    follow()
    (told,) = route.events("late_partitions_shown")
    assert (told["partitions"], told["through"]) == (2, route.disk.writer.fold.next_seq)


def test_place_is_kept_now_and_then_while_no_row_is_late(
    route: Route, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_follow, "_KEEP_EVERY", 5)
    follow = _called(route)

    def kept() -> int:
        return int(json.loads(route.place().read_bytes())["through"])

    route.late("05")
    begun = follow()
    assert kept() == begun
    for number in range(1, 8):
        route.late()
        through = follow()
        assert through == begun + number
        assert kept() == (begun if number < 5 else begun + 5)


def test_partitions_that_were_shown_are_remembered_in_bounded_memory(
    route: Route, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_follow, "_MOST_REMEMBERED", 2)
    follow = _called(route)
    for hour in ("05", "06", "07", "08"):
        route.late(hour)
        follow()
    # They were forgotten with the fourth, so the first is looked at once more, and then no more.
    route.late("05")
    follow()
    route.late("05")
    follow()
    assert [call[0][-2:] for call in route.shown.calls] == ["05", "06", "07", "08", "05"]
