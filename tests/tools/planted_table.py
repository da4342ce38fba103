"""A real table that tests damage behind the product's back, and put right again."""

import copy
import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq

Rows = list[dict[str, Any]]
Records = list[dict[str, Any]]


@dataclass(slots=True)
class PlantedTable:
    """A table's folder and its place in the metastore.

    Attributes:
        client: Raw thrift client of the metastore.
        kept: Copy of the folder as it was.
    """

    root: Path
    route: str
    database: str
    name: str
    client: Any
    kept: Path
    _table: Any = None
    _partitions: Any = None

    def keep(self) -> None:
        """Remember everything as it is now; called once."""
        shutil.copytree(self.root, self.kept)
        self._table = self.client.get_table(self.database, self.name)
        self._partitions = {tuple(each.values): each for each in self.partitions()}

    def restore(self) -> None:
        """Put everything back as it was kept."""
        shutil.rmtree(self.root)
        shutil.copytree(self.kept, self.root)
        if self.client.get_table(self.database, self.name) != self._table:
            self.client.alter_table(self.database, self.name, copy.deepcopy(self._table))
            self._table = self.client.get_table(self.database, self.name)
        found = {tuple(each.values): each for each in self.partitions()}
        for values in found.keys() - self._partitions.keys():
            self.client.drop_partition(self.database, self.name, list(values), deleteData=False)
        for values, wanted in self._partitions.items():
            if values not in found:
                self.client.add_partition(copy.deepcopy(wanted))
            elif found[values] != wanted:
                self.client.alter_partition(self.database, self.name, copy.deepcopy(wanted))

    # ---- rows and files ---------------------------------------------------------------------

    @property
    def system(self) -> Path:
        """The route's folder of the ledger."""
        return self.root / "_sluiceway" / self.route

    def files(self) -> list[Path]:
        """Data files, by path."""
        return sorted(self.root.glob("dt=*/**/*.parquet"))

    def hours(self) -> list[Path]:
        """Partition folders."""
        return sorted({path.parent for path in self.files()})

    def dirty(self) -> list[Path]:
        """Files of dirty rows."""
        return sorted(self.system.glob("dirty/*.parquet"))

    def slots(self) -> list[Path]:
        """Records of the log."""
        return sorted(self.system.glob("log/*/*.json"))

    def partitions(self) -> list[Any]:
        """Partitions as the metastore holds them."""
        return list(self.client.get_partitions(self.database, self.name, -1))

    # ---- changes ----------------------------------------------------------------------------

    def edit(self, path: Path, change: Callable[[Rows], object]) -> None:
        """Write a file again with its rows changed."""
        found = pq.read_table(path, partitioning=None)
        rows = found.to_pylist()
        before = copy.deepcopy(rows)
        change(rows)
        assert repr(rows) != repr(before)
        write_parquet(pa.Table.from_pylist(rows, found.schema), path)

    def recast(self, path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
        """Write a file again with its columns changed."""
        write_parquet(change(pq.read_table(path, partitioning=None)), path)

    def forge(self, change: Callable[[Records], object], *, chained: bool = True) -> None:
        """Edit records; `chained` makes all hashes after them right again."""
        records = [json.loads(path.read_bytes()) for path in self.slots()]
        change(records)
        shutil.rmtree(self.system / "log")
        head = "0" * 64
        for seq, record in enumerate(records):
            if chained:
                record["prev"] = head
            raw = canonical(record)
            head = hashlib.sha256(raw).hexdigest()
            path = self.system / "log" / f"{seq // 10_000:016d}" / f"{seq:020d}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(raw)

    def reseal(self) -> None:
        """Make sizes, checksums, row counts and hashes in the log fit the files as they are."""

        def seal(records: Records) -> None:
            for record in records:
                for file in all_files(record):
                    path = self.root / file["final"]
                    raw = path.read_bytes()
                    file["size_bytes"] = str(len(raw))
                    file["crc32c"] = f"{google_crc32c.value(raw):08x}"

        self.forge(seal)

    def alter_table(self, change: Callable[[Any], object]) -> None:
        """Change the table in the metastore."""
        raw = self.client.get_table(self.database, self.name)
        change(raw)
        self.client.alter_table(self.database, self.name, raw)

    def alter_partition(self, index: int, change: Callable[[Any], object]) -> None:
        """Change a partition in the metastore."""
        raw = self.partitions()[index]
        change(raw)
        self.client.alter_partition(self.database, self.name, raw)

    def add_partition(self, values: list[str], location: Path) -> None:
        """Add a partition to the metastore that shows a folder."""
        raw = copy.deepcopy(self.partitions()[0])
        raw.values = values
        raw.sd.location = f"file:{location}"
        self.client.add_partition(raw)


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write as the product does, as far as readers can tell."""
    pq.write_table(table, path, compression="zstd", use_deprecated_int96_timestamps=True)


def canonical(record: dict[str, Any]) -> bytes:
    """A record's bytes."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode() + b"\n"


def all_files(record: dict[str, Any]) -> Rows:
    """Files that a record names."""
    body = record["body"]
    return [*body.get("files", ()), *body.get("dirty_files", ()), *body.get("late_files", ())]


def epochs(records: Records) -> Records:
    """The DATA records."""
    return [record for record in records if record["type"] == "DATA"]
