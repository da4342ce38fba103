"""Closed files of a table, read back: how many rows they have, and columns of plain values.

For checks of stored files (`verify`), not for speed. The ending of a file's name says its format.
"""

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any, BinaryIO

import fastavro
import pyarrow as pa
import pyarrow.json as pa_json
import pyarrow.parquet as pq
from pyarrow import orc

from sluiceway.sinks.files.avro_file import avro_blocks, avro_rows
from sluiceway.sinks.files.contract import PARQUET_FILES, FileChoice, FileFormat
from sluiceway.sinks.files.hive_text import TextRules, text_rules
from sluiceway.sinks.files.line_file import CODEC_ENDINGS
from sluiceway.sinks.files.orc_file import orc_rows

_ENDINGS = {
    ".parquet": FileFormat.PARQUET,
    ".orc": FileFormat.ORC,
    ".avro": FileFormat.AVRO,
    ".txt": FileFormat.TEXT,
    ".json": FileFormat.JSON,
    ".csv": FileFormat.CSV,
}
_CHUNK_BYTES = 1 << 20
_GZIP_WINDOW = 31
_LOW_BITS = 0x7F
_BLOCK_HEAD = struct.Struct(">II")


def format_by_name(path: str) -> FileFormat | None:
    """The format that a file's name says; None when it says none."""
    name = path.rpartition("/")[2]
    for ending in filter(None, CODEC_ENDINGS.values()):
        name = name.removesuffix(ending)
    return _ENDINGS.get(f".{name.rpartition('.')[2]}")


def file_ending(choice: FileChoice) -> str:
    """How names of a table's files end, with the dot."""
    ending = next(ending for ending, kind in _ENDINGS.items() if kind is choice.format)
    return ending if has_footer(ending) else f"{ending}{CODEC_ENDINGS[choice.compression]}"


def has_footer(path: str) -> bool:
    """Whether a file's own footer or block heads say how many rows it has."""
    return format_by_name(path) in (FileFormat.PARQUET, FileFormat.ORC, FileFormat.AVRO)


def count_rows(path: str, handle: BinaryIO) -> int:
    """Rows of a file: by its footer or block heads, or its lines, which are all read.

    Raises:
        ValueError: It is no such file, or a damaged one.
        pa.ArrowException: The same.
        OSError: It cannot be read.
    """
    match format_by_name(path):
        case FileFormat.PARQUET:
            rows: int = pq.ParquetFile(handle).metadata.num_rows
            return rows
        case FileFormat.ORC:
            return orc_rows(handle)
        case FileFormat.AVRO:
            return avro_rows(handle)
        case None:
            raise ValueError("its name does not say what it is")
        case _:
            return sum(chunk.count(b"\n") for chunk in line_chunks(path, handle))


def read_columns(
    path: str, handle: BinaryIO, names: Sequence[str], choice: FileChoice = PARQUET_FILES
) -> pa.Table:
    """Columns of plain values from a whole file, in the order asked for.

    Args:
        path: Its ending says the format.
        handle: Handle on the file.
        names: Names of the columns.
        choice: The table's choice: text finds columns by their place.

    Raises:
        ValueError: It is no such file, or has no such column.
        KeyError: It has no such column.
        pa.ArrowException: Either of these.
        OSError: It cannot be read.
    """
    if format_by_name(path) is FileFormat.PARQUET:
        return pq.read_table(handle, columns=list(names), partitioning=None).select(list(names))
    # The others are written under the table's own names.
    wanted = [name.lower() for name in names]
    return _read_columns(path, handle, wanted, choice).rename_columns(list(names))


def _read_columns(path: str, handle: BinaryIO, wanted: list[str], choice: FileChoice) -> pa.Table:
    match format_by_name(path):
        case FileFormat.ORC:
            return orc.ORCFile(handle).read(columns=wanted).select(wanted)
        case FileFormat.AVRO:
            return pa.Table.from_pylist(
                [{name: row[name] for name in wanted} for row in avro_records(handle)]
            )
        case FileFormat.JSON:
            content = b"".join(line_chunks(path, handle))
            return pa_json.read_json(BytesIO(content)).select(wanted)
        case FileFormat.TEXT:
            return _text_columns(b"".join(line_chunks(path, handle)), wanted, choice)
        case _:
            raise ValueError("columns of such files are not read")


