"""Columns change while a route runs: followed or added at an epoch's border, or it halts."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from pymetastore.hive_metastore import ttypes

from sluiceway.catalog.metastore import MetastoreClient
from sluiceway.cli.app import run_command
from sluiceway.errors import SchemaChangedError
from sluiceway.observe.steps import Step
from sluiceway.route.prepare import prepare_record
from sluiceway.route.route_planner import RoutePlanner
from sluiceway.route.schema_follow import SchemaFollower
from sluiceway.route.status import decode_status
from sluiceway.sinks.hive.table import HiveTableSink
from tools.raw_metastore import proxy_that_keeps_types, raw_client
from tools.route_faults import Crash, NewRun, data_records, live, offsets, wait_until
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

_COMMITTER = "sluiceway.route.committer"
_TS = 1_795_161_600_000
GEO = """\
    - {name: id, type: bigint}
    - {name: ts, type: bigint, required: true}
    - {name: geo, type: "struct<city:string>"}
"""

Alter = Callable[..., None]


def row(number: int, **more: Any) -> bytes:
    return json.dumps({"id": number, "ts": _TS, **more}).encode()


@pytest.fixture
def alter(metastore_uri: str) -> Alter:
    """`ALTER TABLE` as another client does it, with no CASCADE."""

    def change(run: RouteRun, **columns: str | None) -> None:
        hive = run.job.route.table
        with raw_client(metastore_uri) as client:
            raw = client.get_table(hive.database, hive.table)
            held = {column.name: column.type for column in raw.sd.cols} | columns
            raw.sd.cols = [ttypes.FieldSchema(n, t) for n, t in held.items() if t is not None]
            client.alter_table(hive.database, hive.table, raw)

    return change


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluiceway.followers.catalog._LOOK_INTERVAL_S", 0.2)


def columns_of(run: RouteRun, metastore_uri: str) -> dict[str, str]:
    client = MetastoreClient(metastore_uri)
    table = client.get_table(run.job.route.table.database, run.job.route.table.table)
    client.close()
    assert table is not None
    return {column.name: column.type for column in table.layout.columns}


def partition_columns(run: RouteRun, metastore_uri: str) -> list[list[str]]:
    hive = run.job.route.table
    client = MetastoreClient(metastore_uri)
    names = client.list_partition_names(hive.database, hive.table)
    found = client.get_partitions(hive.database, hive.table, names)
    client.close()
    return [[column.name for column in part.layout.columns] for part in found.values()]


def schemas(run: RouteRun) -> list[str]:
    return [record.schema for record in data_records(run)]


@contextmanager
def feeding(run: RouteRun, writer: TopicWriter, topic: str) -> Iterator[Any]:
    """A live route with a hand to write rows until something holds."""
    with live(run) as running:

        def write_until(condition: Callable[[], bool], number: int, **more: Any) -> None:
            def once() -> bool:
                writer.write(topic, [row(number, **more)])
                return running.ended() or condition()

            wait_until(once)

        yield running, write_until


# add_columns


def test_unknown_fields_become_columns_and_no_row_of_theirs_is_lost_or_null(
    new_run: NewRun, writer: TopicWriter, metastore_uri: str
) -> None:
    run, topic = new_run(columns=GEO, evolution="add_columns")
    writer.write(topic, [row(0, geo={"city": "a"}), row(1)])
    run.catch_up()
    writer.write(
        topic,
        [
            row(2, geo={"city": "b", "lat": 1.5}),
            row(3, userId=7, tags=["x"], nothing=None),
            row(4, userId=2**62, flag=True, deep={"a": {"b": [1, 2]}}),
            row(5),
        ],
    )
    run.catch_up()
    assert columns_of(run, metastore_uri) == {
        "id": "bigint",
        "ts": "bigint",
        "geo": "struct<city:string,lat:double>",
        **{f"_{name}": kind for name, kind in _META.items()},
        "deep": "struct<a:struct<b:array<bigint>>>",
        "flag": "boolean",
        "tags": "array<string>",
        "userid": "bigint",
    }
    # Readers that go by a partition's own columns see them in the old partition too.
    assert all("userid" in columns for columns in partition_columns(run, metastore_uri))
    assert run.rows("id, userid, flag, geo, tags, deep") == [
        (0, None, None, {"city": "a", "lat": None}, None, None),
        (1, None, None, None, None, None),
        (2, None, None, {"city": "b", "lat": 1.5}, None, None),
        (3, 7, None, None, ["x"], None),
        (4, 2**62, True, None, None, {"a": {"b": [1, 2]}}),
        (5, None, None, None, None, None),
    ]
    assert run.dirty() == []
    before, after = schemas(run)
    assert before != after
    # A new driver reads the same columns by the same keys, declared or not.
    writer.write(topic, [row(6, userId=8)])
    run.catch_up()
    assert (6, 8) in run.rows("id, userid")
    assert schemas(run) == [before, after, after]
    run.assert_verified()


_META = {"topic": "string", "partition": "int", "offset": "bigint", "timestamp": "timestamp"}


WRAPPED = """\
    - {name: id, type: bigint, path: payload.id}
    - {name: ts, type: bigint, path: payload.ts, required: true}
