"""Ways to damage a table: each takes the table, or makes a function that does."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from tools.planted_table import PlantedTable, Records, Rows, all_files, epochs

Plant = Callable[[PlantedTable], object]


def set_value(column: str, value: Callable[[Any], Any], index: int = 1) -> Plant:
    def change(rows: Rows) -> None:
        rows[index][column] = value(rows[index][column])

    return lambda t: t.edit(t.files()[0], change)


def resealed(change: Plant) -> Plant:
    """A change after which the log is made to fit the files."""

    def plant(table: PlantedTable) -> None:
        change(table)
        table.reseal()

    return plant


def forged_row(column: str, value: Callable[[Any], Any], index: int = 1) -> Plant:
    return resealed(set_value(column, value, index))


def as_type(column: str) -> Callable[[pa.DataType], Plant]:
    def of(kind: pa.DataType) -> Plant:
        def change(table: pa.Table) -> pa.Table:
            place = table.schema.get_field_index(column)
            return table.set_column(place, column, table.column(place).cast(kind))

        return lambda t: t.recast(t.files()[0], change)

    return of


def change_bytes(change: Callable[[bytes], bytes], which: str = "files") -> Plant:
    def plant(table: PlantedTable) -> None:
        path = getattr(table, which)()[1]
        path.write_bytes(change(path.read_bytes()))

    return plant


def flip_bit(raw: bytes) -> bytes:
    place = len(raw) // 3
    return raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]


def swap(one: Path, other: Path) -> None:
    kept = one.with_name("kept")
    one.rename(kept)
    other.rename(one)
    kept.rename(other)


def swap_first_of_two_hours(table: PlantedTable) -> None:
    hours = table.hours()
    one, other = (sorted(hour.glob("*.parquet"))[0] for hour in hours[:2])
    swap(one, other)


def swap_locations(table: PlantedTable) -> None:
    one, other = (each.sd.location for each in table.partitions()[:2])
    table.alter_partition(0, lambda raw: setattr(raw.sd, "location", other))
    table.alter_partition(1, lambda raw: setattr(raw.sd, "location", one))


def elsewhere(table: PlantedTable) -> None:
    place = table.root / "elsewhere"
    place.mkdir()
    table.alter_partition(0, lambda raw: setattr(raw.sd, "location", f"file:{place}"))


def drop_partition(table: PlantedTable) -> None:
    values = table.partitions()[0].values
    table.client.drop_partition(table.database, table.name, values, deleteData=False)


def empty_foreign_partition(table: PlantedTable) -> None:
    place = table.root / "dt=20990101" / "hr=00"
    place.mkdir(parents=True)
    shutil.copy(table.files()[0], place / "somebody.parquet")
    table.add_partition(["20990101", "00"], place)


def other_format(raw: Any) -> None:
    raw.sd.serdeInfo.serializationLib = "org.apache.hadoop.hive.ql.io.orc.OrcSerde"


def forge_log(change: Callable[[Records], object], *, chained: bool = True) -> Plant:
    return lambda t: t.forge(change, chained=chained)


def first_data(change: Callable[[dict[str, Any]], object]) -> Callable[[Records], object]:
    return lambda records: change(epochs(records)[0]["body"])


def one_more(body: dict[str, Any]) -> None:
    span = body["ranges"][0]
    span["end"] = str(int(span["end"]) + 1)
    span["gaps"] = str(int(span["gaps"]) + 1)


def one_less_row(body: dict[str, Any]) -> None:
    """A row goes from all counts and becomes a gap; the files still have it."""
    for counts, name in ((body["ranges"][0], "rows"), (body["files"][0], "rows")):
        counts[name] = str(int(counts[name]) - 1)
    body["ranges"][0]["gaps"] = str(int(body["ranges"][0]["gaps"]) + 1)
    for name in ("read", "written"):
        body["counts"][name] = str(int(body["counts"][name]) - 1)


def forget_file(body: dict[str, Any]) -> None:
    gone = body["files"].pop()
    rows = int(gone["rows"])
    body["counts"]["written"] = str(int(body["counts"]["written"]) - rows)
    body["counts"]["filtered"] = str(int(body["counts"]["filtered"]) + rows)


def drop_row_and_count_it_filtered(table: PlantedTable) -> None:
    path = table.files()[0]
    table.edit(path, lambda rows: rows.pop())

    def count(records: Records) -> None:
        for record in epochs(records):
            for file in record["body"]["files"]:
                if path == table.root / file["final"]:
                    file["rows"] = str(int(file["rows"]) - 1)
                    counts = record["body"]["counts"]
                    counts["written"] = str(int(counts["written"]) - 1)
                    counts["filtered"] = str(int(counts["filtered"]) + 1)

    table.forge(count)
    table.reseal()


def copied_rows_forged(table: PlantedTable) -> None:
    """A row is dropped and its neighbour doubled, and the log made to fit."""

    def change(rows: Rows) -> None:
        rows[1] = dict(rows[0])

    table.edit(table.files()[0], change)
    table.reseal()


def misplaced_with_record(table: PlantedTable, *, values: bool) -> None:
    """A file goes to another hour, and its record with it."""
    path = table.files()[0]
    target = table.hours()[1]

    def move(records: Records) -> None:
        for record in records:
            for file in all_files(record):
                if path == table.root / file["final"]:
                    file["final"] = str((target / path.name).relative_to(table.root))
                    if values:
                        parts = target.relative_to(table.root).parts
                        file["values"] = [part.partition("=")[2] for part in parts]

    path.rename(target / path.name)
    table.forge(move)


def name_file_twice(records: Records) -> None:
    body = epochs(records)[1]["body"]
    again = dict(epochs(records)[0]["body"]["files"][0])
    again["staged"] = f"{body['files'][0]['staged'].partition('/')[0]}/again.parquet"
    rows = int(again["rows"])
    body["files"].append(again)
    for counts, name in ((body["counts"], "written"), (body["counts"], "read")):
        counts[name] = str(int(counts[name]) + rows)
    body["ranges"][0]["rows"] = str(int(body["ranges"][0]["rows"]) + rows)
    body["ranges"][0]["end"] = str(int(body["ranges"][0]["end"]) + rows)


def edit_in_place(index: int, old: bytes, new: bytes) -> Plant:
    def plant(table: PlantedTable) -> None:
        path = table.slots()[index]
        raw = path.read_bytes()
        assert old in raw
        path.write_bytes(raw.replace(old, new, 1))

    return plant


def copy_tail(table: PlantedTable) -> None:
    last = table.slots()[-1]
    shutil.copy(last, last.with_name(f"{int(last.stem) + 1:020d}.json"))


def swap_slots(table: PlantedTable) -> None:
    swap(*table.slots()[-2:])


def owner(change: Callable[[dict[str, Any]], object]) -> Plant:
    def plant(table: PlantedTable) -> None:
        path = table.root / "_sluiceway" / "OWNER"
        owner = json.loads(path.read_bytes())
        change(owner)
        path.write_text(json.dumps(owner, sort_keys=True, separators=(",", ":")))

    return plant


def another_ledger(table: PlantedTable) -> None:
    """The ledger of another table of the same job, whole in itself."""

    def change(records: Records) -> None:
        for record in records:
            if record["type"] == "FENCE":
                record["body"]["ledger"] = "0" * 32

    table.forge(change)


def move_dirty_to_table(table: PlantedTable) -> None:
    shutil.move(table.dirty()[0], table.hours()[0] / "stray.parquet")


def copy_file(source: Callable[[PlantedTable], Path], to: Callable[[PlantedTable], Path]) -> Plant:
    def plant(table: PlantedTable) -> None:
        target = to(table)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source(table), target)

    return plant


def first_file(table: PlantedTable) -> Path:
    return table.files()[0]


def first_dirty(table: PlantedTable) -> Path:
    return table.dirty()[0]


def same_size_other(table: PlantedTable) -> None:
    path = table.files()[0]
    path.write_bytes(bytes(len(path.read_bytes())))


def replace_by_neighbour(table: PlantedTable) -> None:
    one, other = sorted(table.hours()[0].glob("*.parquet"))[:2]
    shutil.copy(other, one)


def crc_only(records: Records) -> None:
    epochs(records)[0]["body"]["files"][0]["crc32c"] = "00000000"


def sum_only(records: Records) -> None:
    epochs(records)[-1]["body"]["ranges"][0]["offset_sum"] = "0" * 31 + "1"


def shift_offsets(rows: Rows) -> None:
    for row in rows:
        row["_offset"] += 1
