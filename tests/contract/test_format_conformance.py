"""The formats of this package against the suite for all."""

import json
from decimal import Decimal
from typing import Literal

import pytest

from sluiceway.conformance.formats import FormatConformance, Row
from sluiceway.formats.contract import RowDecoder
from sluiceway.formats.json.decoder import JsonDecoder
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.types.schema import Schema


def json_payload(row: Row) -> bytes:
    """A row as JSON; decimals as numbers with all their digits."""
    parts = (
        f"{json.dumps(name)}: {value if isinstance(value, Decimal) else json.dumps(value)}"
        for name, value in row.items()
    )
    return f"{{{', '.join(parts)}}}".encode()


class TestJson(FormatConformance):
    def decoder(
        self, schema: Schema, *, tombstones: Literal["skip", "dirty"] = "dirty"
    ) -> RowDecoder:
        return open_decoder(FormatChoice("json", (("tombstones", tombstones),)), schema)

    def encode(self, row: Row) -> bytes:
        return json_payload(row)


class TestJsonSlowPath(TestJson):
    def decoder(
        self, schema: Schema, *, tombstones: Literal["skip", "dirty"] = "dirty"
    ) -> RowDecoder:
        return JsonDecoder(schema, tombstones=tombstones, fast_path=False)


@pytest.mark.parametrize("option", [("tombstones", "keep"), ("extra", "keep"), ("delimiter", ";")])
def test_option_that_json_does_not_have_is_refused(option: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match=f"no option {option[0]}: {option[1]}"):
        open_decoder(FormatChoice("json", (option,)), FormatConformance.schema)
