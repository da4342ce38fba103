"""The formats of this package against the suite for all."""

from collections.abc import Sequence
from typing import Literal

import pytest

from sluiceway.conformance.formats import FormatConformance, Row
from sluiceway.formats.contract import RowDecoder
from sluiceway.formats.json.decoder import JsonDecoder
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.types.schema import DataType, Field, Schema, StringType
from tools.json_payloads_of_rows import json_payload


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
        return JsonDecoder(schema, tombstones=tombstones, engine="exact")


class TestJsonLibrary(TestJson):
    def decoder(
        self, schema: Schema, *, tombstones: Literal["skip", "dirty"] = "dirty"
    ) -> RowDecoder:
        return JsonDecoder(schema, tombstones=tombstones, engine="library")


class TestRaw(FormatConformance):
    schema = Schema((Field("line", StringType(), required=True),))
    empty_is_a_value = True

    def decoder(
        self, schema: Schema, *, tombstones: Literal["skip", "dirty"] = "dirty"
    ) -> RowDecoder:
        return open_decoder(FormatChoice("raw", (("tombstones", tombstones),)), schema)

    def encode(self, row: Row) -> bytes:
        return (row["line"] or "\0").encode()

    def exact_values(self, kind: DataType) -> Sequence[object]:
        return (*super().exact_values(kind), '{"a": 1}', " two\nlines\r\n")

    def test_null_stays_null_and_is_refused_where_required(self) -> None:
        (dirty,) = self.decoder(self.schema).decode([None]).dirty
        assert (dirty.reason, dirty.path) == ("empty", "")


@pytest.mark.parametrize(
    "option", [("tombstones", "keep"), ("extra", "keep"), ("engine", "gpu"), ("delimiter", ";")]
)
def test_option_that_json_does_not_have_is_refused(option: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match=f"no option {option[0]}: {option[1]}"):
        open_decoder(FormatChoice("json", (option,)), FormatConformance.schema)
