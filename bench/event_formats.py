"""The benchmarks' events in other formats than plain JSON: their bytes, our side, Flink's side.

Flink reads Debezium's messages as JSON with a nested row: its own format for them makes updates,
which its file sink does not take. Its Protobuf has no decimals, so the amount is a text on both
sides.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import fastavro

from bench.shapes import avro_bytes, avro_type, proto_bytes, proto_text, varint
from bench.standard_events import FIRST_ID, SHAPES, START_MS, TEMPLATES, event_templates
from sluiceway.lab.jars import PinnedJar
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import DataType, DecimalType, FloatType, StringType

Encode = Callable[[int, int, int], bytes]
"""Number of a template, id and time -> a payload."""

_MESSAGE = "Event"
_HEAD = 'syntax = "proto3"; option java_package = "bench"; option java_multiple_files = true; '
_SOURCE = (
    b',"source":{"version":"3.2.0","connector":"mysql","name":"shop","ts_ms":1795161600000,'
    b'"snapshot":"false","db":"shop","table":"orders","server_id":1,"file":"binlog.000003",'
    b'"pos":1234,"row":0},"op":"c","ts_ms":1795161600123}'
)


def types_of(shape: str) -> dict[str, DataType]:
    """Types of a shape's columns."""
    return {name: parse_hive_type(of) for name, of in SHAPES[shape].columns.items()}


def _rows(shape: str) -> list[dict[str, Any]]:
    """Values of the templates, id and time without a meaning."""
    types = types_of(shape)
    found = []
    for template in event_templates(shape):
        members = json.loads(template % (FIRST_ID, START_MS), parse_float=Decimal)
        for name, of in types.items():
            if isinstance(of, FloatType):
                members[name] = float(members[name])
        found.append(members)
    return found


def _zigzag(number: int) -> bytes:
    return varint(number << 1)


# Bytes


def _json(shape: str) -> Encode:
    templates = event_templates(shape)
    return lambda number, first, time_ms: templates[number] % (first, time_ms)


def _debezium(shape: str) -> Encode:
    templates = [b'{"before":null,"after":' + one + _SOURCE for one in event_templates(shape)]
    return lambda number, first, time_ms: templates[number] % (first, time_ms)


def avro_schema(shape: str) -> dict[str, Any]:
    """The record's schema: as in many topics, only id and time are never null."""
    fields = []
    for name, of in types_of(shape).items():
        found = avro_type(of, f"record_{name}")
        fields.append({"name": name, "type": found if name in ("id", "ts") else ["null", found]})
    return {"type": "record", "name": "record", "fields": fields}


def _avro(shape: str) -> Encode:
    whole = avro_schema(shape)
    rest = fastavro.parse_schema({**whole, "fields": whole["fields"][2:]})
    tails = [avro_bytes(rest, row) for row in _rows(shape)]
    return lambda number, first, time_ms: _zigzag(first) + _zigzag(time_ms) + tails[number]


def _proto_types(shape: str) -> dict[str, DataType]:
    types = types_of(shape).items()
    return {name: StringType() if isinstance(of, DecimalType) else of for name, of in types}


def proto_schema(shape: str) -> str:
    """The `.proto` text."""
    return _HEAD + proto_text(_proto_types(shape), _MESSAGE)


def _protobuf(shape: str) -> Encode:
    types = _proto_types(shape)
    tails = [proto_bytes(types, {**row, "id": None, "ts": None}) for row in _rows(shape)]
    return lambda number, first, time_ms: (
        b"\x08" + varint(first) + b"\x10" + varint(time_ms) + tails[number]
    )


def _csv(shape: str) -> Encode:
    def text(value: Any) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    tails = [
        "".join(f",{text(value)}" for value in list(row.values())[2:]).encode()
        for row in _rows(shape)
    ]
    return lambda number, first, time_ms: b"%d,%d" % (first, time_ms) + tails[number]


_ENCODERS: Mapping[str, Callable[[str], Encode]] = {
    "json": _json,
    "debezium": _debezium,
    "avro": _avro,
    "protobuf": _protobuf,
    "csv": _csv,
}


