"""Files of a keyed table: read by field ids, written with new rows or positions of old ones."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.types import StringType

from sluiceway.errors import TableMismatchError
from sluiceway.sinks.iceberg.data_files import PlacedFile
from sluiceway.storage.contract import Storage
from sluiceway.storage.locations import path_below

Positions = NDArray[np.int64]
PATH_ID, POSITION_ID = 2147483546, 2147483545
"""Ids of the columns of delete files. Source: Iceberg table spec, "Reserved Field IDs"."""

_FIELD_ID = b"PARQUET:field_id"
_ZSTD_LEVEL = 1
_GROUP_ROWS = 1 << 20
_ROWS_AT_ONCE = 1 << 18
_DELETES = pa.schema(
    [
        pa.field(name, kind, nullable=False, metadata={_FIELD_ID: str(field_id).encode()})
        for name, kind, field_id in (
            ("file_path", pa.dictionary(pa.int32(), pa.string()), PATH_ID),
            ("pos", pa.int64(), POSITION_ID),
        )
    ]
)


@dataclass(frozen=True, slots=True)
class FilePlace:
    """Where a table's files lie.

    Attributes:
        storage: The table's storage.
        root: The table's location as the storage names it.
        uri: The location as the catalog spells it.
        compression: Compression of new files.
    """

    storage: Storage
    root: str
    uri: str
    compression: str

    def path_of(self, uri: str) -> str:
        """A file of the table, as the storage names it.

        Raises:
            TableMismatchError: It lies elsewhere.
        """
        inside = path_below(self.uri, uri)
        if inside is None:
            raise TableMismatchError(
                f"the table has the file {uri}, which does not lie below its location {self.uri}",
                hint="rewrite the table's files below its location; a keyed table is read to be "
                "written",
            )
        return f"{self.root}/{inside}"

    def read_columns(self, uri: str, ids: Sequence[int]) -> Iterator[pa.Table]:
        """Columns of the key in a data file, in the order of their ids, some rows at once.

        Raises:
            TableMismatchError: The file lacks one. Raised with the first rows, as all else.
        """
        with self.storage.open_read(self.path_of(uri)) as handle:
            file = pq.ParquetFile(handle)
            names = names_by_id(file.schema_arrow)
            if not set(ids) <= names.keys():
                raise TableMismatchError(
                    f"the file {uri} has no column of the key, so it is unknown which rows it has",
                    hint="another writer brought it: rewrite it with the key's columns",
                )
            wanted = [names[each] for each in ids]
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=wanted):
                yield pa.Table.from_batches([batch]).select(wanted)

    def read_deletes(self, uri: str) -> pa.Table:
        """Rows of a delete file."""
        with self.storage.open_read(self.path_of(uri)) as handle:
            return pq.ParquetFile(handle, read_dictionary=["file_path"]).read()

    def read_rows(self, uri: str, dead: Positions) -> pa.Table:
        """Rows of a data file that are not dead, with their field ids."""
        with self.storage.open_read(self.path_of(uri)) as handle:
            table = pq.ParquetFile(handle).read()
        if not len(dead):
            return table
        kept = np.ones(table.num_rows, bool)
        kept[dead] = False
        return table.filter(pa.array(kept))

    def place_rows(self, rows: pa.Table, texts: tuple[str | None, ...], begin: str) -> PlacedFile:
        """Write a data file; no reader sees it before the commit.

        Args:
            rows: Rows with field ids.
            texts: Values of its partition.
            begin: Beginning of its name below `data`: the partition's folder, and what follows.
        """
        name = f"data/{begin}{uuid4().hex}.parquet"
        size_bytes = self._write(rows, name)
        return PlacedFile(
            uri=f"{self.uri}/{name}",
            path=f"{self.root}/{name}",
            rows=rows.num_rows,
            size_bytes=size_bytes,
            texts=texts,
            seqs=(),
        )

    def place_deletes(self, dead: Mapping[str, Positions], like: ManifestEntry) -> DataFile:
        """Write a file of position deletes for data files of one spec and partition.

        Args:
            dead: Positions by data file.
            like: Entry of one of them.
        """
        paths = sorted(dead)
        # By their numbers: a name of a hundred letters a dead row would be made, and then packed.
        numbers = np.repeat(np.arange(len(paths), dtype=np.int32), [len(dead[p]) for p in paths])
        table = pa.table(
            [
                pa.DictionaryArray.from_arrays(numbers, pa.array(paths, pa.string())),
                pa.array(np.concatenate([dead[path] for path in paths]), pa.int64()),
            ],
            schema=_DELETES,
        )
        name = f"data/{uuid4()}-deletes.parquet"
        size_bytes = self._write(table, name)
        made = DataFile.from_args(
            content=DataFileContent.POSITION_DELETES,
            file_path=f"{self.uri}/{name}",
            file_format=FileFormat.PARQUET,
            partition=like.data_file.partition,
            record_count=table.num_rows,
            file_size_in_bytes=size_bytes,
            # Whole: a reader that finds a cut one opens the file for every data file.
            lower_bounds={PATH_ID: to_bytes(StringType(), paths[0])},
            upper_bounds={PATH_ID: to_bytes(StringType(), paths[-1])},
            sort_order_id=None,
            spec_id=like.data_file.spec_id,
            equality_ids=None,
            key_metadata=None,
        )
        made.spec_id = like.data_file.spec_id
        return made

    def _write(self, table: pa.Table, name: str) -> int:
        path = f"{self.root}/{name}"
        self.storage.expect_files(path.rpartition("/")[0])
        writer = self.storage.create_staged(path)
        try:
            with pq.ParquetWriter(
                writer.handle(),
                table.schema,
                compression=self.compression,
                compression_level=_ZSTD_LEVEL if self.compression == "zstd" else None,
                store_schema=False,
                store_decimal_as_integer=True,
            ) as parquet:
                parquet.write_table(table, row_group_size=_GROUP_ROWS)
            size_bytes: int = writer.seal().size_bytes
        except BaseException:
            writer.abort()
            raise
        self.storage.sync_folder(path.rpartition("/")[0])
        return size_bytes


def names_by_id(schema: Any) -> dict[int, str]:
    """Names of a file's top columns by their field ids; columns without an id are left out."""
    found = {}
    for field in schema:
        told = (field.metadata or {}).get(_FIELD_ID)
        if told is not None:
            found[int(told)] = field.name
    return found
