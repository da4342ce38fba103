"""Staged Avro object container files.

The container is written here, block by block, so that any of its codecs is at hand; the rows
inside are encoded by fastavro. Source: Avro 1.12 specification, "Object Container Files".
"""

import json
import secrets
import zlib
from collections.abc import Callable, Iterator
from io import SEEK_CUR, SEEK_END, BytesIO
from typing import Any, BinaryIO

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.errors import StorageUnavailableError, TaskFailedError
from sluiceway.sinks.files.arrangement import ColumnMapping, unfit_rows
from sluiceway.sinks.files.avro_schema import (
    SCHEMA_LITERAL,
    TABLE_NAME,
    not_null,
    schema_from_columns,
    schema_from_literal,
    takes_null,
)
from sluiceway.sinks.files.column_bounds import ColumnBounds
from sluiceway.sinks.files.contract import FileChoice, TableFile, TableFormat, WrittenFile
from sluiceway.sinks.files.old_times import before_gregorian
from sluiceway.sinks.files.row_masks import Mask, either, null_mask, unfit_mask
from sluiceway.storage.contract import StagedWriter
from sluiceway.types.dirty import DirtyRow
from sluiceway.types.schema import Schema

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
CODECS = {"none": "null", "gzip": "deflate", "snappy": "snappy", "zstd": "zstandard"}
BLOCK_BYTES = 256 << 10
_MILLI = 1000
_LOW_BITS = 0x7F
_MORE = 0x80
_UNFIT = (
    "Avro of Hive keeps milliseconds, no day before 1582-10-15, and no null where the table's "
    "schema allows none"
)


class AvroFileFormat(TableFormat):
    """Avro, by the schema that the table's readers use.

    Args:
        schema: Schema of every batch.
        choice: Compression, the table's columns and name, and the schema that it names.

    Raises:
        ValueError: The table's schema is not that of its columns.
    """

    extension = ".avro"

    def __init__(self, schema: pa.Schema, choice: FileChoice) -> None:
        self._arrangement = ColumnMapping(schema, choice.columns)
        literal = choice.setting(SCHEMA_LITERAL)
        columns = choice.columns or Schema(())
        if literal is None:
            self._schema = schema_from_columns(columns, choice.setting(TABLE_NAME) or "")
        else:
            self._schema = schema_from_literal(literal, columns)
        self._codec = CODECS[choice.compression]
        self._required = frozenset(
            field["name"].lower()
            for field in self._schema["fields"]
            if not takes_null(field["type"])
        )
        rows = {name.lower() for name in schema.names}
        if empty := sorted(self._required - rows):
            raise ValueError(f"{SCHEMA_LITERAL}: {', '.join(empty)} may not be null, and stays so")

    def new_file(self, writer: StagedWriter) -> "AvroStagedFile":
        """See `TableFormat.new_file`."""
        return AvroStagedFile(writer, self._arrangement, self._schema, self._codec)

    def unfit_rows(self, rows: pa.RecordBatch) -> list[DirtyRow]:
        """See `TableFormat.unfit_rows`."""
        judges = [
            _unfit_or_null if name.lower() in self._required else _unfit
            for name in rows.schema.names
        ]
        return unfit_rows(rows, judges, _UNFIT)

    def footer_rows(self, handle: BinaryIO) -> int:
        """See `TableFormat.footer_rows`: the heads of its blocks."""
        return avro_rows(handle)


def _unfit(values: Any) -> Mask | None:
    return unfit_mask(values, _too_fine_or_old)


def _unfit_or_null(values: Any) -> Mask | None:
    nulls = null_mask(values) if values.null_count else None
    return either([_unfit(values), nulls])


def _too_fine_or_old(values: Any) -> Mask | None:
    old = before_gregorian(values)
    if not pa.types.is_timestamp(values.type):
        return old
    micros = np.asarray(pc.fill_null(values.cast(pa.int64()), 0))
    return either([old, np.asarray(micros % _MILLI != 0)])


