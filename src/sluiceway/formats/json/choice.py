"""The JSON decoder that a job file's options choose."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, cast

from sluiceway.formats.contract import RowDecoder
from sluiceway.formats.json.connect_schema import ConnectSchemas
from sluiceway.formats.json.decoder import Engine, JsonDecoder
from sluiceway.formats.json.framed import FramedJsonDecoder
from sluiceway.formats.options import FREE, known_options
from sluiceway.formats.schema_registry.settings import PREFIX, registry_settings
from sluiceway.formats.schema_registry.store import process_store
from sluiceway.types.schema import Schema

if TYPE_CHECKING:
    from sluiceway.convert.extra_keys import ExtraRule


def open_json(schema: Schema, options: Mapping[str, str]) -> RowDecoder:
    """A decoder as `OpenDecoder` has it.

    Raises:
        ValueError: It cannot carry a column, or has no such option.
    """
    known = {
        "unknown_fields": ("ignore", "dirty", "keep", "evolve"),
        "extra_column": FREE,
        "tombstones": ("dirty", "skip"),
        "engine": ("auto", "native", "library"),
        "frame": ("none", "confluent"),
    }
    registry = {name: value for name, value in options.items() if name.startswith(PREFIX)}
    rest = {name: value for name, value in options.items() if name not in registry}
    chosen = known_options("json", rest, known)
    tombstones = cast("Literal['skip', 'dirty']", chosen["tombstones"])
    decoder = JsonDecoder(
        schema,
        extra=cast("ExtraRule", chosen["unknown_fields"]),
        extra_column=chosen["extra_column"],
        tombstones=tombstones,
        engine=cast("Engine", chosen["engine"]),
    )
    if chosen["frame"] == "none":
        return decoder
    store = process_store(registry_settings(registry)) if registry else None
    return FramedJsonDecoder(decoder, None if store is None else ConnectSchemas(store))
