"""Google's well-known types, which registries and texts import without having them."""

from functools import cache

from sluiceway.formats.protobuf.proto_text import parse_proto
from sluiceway.formats.protobuf.schema import WrittenFile

_WRAPPED = (
    ("Double", "double"), ("Float", "float"), ("Int64", "int64"), ("UInt64", "uint64"),
    ("Int32", "int32"), ("UInt32", "uint32"), ("Bool", "bool"), ("String", "string"),
    ("Bytes", "bytes"),
)  # fmt: skip
_TEXT = """
syntax = "proto3";
package google.protobuf;
message Timestamp { int64 seconds = 1; int32 nanos = 2; }
message Duration { int64 seconds = 1; int32 nanos = 2; }
message Any { string type_url = 1; bytes value = 2; }
message Empty {}
message FieldMask { repeated string paths = 1; }
enum NullValue { NULL_VALUE = 0; }
message Struct { map<string, Value> fields = 1; }
message ListValue { repeated Value values = 1; }
message Value {
  oneof kind {
    NullValue null_value = 1;
    double number_value = 2;
    string string_value = 3;
    bool bool_value = 4;
    Struct struct_value = 5;
    ListValue list_value = 6;
  }
}
"""
_CONNECT = {
    "confluent/type/decimal.proto": """
syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
""",
    "google/type/date.proto": """
syntax = "proto3";
package google.type;
message Date { int32 year = 1; int32 month = 2; int32 day = 3; }
""",
    "google/type/timeofday.proto": """
syntax = "proto3";
package google.type;
message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }
""",
}
CONNECT_FILES = frozenset({*_CONNECT, "confluent/meta.proto"})
"""Files that Kafka Connect's converter imports; the last one has options alone."""


@cache
def connect_files() -> tuple[WrittenFile, ...]:
    """Declarations of the types that Kafka Connect's converter writes values as."""
    return tuple(map(parse_proto, _CONNECT.values()))


@cache
def well_known_files() -> tuple[WrittenFile, ...]:
    """Declarations of the well-known types."""
    wrappers = "".join(f"message {name}Value {{ {of} value = 1; }}\n" for name, of in _WRAPPED)
    return (parse_proto(_TEXT + wrappers),)
