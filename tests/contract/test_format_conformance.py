"""The formats of this package against the suite for all."""

import re
from collections.abc import Sequence
from typing import Literal

import pytest

from sluiceway.conformance.formats import FormatConformance, Row
from sluiceway.formats.avro.schema import fingerprint
from sluiceway.formats.contract import RowDecoder
from sluiceway.formats.csv.decoder import CsvDecoder
from sluiceway.formats.json.decoder import JsonDecoder
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.types.schema import DataType, Field, Schema, StringType
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


class TestJsonFramed(FormatConformance):
    def decoder(
        self, schema: Schema, *, tombstones: Literal["skip", "dirty"] = "dirty"
    ) -> RowDecoder:
        options = (("tombstones", tombstones), ("frame", "confluent"))
        return open_decoder(FormatChoice("json", options), schema)

    def encode(self, row: Row) -> bytes:
        return b"\0\0\0\0\7" + json_payload(row)


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


class TestCsv(FormatConformance):
    options: tuple[tuple[str, str], ...] = ()
    null, delimiter = "", ","

    def decoder(
        self, schema: Schema, *, tombstones: Literal["skip", "dirty"] = "dirty"
    ) -> RowDecoder:
        named = (("fields", ",".join(field.name for field in self.schema.fields)),)
        options = (*self.options, *named, ("tombstones", tombstones))
        return open_decoder(FormatChoice("csv", options), schema)

    def encode(self, row: Row) -> bytes:
        return self.delimiter.join(map(self._field, row.values())).encode()

    def _field(self, value: object) -> str:
        if value is None:
            return self.null
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if not text or any(mark in text for mark in f'"\r\n{self.delimiter[0]}'):
            return '"' + text.replace('"', '""') + '"'
        return text


class TestCsvBackslash(TestCsv):
    options = (("delimiter", "||"), ("escape", "\\"), ("null_text", "\\N"))
    null, delimiter = "\\N", "||"

    def _field(self, value: object) -> str:
        if value is None:
            return self.null
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return re.sub(r'["\\|]', r"\\\g<0>", text).replace("\n", r"\n").replace("\r", r"\r")


class TestCsvSlowPath(TestCsv):
    def decoder(
        self, schema: Schema, *, tombstones: Literal["skip", "dirty"] = "dirty"
    ) -> RowDecoder:
        fields = ",".join(field.name for field in self.schema.fields)
        options = {"fields": fields, "tombstones": tombstones}
        return CsvDecoder(schema, options, exact_only=True)


class TestDebezium(FormatConformance):
    def decoder(
        self, schema: Schema, *, tombstones: Literal["skip", "dirty"] = "dirty"
    ) -> RowDecoder:
        return open_decoder(FormatChoice("debezium", (("tombstones", tombstones),)), schema)

    def encode(self, row: Row) -> bytes:
        return b'{"before":null,"after":%s,"source":{"pos":1},"op":"c"}' % json_payload(row)


class TestDebeziumWithSchema(TestDebezium):
    def encode(self, row: Row) -> bytes:
        return b'{"schema":{"type":"struct"},"payload":%s}' % super().encode(row)


class TestMaxwell(FormatConformance):
    def decoder(
        self, schema: Schema, *, tombstones: Literal["skip", "dirty"] = "dirty"
    ) -> RowDecoder:
        return open_decoder(FormatChoice("maxwell", (("tombstones", tombstones),)), schema)

    def encode(self, row: Row) -> bytes:
        return b'{"type":"insert","xid":1,"data":%s}' % json_payload(row)


class TestCanal(FormatConformance):
    def decoder(
        self, schema: Schema, *, tombstones: Literal["skip", "dirty"] = "dirty"
    ) -> RowDecoder:
        return open_decoder(FormatChoice("canal", (("tombstones", tombstones),)), schema)

    def encode(self, row: Row) -> bytes:
        return b'{"type":"INSERT","data":[{}],%s' % json_payload(row)[1:]


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
    "option",
    [("tombstones", "keep"), ("unknown_fields", "all"), ("engine", "gpu"), ("delimiter", ";")],
)
def test_option_that_json_does_not_have_is_refused(option: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match=f"no option {option[0]}: {option[1]}"):
        open_decoder(FormatChoice("json", (option,)), FormatConformance.schema)