class AvroStagedFile(TableFile):
    """One Avro file being written inside a task, by one thread.

    Args:
        writer: Where it goes; owned from here on.
        arrangement: The file's columns.
        schema: Avro's, of the file.
        codec: Avro's name of it.
    """

    def __init__(
        self,
        writer: StagedWriter,
        arrangement: ColumnMapping,
        schema: dict[str, Any],
        codec: str,
    ) -> None:
        super().__init__(writer)
        self._arrangement = arrangement
        self._schema = schema
        self._parsed = fastavro.parse_schema(schema)
        self._container = AvroContainer(writer, json.dumps(schema).encode(), codec)
        self._bounds = ColumnBounds(arrangement.schema)
        self._block = BytesIO()
        self._block_rows = 0
        named = {field["name"].lower(): field for field in schema["fields"]}
        fields = [named[name.lower()] for name in arrangement.schema.names]
        self._names = [field["name"] for field in fields]
        self._converters = [
            _converter(column.type, field["type"])
            for column, field in zip(arrangement.schema, fields, strict=True)
        ]

    @property
    def buffered_bytes(self) -> int:
        """See `TableFile.buffered_bytes`."""
        return self._block.tell()

    def write(self, batch: pa.RecordBatch) -> None:
        """See `TableFile.write`."""
        if batch.num_rows == 0:
            return
        try:
            rows = self._arrangement.apply(batch)
            columns = [
                convert(column)
                for convert, column in zip(self._converters, rows.columns, strict=True)
            ]
            for values in zip(*columns, strict=True):
                record = dict(zip(self._names, values, strict=True))
                fastavro.schemaless_writer(self._block, self._parsed, record)
                self._block_rows += 1
                if self._block.tell() >= BLOCK_BYTES:
                    self.flush()
            self._bounds.widen(rows)
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise TaskFailedError(
                f"{self.path}: rows cannot be written as Avro: {error}"
            ) from error
        self._rows += batch.num_rows

    def flush(self) -> None:
        """See `TableFile.flush`: ends the block."""
        self._container.put_block(self._block_rows, self._block.getvalue())
        self._block = BytesIO()
        self._block_rows = 0

    def close(self) -> WrittenFile:
        """See `TableFile.close`."""
        self.flush()
        seal = self._writer.seal()
        return WrittenFile(self.path, self._rows, seal, self._bounds.texts())

    def abort(self) -> None:
        """See `TableFile.abort`."""
        self._block = BytesIO()
        self._writer.abort()


class AvroContainer:
    """The container of a file that is being written: its heading, then block by block.

    Args:
        writer: Where it goes.
        schema: Avro's, as JSON.
        codec: Avro's name of it.
    """

    def __init__(self, writer: StagedWriter, schema: bytes, codec: str) -> None:
        self._writer = writer
        self._heads = {"avro.schema": schema, "avro.codec": codec.encode()}
        self._codec = codec
        self._sync = secrets.token_bytes(SYNC_BYTES)
        self._begun = False

    def put_block(self, rows: int, raw: bytes) -> None:
        """Write a block; without rows only the heading, if it is not there yet.

        Args:
            rows: Rows in the block.
            raw: Their bytes, one after the other.

        Raises:
            StorageUnavailableError: The store failed; discard the file.
        """
        if not self._begun:
            self._begun = True
            entries = b"".join(
                _bytes(name.encode()) + _bytes(value) for name, value in self._heads.items()
            )
            self._put(MAGIC + _long(len(self._heads)) + entries + _long(0) + self._sync)
        if rows:
            packed = _packed(self._codec, raw)
            self._put(_long(rows) + _long(len(packed)) + packed + self._sync)

    def _put(self, content: bytes) -> None:
        try:
            self._writer.handle().write(content)
        except OSError as error:
            path = self._writer.path
            raise StorageUnavailableError(f"cannot write {path}: {error}") from error


def _converter(kind: pa.DataType, field_type: Any) -> Callable[[Any], list[Any]]:
    """How a column becomes values that fastavro encodes by a field's type."""
    stored = _stored_type(kind)
    convert = _value_converter(kind, field_type)

    def values_of(column: Any) -> list[Any]:
        values = column.cast(stored).to_pylist() if stored != kind else column.to_pylist()
        if convert is None:
            return list(values)
        return [None if value is None else convert(value) for value in values]

    return values_of