def _text_columns(content: bytes, names: list[str], choice: FileChoice) -> pa.Table:
    columns = [field.name.lower() for field in choice.columns.fields] if choice.columns else []
    missing = [name for name in names if name.lower() not in columns]
    if missing:
        raise ValueError(f"no column {', '.join(missing)}")
    places = [columns.index(name.lower()) for name in names]
    rules = text_rules(dict(choice.settings))
    rows = [split_line(line, rules) for line in content.decode().split("\n")[:-1]]
    # Lines of before may lack columns that the table has got since; they are its last ones.
    if not {len(row) for row in rows} <= {*range(max(places) + 1, len(columns) + 1)}:
        raise ValueError(f"a line has not the table's {len(columns)} columns")
    values = [[row[at] for row in rows] for at in places]
    return pa.table(dict(zip(names, values, strict=True)))


def split_line(line: str, rules: TextRules) -> list[str | None]:
    """Columns of a line of Hive text, as text: the other way round than they are written."""
    raw: list[str] = []
    if rules.escape is None or rules.escape not in line:
        raw = line.split(rules.separators[0])
        return [None if part == rules.null else part for part in raw]
    start = at = 0
    while at <= len(line):
        if at == len(line) or line[at] == rules.separators[0]:
            raw.append(line[start:at])
            start = at + 1
        at += 2 if line[at : at + 1] == rules.escape else 1
    return [None if part == rules.null else _unescaped(part, rules.escape) for part in raw]


def _unescaped(text: str, escape: str) -> str:
    out = []
    characters = iter(text)
    for character in characters:
        if character == escape:
            behind = next(characters, escape)
            out.append({"n": "\n", "r": "\r"}.get(behind, behind))
        else:
            out.append(character)
    return "".join(out)


def avro_records(handle: BinaryIO) -> Iterator[dict[str, Any]]:
    """Rows of an Avro file as values of Python, one after the other.

    Raises:
        ValueError: It is damaged.
    """
    meta, blocks = avro_blocks(handle)
    schema = fastavro.parse_schema(json.loads(meta["avro.schema"]))
    codec = meta.get("avro.codec", b"null").decode()
    for rows, packed in blocks:
        block = BytesIO(unpacked_block(codec, packed))
        for _ in range(rows):
            record: Any = fastavro.schemaless_reader(block, schema, None)
            yield record


def unpacked_block(codec: str, packed: bytes) -> bytes:
    """Content of a block of an Avro file.

    Raises:
        ValueError: It is damaged.
        zlib.error: The same.
        pa.ArrowException: The same.
    """
    if codec == "null":
        return packed
    if codec == "deflate":
        return zlib.decompress(packed, wbits=-15)
    if codec == "snappy":
        raw = _snappy(packed[:-4])
        if zlib.crc32(raw).to_bytes(4, "big") != packed[-4:]:
            raise ValueError("a block has another checksum than its content")
        return raw
    stream = pa.input_stream(pa.BufferReader(packed), compression="zstd")
    frame: bytes = stream.read()
    return frame


def _snappy(packed: bytes) -> bytes:
    size = shift = 0
    for byte in packed:
        size |= (byte & _LOW_BITS) << shift
        shift += 7
        if byte <= _LOW_BITS:
            break
    raw: bytes = pa.Codec("snappy").decompress(packed, size, asbytes=True)
    return raw


def line_chunks(path: str, handle: BinaryIO) -> Iterator[bytes]:
    """Content of a file of lines, without its compression.

    Raises:
        ValueError: It is damaged.
        pa.ArrowException: The same.
        OSError: It cannot be read.
    """
    if path.endswith(CODEC_ENDINGS["gzip"]):
        codec = zlib.decompressobj(_GZIP_WINDOW)
        while packed := handle.read(_CHUNK_BYTES):
            yield _inflated(codec, packed)
        if not codec.eof:
            raise ValueError("ends within its content")
    elif path.endswith((CODEC_ENDINGS["snappy"], CODEC_ENDINGS["lz4"])):
        yield from _hadoop_blocks(path, handle)
    else:
        while chunk := handle.read(_CHUNK_BYTES):
            yield chunk


def _inflated(codec: Any, packed: bytes) -> bytes:
    try:
        raw: bytes = codec.decompress(packed)
    except zlib.error as error:
        raise ValueError(f"is damaged: {error}") from error
    return raw


def _hadoop_blocks(path: str, handle: BinaryIO) -> Iterator[bytes]:
    codec = pa.Codec("snappy" if path.endswith(CODEC_ENDINGS["snappy"]) else "lz4_raw")
    while head := handle.read(_BLOCK_HEAD.size):
        if len(head) < _BLOCK_HEAD.size:
            raise ValueError("ends within a block")
        raw_bytes, packed_bytes = _BLOCK_HEAD.unpack(head)
        yield codec.decompress(handle.read(packed_bytes), raw_bytes, asbytes=True)
