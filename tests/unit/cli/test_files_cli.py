"""`sluiceway files`: all rows of a table, each once, for readers that ask no metastore."""

import json
import subprocess
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.cli.app import run_command
from sluiceway.ledger import sealing
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.sealing import to_seal
from sluiceway.ledger.snapshot import write_hint, write_side_file
from sluiceway.sinks.files.contract import INT96, MICROS, TIMESTAMPS, FileChoice
from sluiceway.sinks.files.registry import open_format
from sluiceway.storage.local import LocalStorage
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema
from sluiceway.upkeep.partition_bodies import expire_body, intent_body, ready_body, replace_body
from tools.ledger_records import staged
from tools.table_on_disk import TableOnDisk, table_on_disk

SIX, SEVEN, EIGHT = (f"dt=20261120/hr={hour:02d}" for hour in (6, 7, 8))


def shown(table: TableOnDisk, *files: FileRecord) -> None:
    """Give files their final names, with as many rows as their records say."""
    for file in files:
        path = Path(table.log.layout.final(file.final))
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = int(file.rows)
        pq.write_table(pa.table({"n": range(rows), "app": ["a"] * rows}), path)


def compacted(table: TableOnDisk, partition: str, live: tuple[FileRecord, ...]) -> None:
    writer, rows = table.writer, sum(int(file.rows) for file in live)
    intent = writer.commit(
        lambda fold: intent_body(fold, partition, "compact") or pytest.fail("no record")
    ).seq
    added = staged(writer.fold, intent, rows)
    slot = writer.commit(
        lambda fold: replace_body(fold, intent, live, added) or pytest.fail("no record")
    ).seq
    found = table.log.read_slot(slot)
    assert found is not None
    shown(table, *found[0].body.added)  # type: ignore[union-attr]
    writer.set_published()


@pytest.fixture
def table(tmp_path: Path) -> TableOnDisk:
    """Two hours, the first of which was compacted; its old files are there still."""
    made = table_on_disk(tmp_path)
    first = made.rows(SEVEN, rows=4)
    second = made.rows(SEVEN, rows=3)
    shown(made, *first, *second, *made.rows(EIGHT, rows=5))
    compacted(made, SEVEN, (*first, *second))
    return made


