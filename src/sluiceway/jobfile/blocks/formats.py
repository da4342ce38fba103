"""The block `format` as frozen values: how payloads are read."""

from typing import Literal

from pydantic import Field

from sluiceway.jobfile.blocks.block import Block, PluginBlock
from sluiceway.jobfile.blocks.schema_formats import AvroFormat, ProtobufFormat, UnknownWait
from sluiceway.jobfile.blocks.values import ColumnName, Line
from sluiceway.plugins import PluginGroup

TombstoneRule = Literal["skip", "dirty"]


class JsonFormat(Block):
    """JSON objects.

    Attributes:
        unknown_fields: What happens to keys that no column reads.
        extra_column: Column that keeps keys that no column reads, with `unknown_fields: keep`; None
            otherwise.
        tombstones: What happens to records without a value.
        engine: What reads payloads: the native module, the library, or the native module if it is
            installed.
        registry: Name of a schema registry's connection; payloads are in Confluent's wire format.
            None for plain JSON.
    """

    unknown_fields: Literal["ignore", "dirty", "keep"] = "ignore"
    tombstones: TombstoneRule = "dirty"
    engine: Literal["auto", "native", "library"] = "auto"
    extra_column: ColumnName | None = None
    registry: Line | None = None


class RawFormat(Block):
    """Payloads as they are, in one column.

    Attributes:
        tombstones: What happens to records without a value; `null` makes them rows.
    """

    NULL_WORDS = frozenset({"tombstones"})
    tombstones: Literal["dirty", "skip", "null"] = "dirty"


class CsvFormat(Block):
    """Delimited lines, one a payload.

    Attributes:
        delimiter: One character between fields.
        quote: One character around fields, or `none`.
        escape: How a quote is written in a field: `doubled`, or after a backslash.
        null_text: Text of a field without quotes that means null.
        fields: Names of the fields with commas between; None finds fields by order or number.
        missing: What happens to lines with fewer fields.
        unknown_fields: What happens to lines with more fields.
        tombstones: What happens to records without a value.
    """

    NULL_WORDS = frozenset({"missing"})
    delimiter: str = ","
    quote: str = '"'
    escape: Literal["doubled", "\\"] = "doubled"
    null_text: str = ""
    fields: Line | None = None
    missing: Literal["dirty", "null"] = "dirty"
    unknown_fields: Literal["dirty", "ignore"] = "dirty"
    tombstones: TombstoneRule = "dirty"


class DebeziumFormat(Block):
    """Change events of Debezium, with or without their schema.

    Attributes:
        other_messages: What happens to messages that change no row.
        tombstones: What happens to records without a value.
        registry: Name of a schema registry's connection; keys and values are in Confluent's wire
            format then. None for JSON.
        encoding: Encoding of keys and values, if there is a registry.
        unknown_wait_ms: How long a task waits for a schema id that the registry does not know.
    """

    other_messages: TombstoneRule = "dirty"
    tombstones: TombstoneRule = "skip"
    registry: Line | None = None
    encoding: Literal["avro", "protobuf"] = "avro"
    unknown_wait_ms: UnknownWait = Field(default=30_000, alias="unknown_schema_wait")


class ChangeLogFormat(Block):
    """Messages of Maxwell.

    Attributes:
        other_messages: What happens to messages that change no row.
        tombstones: What happens to records without a value.
    """

    other_messages: TombstoneRule = "dirty"
    tombstones: TombstoneRule = "dirty"


class CanalFormat(ChangeLogFormat):
    """Messages of Canal.

    Attributes:
        table: The only table whose messages are rows, as `name` or `database.name`; others are
            skipped. None takes all.
    """

    table: Line | None = None


class FormatSpec(PluginBlock):
    """How payloads are read; exactly one format is given."""

    ONE_OF = ("json", "raw", "csv", "debezium", "canal", "maxwell", "avro", "protobuf")
    PLUGINS = (PluginGroup.FORMATS,)
    json_: JsonFormat | None = Field(default=None, alias="json")
    raw: RawFormat | None = None
    csv: CsvFormat | None = None
    debezium: DebeziumFormat | None = None
    canal: CanalFormat | None = None
    maxwell: ChangeLogFormat | None = None
    avro: AvroFormat | None = None
    protobuf: ProtobufFormat | None = None

    @property
    def is_change_log(self) -> bool:
        """Whether records are changes of rows, which have no meaning without the first one."""
        return any((self.debezium, self.canal, self.maxwell))

    @property
    def rows_block(self) -> "RowsFormat | None":
        """The block of a format whose payloads are rows with fields; None for other formats."""
        return self.json_ or self.csv or self.avro or self.protobuf

    @property
    def registry(self) -> str | None:
        """The connection of the format's schema registry; None without one."""
        named = self.json_ or self.avro or self.protobuf or self.debezium
        return None if named is None else named.registry

    @property
    def built_in(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Name and options of the format, as texts in the order of its keys.

        JSON for a block that names none, which the loader refuses. Not for plug-ins, nor for
        formats that read by schemas, which have more options.
        """
        for name, info in type(self).model_fields.items():
            block = getattr(self, name)
            if block is not None:
                return info.alias or name, _texts(block)
        return "json", _texts(JsonFormat())


RowsFormat = JsonFormat | CsvFormat | AvroFormat | ProtobufFormat
"""Formats with a row in each payload, and no changes."""


def _texts(block: Block) -> tuple[tuple[str, str], ...]:
    return tuple((name, _text(value)) for name, value in block if value is not None)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
