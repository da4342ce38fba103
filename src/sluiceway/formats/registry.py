"""Which decoder reads a route's payloads: this package's own, or a plug-in's by its name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, cast

from sluiceway.formats.avro.decoder import open_avro
from sluiceway.formats.changes.decoder import ChangeLogDecoder
from sluiceway.formats.changes.envelopes import CANAL, DEBEZIUM, MAXWELL
from sluiceway.formats.contract import RowDecoder
from sluiceway.formats.csv.decoder import CsvDecoder
from sluiceway.formats.json.decoder import Engine, JsonDecoder
from sluiceway.formats.json.framed import FramedJsonDecoder
from sluiceway.formats.options import FREE, known_options
from sluiceway.formats.protobuf.decoder import open_protobuf
from sluiceway.formats.raw.decoder import RawDecoder
from sluiceway.plugins import PluginGroup, find_implementation, opened
from sluiceway.types.schema import Schema

if TYPE_CHECKING:
    from sluiceway.formats.json.extra_keys import ExtraRule

OpenDecoder = Callable[[Schema, Mapping[str, str]], RowDecoder]
"""What an entry point of `sluiceway.formats` names: columns and the job file's options -> a
decoder. Called once per task and route, and by `validate`; it raises `ValueError`, in words for
the user, for options or column types that it cannot serve."""


@dataclass(frozen=True, slots=True)
class FormatChoice:
    """How a route's payloads are read; a value, so that it reaches the workers.

    Attributes:
        name: As in the job file.
        options: Names and values as text, in order. May hold secrets: never logged.
    """

    name: str
    options: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"FormatChoice({self.name!r}, <{len(self.options)} options>)"


JSON = FormatChoice("json")


def _open_json(schema: Schema, options: Mapping[str, str]) -> RowDecoder:
    known = {
        "extra": ("ignore", "dirty", "keep", "evolve"),
        "extra_column": FREE,
        "tombstones": ("dirty", "skip"),
        "engine": ("auto", "native", "library"),
        "frame": ("none", "confluent"),
    }
    chosen = known_options("json", options, known)
    tombstones = cast("Literal['skip', 'dirty']", chosen["tombstones"])
    decoder = JsonDecoder(
        schema,
        extra=cast("ExtraRule", chosen["extra"]),
        extra_column=chosen["extra_column"],
        tombstones=tombstones,
        engine=cast("Engine", chosen["engine"]),
    )
    return decoder if chosen["frame"] == "none" else FramedJsonDecoder(decoder)


_BUILT_IN: Mapping[str, OpenDecoder] = {
    "avro": open_avro,
    "protobuf": open_protobuf,
    "json": _open_json,
    "raw": RawDecoder,
    "csv": CsvDecoder,
    "debezium": partial(ChangeLogDecoder, DEBEZIUM),
    "canal": partial(ChangeLogDecoder, CANAL),
    "maxwell": partial(ChangeLogDecoder, MAXWELL),
}


def open_decoder(choice: FormatChoice, schema: Schema) -> RowDecoder:
    """A decoder for one route in one task. Called once per task and route, and by checks.

    Args:
        choice: The format.
        schema: Columns that come from the payload.

    Raises:
        ValueError: The format cannot carry a column, or has no such option.
        UnhealthyEnvironmentError: Nothing installed here has the name, or it does not work.
    """
    open_it: OpenDecoder = find_implementation(PluginGroup.FORMATS, choice.name, _BUILT_IN)
    return opened(
        PluginGroup.FORMATS,
        choice.name,
        RowDecoder,  # type: ignore[type-abstract]
        lambda: open_it(schema, dict(choice.options)),
        told=(ValueError,),
    )
