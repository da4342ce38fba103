"""Rows of the cases as Kafka Connect's converters write them: in JSON, Avro and Protobuf."""

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro

from logical_types.cases import AT, DAY, DECIMAL, Case, as_json
from tools import protobuf_bytes as pb

_AVRO = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float32": "float",
    "float64": "double",
    "string": "string",
    "bytes": "bytes",
}
_AVRO_LOGICAL = {
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
}
_PROTO = {
    "int8": "int32",
    "int16": "int32",
    "int32": "int32",
    "int64": "int64",
    "float32": "float",
    "float64": "double",
    "string": "string",
    "bytes": "bytes",
}
_PROTO_NAMED = {
    DECIMAL: "confluent.type.Decimal",
    "org.apache.kafka.connect.data.Date": "google.type.Date",
    "org.apache.kafka.connect.data.Time": "google.type.TimeOfDay",
    "org.apache.kafka.connect.data.Timestamp": "google.protobuf.Timestamp",
}
_IMPORTS = "".join(
    f'import "{name}";\n'
    for name in (
        "confluent/type/decimal.proto",
        "google/type/date.proto",
        "google/type/timeofday.proto",
        "google/protobuf/timestamp.proto",
    )
)


def column_names(cases: Sequence[Case]) -> list[str]:
    """Of the columns, one a case."""
    return [f"c{number}" for number in range(len(cases))]


def change(case: Case, name: str) -> bytes:
    """A change of Debezium in JSON that has this case alone, with its schema."""
    fields = [{"field": "id", "type": "int64"}, {**case.schema, "field": name}]
    after = {"type": "struct", "fields": fields, "field": "after"}
    row = {"id": int(name[1:]), name: as_json(case.schema, case.raw)}
    source = {"connector": "postgresql"}
    payload = {"op": "c", "before": None, "after": row, "source": source}
    schema = {"type": "struct", "fields": [after]}
    return json.dumps({"schema": schema, "payload": payload}).encode()


def avro_schema(cases: Sequence[Case]) -> str:
    """The schema of rows that may have any of the cases."""
    seen: set[str] = set()
    fields: list[dict[str, Any]] = [{"name": "id", "type": "long"}]
    for name, case in zip(column_names(cases), cases, strict=True):
        fields.append({"name": name, "type": ["null", _avro(case.schema, seen)], "default": None})
    return json.dumps({"type": "record", "name": "Row", "fields": fields})


def _avro(schema: Mapping[str, Any], seen: set[str]) -> Any:
    name = schema.get("name")
    match schema["type"]:
        case "array":
            return {"type": "array", "items": _avro(schema["items"], seen)}
        case "map" if schema["keys"]["type"] == "string":
            return {"type": "map", "values": _avro(schema["values"], seen)}
        case "map":
            entry = {
                "type": "record",
                "name": f"MapEntry{len(seen)}",
                "fields": [
                    {"name": part, "type": _avro(schema[whole], seen)}
                    for part, whole in (("key", "keys"), ("value", "values"))
                ],
            }
            return {"type": "array", "items": entry}
        case "struct":
            # Holders of different values have one name in the cases, and none in Avro.
            full = str(name) if name != "x.Holder" else f"x.Holder{len(seen)}"
            if full in seen:
                return full
            seen.add(full)
            inner = [
                {"name": each["field"], "type": _avro(each, seen)} for each in schema["fields"]
            ]
            return {"type": "record", "name": full, "fields": inner, "connect.name": name}
        case kind:
            return _avro_plain(schema, _AVRO[kind])


def _avro_plain(schema: Mapping[str, Any], kind: str) -> dict[str, Any]:
    name, made = schema.get("name"), {"type": kind}
    if name is not None:
        made["connect.name"] = name
    if name == DECIMAL:
        # Without a precision of its own the converter writes 64.
        return {**made, "logicalType": "decimal", "precision": 10, "scale": 2}
    if name in _AVRO_LOGICAL:
        made["logicalType"] = _AVRO_LOGICAL[name]
    return made


def avro_row(schema: str, case: Case, name: str) -> bytes:
    """A record that has this case alone."""
    plain = _without_logical(json.loads(schema))
    out = io.BytesIO()
    row = {"id": int(name[1:]), name: _avro_value(case.schema, case.raw)}
    fastavro.schemaless_writer(out, fastavro.parse_schema(plain), row)
    return out.getvalue()


def _without_logical(node: Any) -> Any:
    """The same on the wire, of values that are not yet what a logical type means."""
    if isinstance(node, list):
        return [_without_logical(each) for each in node]
    if isinstance(node, dict):
        return {k: _without_logical(of) for k, of in node.items() if k != "logicalType"}
    return node


