"""The formats of this package against the suite for all."""

from typing import Literal

import pytest

from sluiceway.conformance.formats import FormatConformance, Row
from sluiceway.formats.avro.schema import fingerprint
from sluiceway.formats.contract import RowDecoder
from sluiceway.formats.json.decoder import JsonDecoder
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.types.schema import Schema
from tools.avro_payloads_of_rows import AVRO_SCHEMA, avro_payload
from tools.json_payloads_of_rows import json_payload
from tools.protobuf_payloads_of_rows import PROTO, protobuf_payload


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


class TestAvro(FormatConformance):
    def decoder(
        self, schema: Schema, *, tombstones: Literal["skip", "dirty"] = "dirty"
    ) -> RowDecoder:
        options = (("schema", AVRO_SCHEMA), ("tombstones", tombstones))
        return open_decoder(FormatChoice("avro", options), schema)

    def encode(self, row: Row) -> bytes:
        return avro_payload(row)


class TestAvroSingleObject(TestAvro):
    def decoder(
        self, schema: Schema, *, tombstones: Literal["skip", "dirty"] = "dirty"
    ) -> RowDecoder:
        options = (("schemas.0", AVRO_SCHEMA), ("tombstones", tombstones))
        return open_decoder(FormatChoice("avro", options), schema)

    def encode(self, row: Row) -> bytes:
        return b"\xc3\x01" + fingerprint(AVRO_SCHEMA).to_bytes(8, "little") + avro_payload(row)


class TestProtobuf(FormatConformance):
    def decoder(
        self, schema: Schema, *, tombstones: Literal["skip", "dirty"] = "dirty"
    ) -> RowDecoder:
        options = (("schema", PROTO), ("message", "Row"), ("tombstones", tombstones))
        return open_decoder(FormatChoice("protobuf", options), schema)

    def encode(self, row: Row) -> bytes:
        return protobuf_payload(row)


@pytest.mark.parametrize(
    "option", [("tombstones", "keep"), ("extra", "keep"), ("engine", "gpu"), ("delimiter", ";")]
)
def test_option_that_json_does_not_have_is_refused(option: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match=f"no option {option[0]}: {option[1]}"):
        open_decoder(FormatChoice("json", (option,)), FormatConformance.schema)
