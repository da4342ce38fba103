"""Tables on this disk as sources under test: a row is one value."""

import base64
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sluiceway.chains.client import TableClient
from sluiceway.chains.options import UpstreamOptions
from sluiceway.chains.source import TableSource
from sluiceway.conformance.sources import SourceUnderTest
from sluiceway.sources.contract import SourceClient, SourcePartition, Split, SplitReader
from tools.rows_on_disk import RowsOnDisk
from tools.table_on_disk import table_on_disk

_HOUR = "dt=20261120/hr=08"


@dataclass
class ValuesOnDisk(RowsOnDisk):
    """As `RowsOnDisk`; the column `value` holds what was given for a row."""

    values: list[bytes | None] = field(default_factory=list)
    numbers: dict[str, list[int]] = field(default_factory=dict)

    def _numbers(self, path: Path) -> list[int]:
        return self.numbers[path.name]

    def _write(self, final: str, numbers: range | list[int], app: str) -> None:
        del app
        self.numbers[(self.root / final).name] = list(numbers)
        path = self.root / final
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = pa.array([self.values[number] for number in numbers], pa.binary())
        pq.write_table(pa.table({"value": rows}), path, row_group_size=70)


class TableUnderTest(SourceUnderTest):
    """Each topic is a table of its own; the client is that of the newest one."""

    knows_groups = knows_times = False
    most_partitions = 1

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tables: dict[str, ValuesOnDisk] = {}
        self._clients: list[TableClient] = []
        self.new_topic(1)

    @property
    def client(self) -> SourceClient:  # type: ignore[override]
        return self._clients[-1]

    def new_topic(self, partitions: int) -> str:
        assert partitions == 1
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        table = ValuesOnDisk(table_on_disk(folder))
        name = f"ods.t{len(self._tables)}"
        self._tables[f"table:{name}"] = table
        self._clients.append(TableClient(UpstreamOptions(name, "", root=str(table.root))))
        return f"table:{name}"

    def write(self, topic: str, values: Sequence[bytes | None], partition: int = 0) -> None:
        assert partition == 0
        table = self._tables[topic]
        # Several records, some of which are merged: a reader sees nothing of it.
        for first in range(0, len(values), 200):
            some = values[first : first + 200]
            table.values += some
            table.add(_HOUR, rows=len(some))
        if len(table.values) > 300:
            table.merge(_HOUR, 150)

    def value(self, read: bytes | None) -> bytes | None:
        found = json.loads(read or b"{}").get("value")
        return None if found is None else base64.b64decode(found)

    def log(self, topic: str, partition: int) -> SourcePartition:
        return SourcePartition(topic, partition)

    def reader(self, splits: Sequence[Split]) -> SplitReader:
        topic = splits[0].partition.topic if splits else next(iter(self._tables))
        root = str(self._tables[topic].root)
        options = UpstreamOptions(topic.removeprefix("table:"), "", root=root)
        told = {**dict(options.texts()), "root": root}
        return TableSource().open_reader(splits, told, owner="suite")
