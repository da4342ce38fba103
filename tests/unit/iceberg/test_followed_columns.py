"""Columns that others add to a lake table while a route fills it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.types import DoubleType, IntegerType, LongType, StringType, UUIDType

from sluiceway.errors import TableMismatchError
from sluiceway.observe.log import stderr_log
from sluiceway.sinks.contract import ColumnToHave, FollowedRoute, TableState
from sluiceway.sinks.iceberg.publish.table import IcebergTableSink
from tools.lake_under_test import LakeUnderTest
from tools.ledger_records import LEDGER

BEFORE = (("n", "bigint"), ("app", "string"))


@pytest.fixture
def lake(tmp_path: Path) -> LakeUnderTest:
    return LakeUnderTest(tmp_path)


class Route:
    """A driver's sink and its publisher, of a job with `evolution: follow_table`."""

    def __init__(self, lake: LakeUnderTest, *, follows: bool = True) -> None:
        self.lake, self._names = lake, lake.publisher()
        options = replace(lake.table_options, follows=follows)
        self.sink = IcebergTableSink(options, lake.options, lake.connection)
        self.state = self.sink.open()
        route = FollowedRoute(
            name="orders",
            ledger=LEDGER,
            log=lake.log,
            state=self.state,
            events=stderr_log(level="warning"),
            published_through=0,
            effects_through=0,
            note_effects=lake.writer.set_effects,
        )
        self.publisher = self.sink.followers(route)[0]

    def publish(self, row: int) -> None:
        self.lake.commit(row)
        self._names.name_files()
        self.publisher.follow(self.lake.view(hasty=True))


def alter(lake: LakeUnderTest, change: Callable[[UpdateSchema], object]) -> None:
    with lake.table().update_schema(allow_incompatible_changes=True) as update:
        change(update)


def test_a_column_that_others_add_is_seen_by_the_next_publish(lake: LakeUnderTest) -> None:
    route = Route(lake)
    assert route.sink.observed_columns() == BEFORE
    alter(lake, lambda update: update.add_column("price", DoubleType()))
    assert route.sink.observed_columns() == BEFORE
    route.publish(1)
    assert route.sink.observed_columns() == (*BEFORE, ("price", "double"))
    state = route.sink.observed_state()
    assert [field.name for field in state.further] == ["price"]
    assert '"price":3' in dict(state.files.settings)["field_ids"]
    lake.assert_exact()


def test_a_route_that_does_not_follow_sees_nothing(lake: LakeUnderTest) -> None:
    route = Route(lake, follows=False)
    alter(lake, lambda update: update.add_column("price", DoubleType()))
    route.publish(1)
    assert route.sink.observed_columns() is None


def test_what_is_seen_never_falls_behind_what_the_route_has_added(lake: LakeUnderTest) -> None:
    route = Route(lake)
    older = lake.table().metadata
    state = route.sink.add_columns([ColumnToHave("price", "double", "price")])
    assert isinstance(state, TableState)
    route.sink._observed.update(older, stderr_log(level="error"))
    assert route.sink.observed_columns() == state.columns == (*BEFORE, ("price", "double"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda update: update.rename_column("city", "town"), "column city is called town now"),
        (lambda update: update.delete_column("city"), "column city is gone"),
        (lambda update: update.update_column("size", LongType()), "column size is long now"),
    ],
    ids=["renamed", "dropped", "widened"],
)
def test_other_changes_are_left_for_the_next_start_and_told_once(
    lake: LakeUnderTest,
    change: Callable[[UpdateSchema], object],
    reason: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    alter(lake, lambda update: update.add_column("city", StringType()))
    alter(lake, lambda update: update.add_column("size", IntegerType()))
    lake.state = lake.sink.open()
    route = Route(lake)
    before = route.sink.observed_columns()
    alter(lake, change)
    alter(lake, lambda update: update.add_column("price", DoubleType()))
    for row in (1, 2):
        route.publish(row)
    assert route.sink.observed_columns() == before
    lines = [line for line in capfd.readouterr().err.splitlines() if "schema_not_followed" in line]
    assert len(lines) == 1
    assert reason in lines[0]
    lake.assert_exact()


def test_a_column_that_nothing_here_writes_stays_null_and_one_that_is_required_halts(
    lake: LakeUnderTest,
) -> None:
    route = Route(lake)
    alter(lake, lambda update: update.add_column("token", UUIDType()))
    route.publish(1)
    assert route.sink.observed_columns() == (*BEFORE, ("token", "uuid"))
    assert route.sink.observed_state().further == ()
    alter(lake, lambda update: update.add_column("must", LongType(), required=True))
    with pytest.raises(
        TableMismatchError, match="column must is required in the table, and committed"
    ):
        route.publish(2)
    with pytest.raises(TableMismatchError, match="must is required in the table, and nothing"):
        route.sink.observed_state()