def _avro_value(schema: Mapping[str, Any], raw: Any) -> Any:
    match schema["type"]:
        case "array":
            return [_avro_value(schema["items"], each) for each in raw]
        case "map":
            pairs = [(key, _avro_value(schema["values"], of)) for key, of in raw.items()]
            if schema["keys"]["type"] == "string":
                return dict(pairs)
            return [{"key": key, "value": of} for key, of in pairs]
        case "struct":
            fields = schema["fields"]
            return {each["field"]: _avro_value(each, raw[each["field"]]) for each in fields}
        case _:
            return raw


def proto_schema(cases: Sequence[Case]) -> str:
    """The text of a message `Row` that may have any of the cases."""
    fields, inner = ["int64 id = 1;"], list[str]()
    for number, case in enumerate(cases):
        of = _proto(case.schema, f"M{number}", inner)
        # Without that nothing tells a plain value that is not set from its default.
        of = f"optional {of}" if of in _PROTO.values() else of
        fields.append(f"{of} c{number} = {number + 2};")
    body = "\n".join([*inner, *fields])
    return f'syntax = "proto3";\n{_IMPORTS}message Row {{\n{body}\n}}\n'


def _proto(schema: Mapping[str, Any], scope: str, inner: list[str]) -> str:
    named = _PROTO_NAMED.get(str(schema.get("name")))
    if named is not None:
        return named
    match schema["type"]:
        case "array":
            return f"repeated {_proto(schema['items'], scope, inner)}"
        case "map":
            key = _PROTO[schema["keys"]["type"]]
            return f"map<{key}, {_proto(schema['values'], scope, inner)}>"
        case "struct":
            name = str(schema["name"]).rpartition(".")[2]
            below: list[str] = []
            parts = [
                f"{_proto(each, f'{scope}x', below)} {each['field']} = {place + 1};"
                for place, each in enumerate(schema["fields"])
            ]
            # A message of its own around it: two cases have structs of one name.
            inner.append(f"message {scope} {{ message {name} {{ {' '.join([*below, *parts])} }} }}")
            return f"{scope}.{name}"
        case kind:
            return _PROTO[kind]


def proto_row(case: Case, name: str) -> bytes:
    """A message that has this case alone."""
    number = int(name[1:])
    head = pb.tagged(1, pb.VARINT, pb.varint(number))
    return head + _proto_field(case.schema, case.raw, number + 2)


def _proto_field(schema: Mapping[str, Any], raw: Any, number: int) -> bytes:
    match schema["type"]:
        case "array":
            return b"".join(_proto_field(schema["items"], each, number) for each in raw)
        case "map":
            return b"".join(
                pb.tagged(
                    number,
                    pb.LENGTH,
                    _proto_field(schema["keys"], key, 1) + _proto_field(schema["values"], of, 2),
                )
                for key, of in raw.items()
            )
        case _:
            return _proto_one(schema, raw, number)


def _proto_one(schema: Mapping[str, Any], raw: Any, number: int) -> bytes:
    name = str(schema.get("name"))
    if name in _PROTO_NAMED:
        return pb.tagged(number, pb.LENGTH, _known(name, schema, raw))
    match schema["type"]:
        case "struct":
            parts = (
                _proto_field(each, raw[each["field"]], place + 1)
                for place, each in enumerate(schema["fields"])
            )
            return pb.tagged(number, pb.LENGTH, b"".join(parts))
        case "string":
            return pb.tagged(number, pb.LENGTH, raw.encode())
        case "bytes":
            return pb.tagged(number, pb.LENGTH, raw)
        case "float64":
            return pb.tagged(number, pb.FIXED64, pb.floating(raw, 64))
        case "float32":
            return pb.tagged(number, pb.FIXED32, pb.floating(raw, 32))
        case _:
            return pb.tagged(number, pb.VARINT, pb.varint(raw))


def _known(name: str, schema: Mapping[str, Any], raw: Any) -> bytes:
    """The messages that the converter has for Connect's own types."""
    match name.rpartition(".")[2]:
        case "Decimal":
            scale = int(schema["parameters"]["scale"])
            return pb.tagged(1, pb.LENGTH, raw) + pb.tagged(3, pb.VARINT, pb.varint(scale))
        case "Date":
            parts = (DAY.year, DAY.month, DAY.day)
        case "Time":
            parts = (raw // 3_600_000, 0, 0)
        case _:
            parts = (int(AT.timestamp()), raw % 1000 * 1_000_000, 0)
    return b"".join(
        pb.tagged(place + 1, pb.VARINT, pb.varint(part)) for place, part in enumerate(parts) if part
    )