def listed(
    capsys: pytest.CaptureFixture[str], table: TableOnDisk, *options: str
) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert run_command(["files", str(table.job), *options, "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["table"] == "ods.orders"
    found: list[dict[str, Any]] = answer["files"]
    return found


def rows_of(files: list[dict[str, Any]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in files:
        found[each["partition"]] = found.get(each["partition"], 0) + each["rows"]
    return found


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((), {SEVEN: 7, EIGHT: 5}),
        (("dt=20261120",), {SEVEN: 7, EIGHT: 5}),
        ((SEVEN,), {SEVEN: 7}),
        ((f"/{EIGHT}/",), {EIGHT: 5}),
        (("dt=20261121",), {}),
    ],
)
def test_files_are_those_that_are_live_wherever_their_partition_is(
    table: TableOnDisk,
    capsys: pytest.CaptureFixture[str],
    asked: tuple[str, ...],
    expected: dict[str, int],
) -> None:
    found = listed(capsys, table, *asked)
    assert rows_of(found) == expected
    assert all(Path(each["path"]).exists() for each in found)
    assert all("/_sluiceway-" in each["path"] for each in found if each["partition"] == SEVEN)


FAR = [datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(1, 1, 1), datetime(2026, 11, 20, 8)]  # noqa: DTZ001
ADDED = 2**53 + 1
"""What no double holds."""


def recipe(title: str) -> str:
    """The code of a section of docs/guides/hive-tables.md."""
    page = (Path(__file__).parents[3] / "docs" / "guides" / "hive-tables.md").read_text("utf-8")
    section = page.split(f"\n### {title}\n")[1].split("\n### ")[0]
    return section.split("```python\n")[1].split("```")[0]


def write_rows(path: Path, form: str, *, added: bool, rows: int) -> None:
    """A file as a task writes it; `added` when the table has got a column and a field meanwhile."""
    columns = {"id": "bigint", "at": "timestamp", "geo": "struct<a:int>"}
    values = [{"id": 2**63 - 1 - n, "at": FAR[n % 3], "geo": {"a": n}} for n in range(rows)]
    if added:
        columns |= {"geo": "struct<a:int,b:string>", "more": "bigint"}
        values = [{**each, "geo": {"a": 0, "b": "x"}, "more": ADDED} for each in values]
    schema = Schema(tuple(Field(name, parse_hive_type(kind)) for name, kind in columns.items()))
    batch = pa.RecordBatch.from_pylist(values, schema=arrow_schema(schema))
    made = open_format(batch.schema, FileChoice(settings=((TIMESTAMPS, form),)))
    path.unlink()
    file = made.new_file(LocalStorage().create_staged(str(path)))
    file.write(batch)
    file.close()


@pytest.mark.parametrize("form", [INT96, MICROS])
def test_recipes_of_docs_read_added_columns_compacted_hours_and_far_times_exactly(
    table: TableOnDisk,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    form: str,
) -> None:
    for each in listed(capsys, table):
        added = each["partition"] == EIGHT
        write_rows(Path(each["path"]), form, added=added, rows=each["rows"])

    def ask(command: list[str]) -> bytes:
        assert command[:2] == ["sluiceway", "files"]
        capsys.readouterr()
        assert run_command(["files", str(table.job), *command[3:]]) == 0
        return capsys.readouterr().out.encode()

    monkeypatch.setattr(subprocess, "check_output", ask)
    wanted = sorted(
        (hour, 2**63 - 1 - n, FAR[n % 3], {"a": 0 if b else n, "b": b}, ADDED if b else None)
        for hour, count, b in (("07", 7, None), ("08", 5, "x"))
        for n in range(count)
    )
    space: dict[str, Any] = {}
    exec(recipe("DuckDB"), space)  # noqa: S102
    shown = [(row[5], row[0], row[1].replace(tzinfo=None), *row[2:4]) for row in space["rows"]]
    assert sorted(shown) == wanted
    assert {row[4] for row in space["rows"]} == {"20261120"}
    exec(recipe("pyarrow"), space)  # noqa: S102
    assert sorted(map(comparable, space["table"].to_pylist())) == wanted
    exec(recipe("pandas"), space)  # noqa: S102
    assert sorted(map(comparable, space["frame"].to_dict("records"))) == wanted
    if find_spec("polars") is not None:
        exec(recipe("Polars"), space)  # noqa: S102
        assert sorted(map(comparable, space["frame"].to_dicts())) == wanted


def comparable(row: dict[str, Any]) -> tuple[Any, ...]:
    at = row["at"]
    plain = datetime(at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond)  # noqa: DTZ001
    return row["hr"], row["id"], plain, row["geo"], row["more"]


def test_a_pattern_loses_compacted_rows_that_the_list_of_files_has(
    table: TableOnDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [each["path"] for each in listed(capsys, table)]
    query = """SELECT dt, hr, count(*) FROM read_parquet(?, hive_partitioning = true,
               hive_types_autocast = false) GROUP BY ALL ORDER BY ALL"""
    expected = [("20261120", "07", 7), ("20261120", "08", 5)]
    assert duckdb.execute(query, [paths]).fetchall() == expected
    root = Path(table.log.layout.table_root)
    for old in (root / SEVEN).iterdir():
        old.unlink()
    pattern = duckdb.execute(query, [[str(path) for path in root.glob("dt=*/hr=*/*.parquet")]])
    assert pattern.fetchall() == expected[1:]


def test_files_of_a_sealed_hour_are_found_in_the_log(
    table: TableOnDisk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, log = table.writer, table.log
    monkeypatch.setattr(sealing, "MAX_UNSEALED", 0)
    writer.set_effects(writer.fold.next_seq)
    table.rows(closed=(SEVEN,))
    writer.commit(lambda fold: ready_body(fold, SEVEN) or pytest.fail("no record"))
    writer.set_published()
    writer.set_effects(writer.fold.next_seq)
    table.rows(SIX, rows=1)
    writer.fold.left.clear()
    sealed = to_seal(writer.fold)
    slot = writer.commit(write_side_file(log.storage, log.layout, writer.fold, sealed)).seq
    write_hint(log.storage, log.layout, slot)
    assert sealed == (SEVEN,)
    assert SEVEN not in log.fold().partitions
    assert rows_of(listed(capsys, table, SEVEN)) == {SEVEN: 7}
    assert rows_of(listed(capsys, table, "dt=20261120"))[EIGHT] == 5


def test_files_of_a_record_that_is_not_published_yet_are_left_out(
    table: TableOnDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    came = table.rows(EIGHT, rows=2)
    assert rows_of(listed(capsys, table)) == {SEVEN: 7, EIGHT: 5}
    assert rows_of(listed(capsys, table, EIGHT)) == {EIGHT: 5}
    shown(table, *came)
    assert rows_of(listed(capsys, table, EIGHT)) == {EIGHT: 7}


def test_dropped_partition_has_no_files_and_what_comes_then_is_its_own(
    table: TableOnDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    table.writer.commit(lambda fold: expire_body(fold, [EIGHT], "old") or pytest.fail("no record"))
    table.writer.set_published()
    assert rows_of(listed(capsys, table)) == {SEVEN: 7}
    table.rows(EIGHT, rows=2)
    (folder,) = {
        state.location for state in table.log.fold().partitions.values() if state.folder == EIGHT
    }
    body = table.log.read_slot(table.log.fold().next_seq - 1)
    assert body is not None
    shown(table, *body[0].body.files)  # type: ignore[union-attr,misc]
    assert [Path(each["path"]).parent for each in listed(capsys, table, EIGHT)] == [
        Path(table.log.layout.final(folder))
    ]


def test_hours_that_are_to_be_seen_when_they_are_complete_are_listed_then(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = table_on_disk(tmp_path, more="ready: {visible: on_ready}")
    shown(made, *made.rows(SEVEN, rows=4), *made.rows(EIGHT, rows=5))
    made.rows(closed=(SEVEN,))
    made.writer.commit(lambda fold: ready_body(fold, SEVEN) or pytest.fail("no record"))
    made.writer.set_published()
    made.rows(SIX, rows=1)
    assert rows_of(listed(capsys, made)) == {SEVEN: 4}
    assert rows_of(listed(capsys, made, "dt=20261120")) == {SEVEN: 4}
    assert rows_of(listed(capsys, made, EIGHT)) == {}
    assert rows_of(listed(capsys, made, "--unannounced")) == {SEVEN: 4, EIGHT: 5}


def test_table_of_files_is_for_people(
    table: TableOnDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["files", str(table.job), SEVEN]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["PARTITION", "ROWS", "BYTES", "PATH"]
    assert line.split()[:2] == [SEVEN, "7"]


@pytest.mark.parametrize("name", ["dt=2026112", "day=20261120", f"{SEVEN}/app=a", "20261120"])
def test_name_that_no_partition_can_have_is_refused(
    table: TableOnDisk, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert run_command(["files", str(table.job), name]) == 2
    told = capsys.readouterr().err
    assert f"no partition of ods.orders is named {name}" in told
    assert "partitions list" in told


def test_list_without_a_file_says_why_it_is_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = table_on_disk(tmp_path, more="ready: {visible: on_ready}")
    shown(made, *made.rows(SEVEN, rows=4))
    assert run_command(["files", str(made.job), SEVEN]) == 0
    assert "nothing is announced yet; --unannounced lists 1 file" in capsys.readouterr().err
    assert run_command(["files", str(made.job), SEVEN, "--unannounced"]) == 0
    assert capsys.readouterr().err == ""
    assert run_command(["files", str(made.job), EIGHT]) == 0
    assert f"there is no such partition with a file: ods.orders {EIGHT}" in capsys.readouterr().err