"""
_DECIMAL = {
    "type": "bytes",
    "name": "org.apache.kafka.connect.data.Decimal",
    "parameters": {"scale": "2", "connect.decimal.precision": "10"},
}
_CLOCK = {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}
_FIELDS = [
    {"type": "int64", "field": "id"},
    {"type": "int64", "field": "ts"},
    {**_DECIMAL, "field": "Amt"},
    {**_CLOCK, "field": "at"},
    {"type": "array", "items": {"type": "int32", "name": "io.debezium.time.Date"}, "field": "days"},
    {"type": "map", "keys": {"type": "string"}, "values": _DECIMAL, "field": "fees"},
]


def wrapped(number: int, **more: Any) -> bytes:
    """A row with its schema around it, as a connector that takes envelopes off writes it."""
    payload = {"id": number, "ts": _TS, **more}
    return json.dumps(
        {"schema": {"type": "struct", "fields": _FIELDS}, "payload": payload}
    ).encode()


def test_fields_of_rows_with_a_schema_become_columns_of_what_it_means(
    new_run: NewRun, writer: TopicWriter, metastore_uri: str
) -> None:
    """A driver that comes later reads the same columns by the same keys and zone."""
    run, topic = new_run(columns=WRAPPED, evolution="add_columns")
    new = {"Amt": "1000", "at": 1_763_632_800_000_000, "days": [20412], "fees": {"x": "AfQ="}}
    writer.write(topic, [wrapped(0), wrapped(1, **new)])
    run.catch_up()
    kinds = columns_of(run, metastore_uri)
    wanted = {
        "amt": "decimal(10,2)",
        "at": "timestamp",
        "days": "array<date>",
        "fees": "map<string,decimal(10,2)>",
    }
    assert {name: kinds.get(name) for name in wanted} == wanted
    writer.write(topic, [wrapped(2, **new), wrapped(3)])
    run.catch_up()
    assert run.dirty() == []
    shown = """id, amt, "at"::varchar, days[1]::varchar, map_extract(fees, 'x')[1]"""
    found = run.rows(shown)
    amount, fee = Decimal("-26672.12"), Decimal("5.00")
    full = (amount, "2025-11-20 10:00:00", "2025-11-20", fee)
    assert found == [(n, *(full if n in (1, 2) else (None,) * 4)) for n in range(4)]
    run.assert_verified()


def test_metastore_that_refuses_fields_in_structs_gets_the_columns_and_the_rows_are_dirty(
    new_run: NewRun, writer: TopicWriter, metastore_uri: str
) -> None:
    nested = row(1, geo={"city": "b", "lat": 1.5})
    with proxy_that_keeps_types(metastore_uri) as uri:
        run, topic = new_run(columns=GEO, evolution="add_columns", metastore_uri=uri)
        writer.write(topic, [row(0, userid=1), nested, row(2)])
        run.catch_up()
        assert run.rows("id, userid") == [(0, 1), (2, None)]
        assert run.dirty("value, reason, path") == [(nested, "unexpected_field", "geo.lat")]
        assert columns_of(run, metastore_uri)["geo"] == "struct<city:string>"
        run.assert_verified()


def test_fields_that_no_column_can_hold_stay_dirty_beside_those_that_are_added(
    new_run: NewRun, writer: TopicWriter, metastore_uri: str
) -> None:
    run, topic = new_run(columns=GEO, evolution="add_columns")
    odd = [
        row(0, mixed=1),
        row(1, mixed="a"),
        row(2, **{"not a name": 1}),
        row(3, dt="20261120"),
        row(4, ID=3),
        row(5, empty=[]),
        row(6, huge=10**40),
    ]
    writer.write(topic, [*odd, row(7, fine=1)])
    run.catch_up()
    assert run.rows("id, fine") == [(7, 1)]
    assert run.dirty('"offset", reason') == [(n, "unexpected_field") for n in range(7)]
    assert [*columns_of(run, metastore_uri)][-1] == "fine"
    run.assert_verified()


def test_values_that_do_not_fit_an_added_column_are_dirty(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run, topic = new_run(columns=GEO, evolution="add_columns")
    writer.write(topic, [row(0, n=1)])
    run.catch_up()
    writer.write(topic, [row(1, n="x"), row(2, n=3)])
    run.catch_up()
    assert run.rows("id, n") == [(0, 1), (2, 3)]
    assert run.dirty('"offset", reason, path') == [(1, "bad_text", "n")]


def test_epoch_planned_ahead_of_a_schema_change_is_thrown_away_and_read_by_the_new_columns(
    new_run: NewRun, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, topic = new_run(columns=GEO, evolution="add_columns")
    run.catch_up()
    writer.write(topic, [row(n) for n in range(5)])
    seen: Counter[Step] = Counter()
    calls: list[int] = []
    add = HiveTableSink.add_columns

    def hold_up_the_first(*asked: Any) -> Any:
        calls.append(len(calls))
        if len(calls) == 1:
            writer.write(topic, [row(5, x=1)])
            wait_until(lambda: seen[Step.WRITTEN] == 2)
        return prepare_record(*asked)

    def hold_up_the_change(*asked: Any) -> Any:
        # A third epoch is read, by the old columns, while the second waits for its ALTER.
        writer.write(topic, [row(6), row(7, x=2)])
        wait_until(lambda: seen[Step.WRITTEN] == 3)
        return add(*asked)

    monkeypatch.setattr(f"{_COMMITTER}.prepare_record", hold_up_the_first)
    monkeypatch.setattr(HiveTableSink, "add_columns", hold_up_the_change)
    with live(run, lambda step: seen.update([step])) as running:
        running.wait_for(lambda: len(run.rows()) == 8)
        running.stop()
    assert run.rows("id, x") == [*((n, None) for n in range(5)), (5, 1), (6, None), (7, 2)]
    assert run.dirty() == []
    assert len({*schemas(run)}) == 2
    run.assert_verified()


@pytest.mark.parametrize("landed", [False, True])
def test_driver_that_dies_at_the_alter_loses_nothing(
    new_run: NewRun, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch, *, landed: bool
) -> None:
    run, topic = new_run(columns=GEO, evolution="add_columns")
    writer.write(topic, [row(0)])
    run.catch_up()
    writer.write(topic, [row(1, userId=1), row(2)])
    add = HiveTableSink.add_columns

    def die(*asked: Any) -> Any:
        if landed:
            add(*asked)
        raise Crash

    monkeypatch.setattr(HiveTableSink, "add_columns", die)
    with pytest.raises(Crash):
        run.catch_up()
    monkeypatch.undo()
    assert len(data_records(run)) == 1
    run.catch_up()
    assert run.rows("id, userid") == [(0, None), (1, 1), (2, None)]
    assert run.dirty() == []
    run.assert_verified()


# quarantine


def test_quarantine_keeps_rows_with_unknown_fields_whole(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run, topic = new_run(columns=GEO, evolution="quarantine")
    payloads = [row(0), row(1, x=1), row(2, x=None), row(3, geo={"city": "a", "zip": 1})]
    writer.write(topic, payloads)
    run.catch_up()
    assert run.rows("id") == [(0,), (2,)]
    assert run.dirty("value, reason, path") == [
        (payloads[1], "unexpected_field", "x"),
        (payloads[3], "unexpected_field", "geo.zip"),
    ]
    assert data_records(run)[0].dirty_reasons == {
        "unexpected_field x": 1,
        "unexpected_field geo.zip": 1,
    }
    run.assert_verified()


# follow_table


@pytest.mark.parametrize("columns", [GEO, "    from_table\n"], ids=["declared", "from_table"])
def test_columns_that_somebody_adds_are_filled_from_an_epoch_on(
    new_run: NewRun, writer: TopicWriter, alter: Alter, metastore_uri: str, columns: str
) -> None:
    name = f"ods.s_{uuid4().hex[:8]}"
    run, topic = new_run(columns=GEO, evolution="follow_table", table=name)
    writer.write(topic, [row(0, x=1, geo={"city": "a", "zip": 1})])
    run.catch_up()
    text = run.job.path.read_text()
    run.job.path.write_text(text.replace(f"  columns:\n{GEO}", f"  columns:\n{columns}"))
    with feeding(run, writer, topic) as (running, write_until):
        write_until(lambda: len(data_records(run)) > 2, 1, x=2, geo={"city": "b", "zip": 2})
        before = {*schemas(run)}
        alter(run, x="int", geo="struct<city:string,zip:int>")
        filled = (2, 3, {"city": "c", "zip": 3})
        write_until(lambda: bool({*schemas(run)} - before), 2, x=3, geo={"city": "c", "zip": 3})
        # Of the partition that was there before, in the same run.
        running.wait_for(lambda: all("x" in held for held in partition_columns(run, metastore_uri)))
        running.stop()
    run.catch_up()
    found = run.rows("id, x, geo")
    assert found[0] == (0, None, {"city": "a", "zip": None})
    assert filled in found
    # Each epoch has one schema: a row is filled whole or, before the border, not at all.
    assert {each for each in map(repr, found) if each.startswith("(2,")} <= {
        repr(filled),
        repr((2, None, {"city": "c", "zip": None})),
    }
    assert run.dirty() == []
    run.assert_verified()


def test_epoch_that_waits_for_its_commit_keeps_the_columns_it_was_planned_with(
    new_run: NewRun, writer: TopicWriter, alter: Alter, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, topic = new_run(columns=GEO, evolution="follow_table")
    run.catch_up()
    writer.write(topic, [row(0, x=0)])
    seen: Counter[Step] = Counter()
    calls: list[int] = []
    ahead_of, take = RoutePlanner.ahead_of, SchemaFollower.add_columns

    def alter_before_the_next_is_planned(planner: RoutePlanner, answers: Any) -> Any:
        if not calls and any(answer.moved() for answer in answers):
            calls.append(0)
            alter(run, x="int")
            # As the thread beside does it now and then.
            planner._context.parts.sink.apply([])
            writer.write(topic, [row(1, x=1)])
        return ahead_of(planner, answers)

    def hold_up_the_first(*asked: Any) -> bool:
        if len(calls) == 1:
            calls.append(1)
            held_at = seen[Step.WRITTEN]
            wait_until(lambda: seen[Step.WRITTEN] > held_at)
        return take(*asked)

    monkeypatch.setattr(RoutePlanner, "ahead_of", alter_before_the_next_is_planned)
    monkeypatch.setattr(SchemaFollower, "add_columns", hold_up_the_first)
    with live(run, lambda step: seen.update([step])) as running:
        running.wait_for(lambda: len(data_records(run)) == 2)
        running.stop()
    first, second = schemas(run)
    assert first != second
    assert run.rows("id, x") == [(0, None), (1, 1)]
    run.assert_verified()


@pytest.mark.parametrize("evolution", ["follow_table", "fail"])
@pytest.mark.parametrize("change", [{"geo": None}, {"id": "string"}], ids=["removed", "retyped"])
def test_columns_that_go_or_change_their_type_halt_with_the_difference(
    new_run: NewRun,
    writer: TopicWriter,
    alter: Alter,
    evolution: str,
    change: dict[str, str | None],
) -> None:
    run, topic = new_run(columns=GEO, evolution=evolution)
    writer.write(topic, [row(0)])
    run.catch_up()
    with feeding(run, writer, topic) as (running, write_until):
        write_until(lambda: len(data_records(run)) > 1, 1)
        alter(run, **change)
        write_until(running.ended, 2)
        error = running.error()
    assert isinstance(error, SchemaChangedError)
    (name,) = change
    assert error.evidence[f"column {name}"].endswith(change[name] or "gone")
    assert not error.mendable


def test_fail_halts_for_a_new_column_when_the_table_says_which_there_are(
    new_run: NewRun, writer: TopicWriter, alter: Alter
) -> None:
    run, topic = new_run(columns=GEO)
    writer.write(topic, [row(0, x=1)])
    run.catch_up()
    text = run.job.path.read_text()
    run.job.path.write_text(text.replace(f"  columns:\n{GEO}", "  columns: from_table\n"))
    with feeding(run, writer, topic) as (running, write_until):
        write_until(lambda: len(data_records(run)) > 1, 1, x=2)
        alter(run, x="int")
        write_until(running.ended, 2, x=3)
        error = running.error()
    assert isinstance(error, SchemaChangedError)
    assert error.evidence == {"column x": "added as int"}
    run.catch_up()
    assert (2, 3) in run.rows("id, x")
    run.assert_verified()


def test_fail_goes_on_when_a_column_comes_that_the_job_file_does_not_declare(
    new_run: NewRun, writer: TopicWriter, alter: Alter
) -> None:
    run, topic = new_run(columns=GEO)
    writer.write(topic, [row(0)])
    run.catch_up()
    with feeding(run, writer, topic) as (running, write_until):
        alter(run, x="int")
        before = len(data_records(run))
        write_until(lambda: len(data_records(run)) > before + 3, 1, x=2)
        running.stop()
    assert len({*schemas(run)}) == 1
    assert offsets(0, range(1)) == run.rows()[:1]


def test_fields_that_are_ignored_are_named_in_the_status(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run, topic = new_run(columns=GEO)
    writer.write(topic, [row(0, newcomer=1, nothing=None, geo={"city": "a", "zip": 1})])
    run.catch_up()
    assert run.rows("id") == [(0,)]
    status = decode_status(
        (run.root() / "_sluiceway" / run.config().route / "status.json").read_bytes()
    )
    assert status is not None
    assert status.ignored_fields == {"newcomer": 1, "geo.zip": 1}
    assert status.unfilled_columns == {}


def test_misspelt_column_is_named_with_the_field_that_was_meant_after_the_driver_has_ended(
    new_run: NewRun, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    run, topic = new_run(columns=f"{GEO}    - {{name: user_name, type: string}}\n")
    writer.write(topic, [row(n, user_nmae="a", geo={"city": "a"}) for n in range(3)])
    run.catch_up()
    assert run.rows("user_name") == [(None,)] * 3
    assert '"event": "columns_never_filled"' in capsys.readouterr().err
    assert run_command(["status", str(run.job.path)]) == 0
    shown = capsys.readouterr().out
    assert "no row since the driver started fills user_name (did you mean user_nmae?); " in shown
