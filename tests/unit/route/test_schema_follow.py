"""What a running route makes of columns that it sees, without a metastore."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluiceway.errors import SchemaChangedError, TableMismatchError
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.route.columns_to_add import MOST_COLUMNS
from sluiceway.route.route_meter import RouteMeter
from sluiceway.route.schema_follow import SchemaFollower
from sluiceway.sinks.added_columns import added_field, added_properties
from sluiceway.sinks.contract import ColumnsRefused, ColumnToHave, TableIdentity, TableState
from sluiceway.sinks.files.contract import PARQUET_FILES, FileChoice, FileFormat
from sluiceway.types.evolution import Columns
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, IntegerType, Schema
from sluiceway.worker.plan import ObservedField, TaskResult
from tools.evolution_jobs import evolution_route

BEFORE: Columns = (("id", "bigint"), ("geo", "struct<city:string>"))
LONG_GEO = ("geo", "struct<city:string,lat:double>")


class _Log:
    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    warning = info

    def fields(self, event: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.lines if name == event]


class _Sink:
    """A table whose columns the test changes.

    Attributes:
        refuses: Names that it takes no column of.
    """

    def __init__(self, files: FileChoice = PARQUET_FILES) -> None:
        self.seen = BEFORE
        self.files = files
        self.refuses: set[str] = set()
        self.asked: list[list[str]] = []
        self.told: list[ColumnToHave] = []

    def observed_columns(self) -> Columns:
        return self.seen

    def observed_state(self) -> TableState:
        fields = [Field(name, parse_hive_type(kind)) for name, kind in self.seen]
        return TableState(
            identity=TableIdentity("hms", "ods", "small", 1, "/t"),
            schema=Schema(tuple(field for field in fields if field.name == "id")),
            partition_columns=("dt",),
            ledger=None,
            files=self.files,
            columns=self.seen,
            further=tuple(field for field in fields if field.name != "id"),
        )

    def add_columns(self, columns: Sequence[ColumnToHave]) -> TableState | ColumnsRefused:
        names = [column.name for column in columns]
        self.asked.append(names)
        self.told += columns
        if self.refuses & {*names}:
            return ColumnsRefused("not these")
        held = dict(self.seen) | {column.name: column.type for column in columns}
        self.seen = tuple(held.items())
        return self.observed_state()


def follower(
    evolution: str, sink: _Sink, *, left_out: frozenset[str] = frozenset()
) -> tuple[SchemaFollower, _Log]:
    log = _Log()
    owned = SimpleNamespace(
        owner=SimpleNamespace(ledger="l"),
        writer=SimpleNamespace(term=1),
        tenure=SimpleNamespace(check=lambda: None),
        layout=LedgerLayout("/t", "small"),
        state=sink.observed_state(),
    )
    config = replace(compile_route(evolution_route(f"evolution: {evolution}")), left_out=left_out)
    made = SchemaFollower(
        config, cast("Any", owned), cast("Any", sink), cast("Any", log), RouteMeter(1.0)
    )
    return made, log


def answer(*fields: ObservedField) -> list[TaskResult]:
    return [cast("TaskResult", SimpleNamespace(unknown_fields=fields, unfilled=None))]


def field(name: str, kind: str = "bigint", *, column: str = "", untyped: str = "") -> ObservedField:
    return ObservedField(column, tuple(name.split(".")), kind, untyped)


def test_route_that_follows_reads_nothing_by_the_names_that_its_job_file_leaves_out() -> None:
    sink = _Sink()
    schema, _ = follower("follow_table", sink, left_out=frozenset({"x"}))
    schema.read()
    sink.seen = (*BEFORE, ("x", "int"), ("y", "int"))
    assert [each.name for each in schema.read().schema.fields] == ["id", "geo", "y"]


def test_route_that_follows_plans_with_the_columns_of_now_and_owes_them_to_partitions() -> None:
    sink = _Sink()
    schema, log = follower("follow_table", sink)
    assert schema.owes_columns()
    assert not schema.owes_columns()
    before = schema.read()
    assert [each.name for each in before.schema.fields] == ["id", "geo"]
    sink.seen = (BEFORE[0], LONG_GEO, ("x", "int"))
    after = schema.read()
    assert [each.name for each in after.schema.fields] == ["id", "geo", "x"]
    assert after.schema_version != before.schema_version
    assert schema.current() is after
    assert schema.read() is after
    assert schema.owes_columns()
    (told,) = log.fields("schema_followed")
    assert told["column x"] == "added as int"


@pytest.mark.parametrize("evolution", ["fail", "follow_table", "add_columns", "quarantine"])
@pytest.mark.parametrize("seen", [BEFORE[1:], (("id", "string"), BEFORE[1])])
def test_column_that_is_filled_and_goes_or_changes_its_type_halts(
    evolution: str, seen: Columns
) -> None:
    sink = _Sink()
    schema, _ = follower(evolution, sink)
    sink.seen = seen
    with pytest.raises(SchemaChangedError, match="id: bigint -> ") as caught:
        schema.read()
    assert not caught.value.mendable
    assert caught.value.where == "ods.small"


def test_declared_columns_concern_a_route_that_does_not_follow_alone() -> None:
    for evolution in ("fail", "quarantine"):
        sink = _Sink()
        schema, log = follower(evolution, sink)
        plan = schema.read()
        sink.seen = (BEFORE[0], ("geo", "string"), ("x", "int"))
        assert schema.read() is plan
        assert log.lines == []


@pytest.mark.parametrize("evolution", ["fail", "quarantine"])
def test_columns_of_the_table_are_all_concerned(evolution: str) -> None:
    sink = _Sink()
    schema, log = follower(evolution, sink)
    schema._config = cast("Any", _with_tables_columns(schema._config))
    sink.seen = (*BEFORE, ("x", "int"))
    if evolution == "fail":
        with pytest.raises(SchemaChangedError, match="x: added as int"):
            schema.read()
        return
    plan = schema.current()
    assert schema.read() is plan
    assert [told["column x"] for told in log.fields("schema_not_followed")] == ["added as int"]


def _with_tables_columns(config: Any) -> Any:
    return SimpleNamespace(columns=None, evolution=config.evolution)


def test_columns_at_other_places_halt_where_files_hold_them_by_place() -> None:
    for files, halts in ((PARQUET_FILES, False), (_text_files(), True)):
        sink = _Sink(files)
        schema, _ = follower("follow_table", sink)
        sink.seen = (BEFORE[1], BEFORE[0])
        if halts:
            with pytest.raises(SchemaChangedError, match="places: id, geo moved"):
                schema.read()
        else:
            assert schema.read() is schema.current()


def _text_files() -> FileChoice:
    columns = Schema(tuple(Field(name, parse_hive_type(kind)) for name, kind in BEFORE))
    return FileChoice(FileFormat.TEXT, "none", columns)


def test_epoch_is_read_again_when_a_column_was_added_for_it() -> None:
    sink = _Sink()
    schema, log = follower("add_columns", sink)
    planned = schema.read()
    assert not schema.add_columns(planned, answer())
    assert schema.add_columns(
        planned, [*answer(field("userId")), *answer(field("userId", "double"))]
    )
    assert sink.seen[-1] == ("userid", "double")
    assert log.fields("columns_added")[0]["column userid"] == "double"
    # One that was planned ahead with the columns before is read again too, and adds nothing.
    assert schema.add_columns(planned, answer(field("userId")))
    assert len(sink.asked) == 1
    # Without a field that it does not know it is written with its own columns.
    assert not schema.add_columns(planned, answer())
    assert schema.owes_columns()


def test_refused_columns_leave_the_others_and_are_asked_for_once() -> None:
    sink = _Sink()
    sink.refuses = {"geo"}
    schema, log = follower("add_columns", sink)
    fields = answer(field("x"), field("lat", "double", column="geo"))
    assert schema.add_columns(schema.read(), fields)
    together, *singly = sink.asked
    assert sorted(together) == ["geo", "x"]
    assert sorted(singly) == [["geo"], ["x"]]
    assert [told["field"] for told in log.fields("field_not_added")] == ["geo.lat"]
    assert not schema.add_columns(schema.read(), fields)
    assert len(sink.asked) == 3


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (field("x", "", untyped="values are numbers and strings"), "numbers and strings"),
        (field("a-b"), "no name of a column"),
        (field("DT"), "has a column dt"),
        (field("ID"), "has a column id"),
        (field("sub.b", column="id"), "has such a field"),
        (field("x", f"struct<{','.join(f'a{n}:bigint' for n in range(500))}>"), "characters"),
    ],
)
def test_field_that_no_column_can_hold_is_told_once(seen: ObservedField, reason: str) -> None:
    sink = _Sink()
    schema, log = follower("add_columns", sink)
    for _ in range(2):
        assert not schema.add_columns(schema.read(), answer(seen))
    (told,) = log.fields("field_not_added")
    assert reason in told["reason"]
    assert sink.asked == []


def test_field_whose_values_tell_nothing_is_asked_again() -> None:
    sink = _Sink()
    schema, log = follower("add_columns", sink)
    assert not schema.add_columns(schema.read(), answer(field("x", "")))
    assert log.fields("field_not_added") == []
    assert schema.add_columns(schema.read(), [*answer(field("x", "")), *answer(field("x"))])


def test_time_of_a_clock_gets_a_zone_with_its_column() -> None:
    sink = _Sink()
    schema, _ = follower("add_columns", sink)
    clock = ObservedField("", ("at",), "timestamp", is_clock=True)
    assert schema.add_columns(schema.read(), answer(clock, ObservedField("", ("day",), "date")))
    assert {each.name: each.timezone for each in sink.told} == {"at": "UTC", "day": ""}


def test_field_of_a_wrapped_row_keeps_its_path() -> None:
    sink = _Sink()
    schema, _ = follower("add_columns", sink)
    assert schema.add_columns(
        schema.read(), answer(ObservedField("", ("payload", "cityId"), "bigint"))
    )
    (column,) = sink.told
    assert (column.name, column.key) == ("cityid", "$.payload.cityId")
    properties = added_properties([column])
    assert added_field("cityid", IntegerType(64), "t", properties).path == ("payload", "cityId")


def test_time_of_a_clock_is_not_added_inside_of_a_column_that_names_no_zone() -> None:
    sink = _Sink()
    sink.seen = (("id", "struct<a:int>"), *BEFORE[1:])
    schema, log = follower("add_columns", sink)
    clock = ObservedField("id", ("at",), "timestamp", is_clock=True)
    assert not schema.add_columns(schema.read(), answer(clock))
    assert "has no `timezone`" in log.fields("field_not_added")[0]["reason"]
    assert schema.add_columns(schema.read(), answer(ObservedField("id", ("day",), "date")))


def test_value_that_fits_no_column_is_told_and_its_field_may_get_one_later() -> None:
    sink = _Sink()
    schema, log = follower("add_columns", sink)
    for _ in range(2):
        assert not schema.add_columns(
            schema.read(), answer(ObservedField("", ("x",), "", unfit="too late"))
        )
    (told,) = log.fields("field_not_added")
    assert "too late" in told["reason"]
    assert schema.add_columns(schema.read(), answer(field("x")))


def test_table_does_not_grow_without_end() -> None:
    sink = _Sink()
    sink.seen = (*BEFORE, *((f"c{n}", "int") for n in range(MOST_COLUMNS - 3)))
    schema, log = follower("add_columns", sink)
    assert schema.add_columns(schema.read(), answer(field("x"), field("y")))
    assert sink.asked == [["x"]]
    assert "1000 columns" in log.fields("field_not_added")[0]["reason"]


def test_table_that_is_gone_is_no_refusal() -> None:
    sink = _Sink()
    schema, _ = follower("add_columns", sink)

    def gone(columns: Sequence[ColumnToHave]) -> TableState:
        raise TableMismatchError("the table was dropped")

    sink.add_columns = gone  # type: ignore[method-assign]
    with pytest.raises(TableMismatchError, match="dropped"):
        schema.add_columns(schema.read(), answer(field("x")))


def test_ignored_fields_are_told_once_each_and_counted_for_the_status() -> None:
    schema, log = follower("fail", _Sink())
    planned = schema.read()
    assert planned.samples == "few"
    first = ObservedField("", ("userId",), "bigint", rows=3)
    nested = ObservedField("items", ("[]", "sku"), "", "values are numbers and strings", rows=1)
    assert not schema.add_columns(planned, [*answer(first), *answer(first, nested)])
    assert not schema.add_columns(planned, answer(first, field("x\ny")))
    told = [line["fields"] for line in log.fields("fields_ignored")]
    assert told == [
        {"userId": "bigint", "items[].sku": "of no one type"},
        {"x\\ny": "bigint"},
    ]
    counts = schema._meter.read().ignored_fields
    assert counts == {"userId": 9, "items[].sku": 1, "x\\ny": 1}


def test_fields_that_the_job_file_leaves_out_are_no_news() -> None:
    schema, log = follower("fail", _Sink(), left_out=frozenset({"trace"}))
    same_name = ObservedField("items", ("trace",), "string", rows=1)
    assert not schema.add_columns(schema.read(), answer(field("Trace"), field("x"), same_name))
    (told,) = log.fields("fields_ignored")
    assert list(told["fields"]) == ["x", "items.trace"]


def test_names_of_ignored_fields_are_bounded() -> None:
    schema, log = follower("fail", _Sink())
    for start in range(0, 1000, 100):
        schema.add_columns(
            schema.read(), answer(*(field(f"k{n}") for n in range(start, start + 100)))
        )
    assert len(schema._meter.ignored_fields) == 200
    assert len(log.fields("fields_ignored")) == 2


def filled(seen: Sequence[ObservedField], *empty: str, rows: bool = True) -> list[TaskResult]:
    """An answer whose rows fill all columns but these."""
    told = SimpleNamespace(unknown_fields=seen, unfilled=empty if rows else None)
    return [cast("TaskResult", told)]


def test_column_that_no_row_fills_beside_a_field_that_none_reads_is_warned_of_once() -> None:
    schema, log = follower("fail", _Sink())
    planned = schema.read()
    first, second = planned.schema.fields[0].name, "of another version"
    near = f"{first}x"
    schema.add_columns(planned, [*filled([field(near)], first, second), *filled([], first)])
    schema.add_columns(planned, filled([field(near)], first))
    (told,) = log.fields("columns_never_filled")
    assert (told["columns"], told["fields_not_read"]) == ([first], [near])
    assert told["hint"].startswith(f"did you mean the field `{near}` for {first}? ")
    assert schema._meter.read().unfilled_columns == {first: near}


def test_column_that_a_later_row_fills_is_not_named_any_more() -> None:
    schema, log = follower("fail", _Sink())
    planned = schema.read()
    first = planned.schema.fields[0].name
    schema.add_columns(planned, filled([field("zzzz9")], first))
    assert schema._meter.read().unfilled_columns == {first: ""}
    schema.add_columns(planned, filled([], rows=False))
    assert schema._meter.read().unfilled_columns == {first: ""}
    schema.add_columns(planned, filled([]))
    assert schema._meter.read().unfilled_columns == {}
    # An epoch without it says nothing against the one that had it.
    schema.add_columns(planned, filled([], first))
    assert schema._meter.read().unfilled_columns == {}
    assert len(log.fields("columns_never_filled")) == 1


def test_empty_column_alone_and_unread_field_alone_are_no_warning() -> None:
    schema, log = follower("fail", _Sink())
    planned = schema.read()
    schema.add_columns(planned, filled([], planned.schema.fields[0].name))
    assert log.fields("columns_never_filled") == []
    schema, log = follower("fail", _Sink())
    schema.add_columns(planned, filled([field("x")]))
    assert log.fields("columns_never_filled") == []
    assert schema._meter.read().unfilled_columns == {}
