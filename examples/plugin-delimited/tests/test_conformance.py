"""The format against Sluiceway's suite, opened as a job opens it: by its name."""

from typing import Literal

from sluiceway.conformance.formats import FormatConformance, Row
from sluiceway.formats.contract import RowDecoder
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.types.schema import Schema

_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


class TestDelimited(FormatConformance):
    def decoder(
        self, schema: Schema, *, tombstones: Literal["skip", "dirty"] = "dirty"
    ) -> RowDecoder:
        return open_decoder(FormatChoice("delimited", (("tombstones", tombstones),)), schema)

    def encode(self, row: Row) -> bytes:
        return "\t".join(_text(value) for value in row.values()).encode()


def _text(value: object) -> str:
    if value is None:
        return r"\N"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).translate(_ESCAPES)
