"""The block `format` as frozen values: how payloads are read."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from sluiceway.plugins import PluginGroup
from sluiceway.spec.block import Block
from sluiceway.spec.plugin_block import PluginBlock
from sluiceway.spec.schema_formats import AvroFormat, ProtobufFormat
from sluiceway.spec.values import not_yet

TombstoneRule = Literal["skip", "dirty"]


def _extra(value: object) -> object:
    if value in ("keep", "dirty"):
        raise not_yet(f"`{value}`", "write ignore")
    return value


class JsonFormat(Block):
    """JSON objects.

    Attributes:
        extra: What happens to keys that no column reads.
        tombstones: What happens to records without a value.
        engine: What reads payloads before the slow path decides what is left; equal outcomes.
    """

    extra: Annotated[Literal["ignore"], BeforeValidator(_extra)] = "ignore"
    tombstones: TombstoneRule = "dirty"
    engine: Literal["auto", "native", "library"] = "auto"


class FormatSpec(PluginBlock):
    """How payloads are read; exactly one format is given."""

    LATER = frozenset({"csv", "raw", "debezium", "canal", "maxwell"})
    ONE_OF = ("json", "avro", "protobuf")
    PLUGINS = (PluginGroup.FORMATS,)
    json_: JsonFormat | None = Field(default=None, alias="json")
    avro: AvroFormat | None = None
    protobuf: ProtobufFormat | None = None