def _stored_type(kind: pa.DataType) -> pa.DataType:
    """Dates and moments as the numbers that they are."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date(kind):
        return pa.int32()
    if pa.types.is_list(kind):
        return pa.list_(_stored_type(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _stored_type(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _stored_type(field.type)) for field in kind])
    return kind


def _value_converter(kind: pa.DataType, field_type: Any) -> Callable[[Any], Any] | None:
    own = not_null(field_type)
    if pa.types.is_timestamp(kind):
        return _millis
    if pa.types.is_list(kind):
        element = _value_converter(kind.value_type, own["items"])
        return None if element is None else _each(element)
    if pa.types.is_map(kind):
        return _dict_of(_value_converter(kind.item_type, own["values"]))
    if pa.types.is_struct(kind):
        types = {field["name"].lower(): field for field in own["fields"]}
        fields = [types[field.name.lower()] for field in kind]
        inner = [
            (field.name, theirs["name"], _value_converter(field.type, theirs["type"]))
            for field, theirs in zip(kind, fields, strict=True)
        ]
        return _record_of(inner)
    return None


def _millis(micros: int) -> int:
    return micros // _MILLI


def _each(convert: Callable[[Any], Any]) -> Callable[[list[Any]], list[Any]]:
    return lambda values: [None if value is None else convert(value) for value in values]


def _dict_of(convert: Callable[[Any], Any] | None) -> Callable[[list[Any]], dict[str, Any]]:
    if convert is None:
        return dict
    return lambda entries: {
        key: None if value is None else convert(value) for key, value in entries
    }


def _record_of(
    inner: list[tuple[str, str, Callable[[Any], Any] | None]],
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def convert(record: dict[str, Any]) -> dict[str, Any]:
        return {
            theirs: value if value is None or change is None else change(value)
            for ours, theirs, change in inner
            for value in (record[ours],)
        }

    return convert


def _packed(codec: str, raw: bytes) -> bytes:
    if codec == "deflate":
        deflate = zlib.compressobj(wbits=-15)
        return deflate.compress(raw) + deflate.flush()
    if codec == "null":
        return raw
    if codec == "snappy":
        packed: bytes = pa.Codec("snappy").compress(raw, asbytes=True)
        return packed + zlib.crc32(raw).to_bytes(4, "big")
    frame: bytes = pa.Codec("zstd").compress(raw, asbytes=True)
    return frame


def _bytes(content: bytes) -> bytes:
    return _long(len(content)) + content


def _long(number: int) -> bytes:
    """Avro's zigzag, variable-length number."""
    left = (number << 1) ^ (number >> 63)
    out = bytearray()
    while left > _LOW_BITS:
        out.append(left & _LOW_BITS | _MORE)
        left >>= 7
    out.append(left)
    return bytes(out)


def avro_rows(handle: BinaryIO) -> int:
    """Rows of an Avro file by the heads of its blocks; no row is decoded.

    Raises:
        ValueError: It is none, or it ends within a block.
        OSError: It cannot be read.
    """
    _, blocks = avro_blocks(handle, skip=True)
    return sum(rows for rows, _ in blocks)


def avro_blocks(
    handle: BinaryIO, *, skip: bool = False
) -> tuple[dict[str, bytes], Iterator[tuple[int, bytes]]]:
    """Heading of an Avro file, and its blocks: number of rows and packed content.

    Args:
        handle: Handle on the file.
        skip: Leave the content out.

    Raises:
        ValueError: It is none, or it ends within a block; the blocks may raise it too.
        OSError: It cannot be read.
    """
    size = handle.seek(0, SEEK_END)
    handle.seek(0)
    if handle.read(len(MAGIC)) != MAGIC:
        raise ValueError("is no Avro file")
    meta = {}
    while entries := _read_long(handle):
        for _ in range(entries):
            name = handle.read(_read_long(handle)).decode()
            meta[name] = handle.read(_read_long(handle))
    return meta, _blocks(handle, size, handle.read(SYNC_BYTES), skip=skip)


def _blocks(handle: BinaryIO, size: int, sync: bytes, *, skip: bool) -> Iterator[tuple[int, bytes]]:
    while handle.tell() < size:
        rows, packed_bytes = _read_long(handle), _read_long(handle)
        packed = b""
        if skip:
            handle.seek(packed_bytes, SEEK_CUR)
        else:
            packed = handle.read(packed_bytes)
        if handle.read(SYNC_BYTES) != sync:
            raise ValueError("a block does not end with the file's mark")
        yield rows, packed


def _read_long(handle: BinaryIO) -> int:
    found = shift = 0
    while True:
        byte = handle.read(1)
        if not byte:
            raise ValueError("ends within a block")
        found |= (byte[0] & _LOW_BITS) << shift
        if not byte[0] & _MORE:
            return (found >> 1) ^ -(found & 1)
        shift += 7
