"""A share of `python -m real_schemas`: the schemas of packages that are installed anyway."""

import pytest

from real_schemas.packages import installed_packages
from real_schemas.trial import compare, registered, tried
from sluiceway.formats.protobuf.proto_text import compile_proto
from sluiceway.formats.protobuf.reader import MessageReader
from sluiceway.formats.protobuf.schema import FieldType
from sluiceway.formats.schema_registry.client import RegisteredSchema

SHARE = [
    (path, texts)
    for _, texts in installed_packages()
    for path in sorted(texts)
    if "google/api/" not in path or path.endswith(("http.proto", "annotations.proto"))
]


@pytest.mark.parametrize(("path", "texts"), SHARE, ids=[path for path, _ in SHARE])
def test_published_schema_is_read_as_googles_reader_does(path: str, texts: dict[str, str]) -> None:
    assert tried(registered(path, texts)) == ""


def test_a_field_that_is_read_otherwise_is_seen() -> None:
    schema = compile_proto('syntax = "proto3"; message A { sint32 n = 1; string s = 2; }')
    (message,) = schema.top
    compare(schema, message, MessageReader(message, {}))
    message.fields[0] = FieldType("n", 1, "int32", False, False, -1)  # noqa: FBT003
    with pytest.raises(AssertionError, match=r"A\.n: 14"):
        compare(schema, message, MessageReader(message, {}))


def test_what_is_no_schema_is_refused_with_its_reason() -> None:
    broken = RegisteredSchema("PROTOBUF", "message {")
    assert "cannot be read: line 1: " in tried(broken)
    assert "cannot be read: " in tried(RegisteredSchema("AVRO", "[]7"))
    assert tried(RegisteredSchema("AVRO", '"long"')) == ""