@cache
def encoder(name: str, shape: str) -> Encode:
    """How events of a shape become payloads of a format; the same bytes on every machine."""
    found = _ENCODERS[name](shape)
    assert len(event_templates(shape)) == TEMPLATES  # noqa: S101 - numbers are below
    return found


# Our side


def our_format(name: str, shape: str, engine: str) -> str:
    """The block `format` of the job file; JSON is valid YAML."""
    options: Mapping[str, Any] = {
        "json": {"unknown_fields": "ignore", "engine": engine},
        "debezium": {},
        "avro": {"schema": json.dumps(avro_schema(shape))},
        "protobuf": {"schema": proto_schema(shape), "message": _MESSAGE},
        "csv": {},
    }
    return json.dumps({name: options[name]})


# Flink's side


@dataclass(frozen=True, slots=True)
class FlinkSource:
    """A source of Flink's.

    Attributes:
        columns: Declarations of the payload's columns.
        selected: How each column of the table is read, by name.
        where: A condition; empty for none.
        options: Of the format.
    """

    columns: tuple[str, ...]
    selected: Mapping[str, str]
    where: str
    options: Mapping[str, str]


def flink_source(name: str, types: Mapping[str, str]) -> FlinkSource:
    """Flink's source for a format.

    Args:
        name: The format.
        types: Flink's type of each column.
    """
    columns = tuple(f"`{column}` {of}" for column, of in types.items())
    selected = {column: f"`{column}`" for column in types}
    match name:
        case "debezium":
            members = ", ".join(columns)
            return FlinkSource(
                (f"`after` ROW<{members}>", "`op` STRING"),
                {column: f"`after`.`{column}`" for column in types},
                " WHERE `op` IN ('c', 'u', 'r')",
                {"format": "json", "json.ignore-parse-errors": "true"},
            )
        case "avro":
            # What is nested in our schema is never null, and Flink makes its own of these types.
            columns = tuple(
                re.sub(r"`\w+` \w+(?=[,>])|(?<=ARRAY<)\w+", r"\g<0> NOT NULL", each)
                for each in columns
            )
            never_null = tuple(
                f"{each} NOT NULL" if each.startswith(("`id`", "`ts`")) else each
                for each in columns
            )
            return FlinkSource(never_null, selected, "", {"format": "avro"})
        case "protobuf":
            decimals = {column: of for column, of in types.items() if of.startswith("DECIMAL")}
            plain = tuple(
                f"`{column}` {'STRING' if column in decimals else of}"
                for column, of in types.items()
            )
            read = {column: f"CAST(`{column}` AS {of})" for column, of in decimals.items()}
            options = {"format": "protobuf", "protobuf.message-class-name": f"bench.{_MESSAGE}",
                       "protobuf.ignore-parse-errors": "true"}  # fmt: skip
            return FlinkSource(plain, {**selected, **read}, "", options)
        case _:
            ignore = {"format": name, f"{name}.ignore-parse-errors": "true"}
            return FlinkSource(columns, selected, "", ignore)


def message_classes(shape: str, jars: Path, pins: tuple[PinnedJar, ...], folder: Path) -> Path:
    """Compile the message for Flink, which reads Protobuf by classes.

    Args:
        shape: Of the events.
        jars: Folder with Flink's jars, among them the compiler of Protobuf.
        pins: What is in it.
        folder: Where to compile.

    Returns:
        A folder for the class path.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (compiler,) = [jars / pin.file_name for pin in pins if pin.name == "protoc"]
    (library,) = [jars / pin.file_name for pin in pins if pin.name == "protobuf-java"]
    protoc = folder / "protoc"
    shutil.copyfile(compiler, protoc)
    protoc.chmod(0o755)
    (folder / "event.proto").write_text(proto_schema(shape))
    java = shutil.which("javac") or "javac"
    subprocess.run(
        [str(protoc), f"--proto_path={folder}", f"--java_out={folder}", "event.proto"], check=True
    )
    sources = [str(path) for path in sorted((folder / "bench").glob("*.java"))]
    subprocess.run([java, "-cp", str(library), "-d", str(folder), *sources], check=True)
    return folder
