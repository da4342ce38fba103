"""The decoder of a route's payloads: one of this package, or a plug-in by its name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from sluiceway.formats.contract import RowDecoder
from sluiceway.plugins import PluginGroup, find_implementation, opened
from sluiceway.types.schema import Schema

OpenDecoder = Callable[[Schema, Mapping[str, str]], RowDecoder]
"""What an entry point of `sluiceway.formats` names: from columns and the job file's options to a
decoder.

Called once per task and route, and by `validate`. It raises `ValueError`, in words for the user,
for options or column types that it cannot serve."""


@dataclass(frozen=True, slots=True)
class FormatChoice:
    """How a route's payloads are read; a value, so that it can be sent to the workers.

    Attributes:
        name: Name of the format in the job file.
        options: Names and values as text, in order. May hold secrets: never logged.
        whole_rows: Meaning of payloads without a change log in a keyed table, which are rows as
            they are from then on. `delete`: a tombstone deletes its row; `keep`: it does not. None
            where the format itself has changes, and where rows have no key.
    """

    name: str
    options: tuple[tuple[str, str], ...] = ()
    whole_rows: Literal["delete", "keep"] | None = None

    def __repr__(self) -> str:
        return f"FormatChoice({self.name!r}, <{len(self.options)} options>)"


JSON = FormatChoice("json")


# Named, not imported: each of them takes long, and a job has one or two.
_BUILT_IN = {
    "avro": "sluiceway.formats.avro.decoder:open_avro",
    "protobuf": "sluiceway.formats.protobuf.decoder:open_protobuf",
    "json": "sluiceway.formats.json.choice:open_json",
    "raw": "sluiceway.formats.raw.decoder:RawDecoder",
    "table": "sluiceway.formats.table_rows:TableDecoder",
    "csv": "sluiceway.formats.csv.decoder:CsvDecoder",
    "debezium": "sluiceway.formats.changes.decoder:open_debezium",
    "canal": "sluiceway.formats.changes.decoder:open_canal",
    "maxwell": "sluiceway.formats.changes.decoder:open_maxwell",
}


def open_decoder(choice: FormatChoice, schema: Schema) -> RowDecoder:
    """A decoder for one route in one task. Called once per task and route, and by checks.

    Args:
        choice: The format.
        schema: Columns that come from the payload.

    Raises:
        ValueError: The format cannot carry a column, or has no such option.
        UnhealthyEnvironmentError: No installed format has the name, or it does not work.
    """
    open_it: OpenDecoder = find_implementation(PluginGroup.FORMATS, choice.name, _BUILT_IN)
    decoder = opened(
        PluginGroup.FORMATS,
        choice.name,
        RowDecoder,  # type: ignore[type-abstract]
        lambda: open_it(schema, dict(choice.options)),
        allowed_errors=(ValueError,),
    )
    if choice.whole_rows is None:
        return decoder
    # Not imported for tables without a key.
    rows: RowDecoder = import_module("sluiceway.formats.framed_rows").WholeRowsDecoder(
        decoder, schema, nulls_delete=choice.whole_rows == "delete"
    )
    return rows
