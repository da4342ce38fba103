"""Option names for the schemas of Avro and Protobuf.

They are apart from the decoders, so that loading a job file imports no decoder.
"""

AVRO_SCHEMA = "schema"
AVRO_CONNECT = "connect"
AVRO_BARE = "bare"
"""The field name for a payload that is no record."""
AVRO_SCHEMAS = "schemas."
"""Prefix of the number, where there are several."""

PROTOBUF_DESCRIPTOR_SET = "descriptor_set"
PROTOBUF_SCHEMA = "schema"
PROTOBUF_CONNECT = "connect"
PROTOBUF_MESSAGE = "message"

MAX_PROTOBUF_BYTES = 16 * 1024 * 1024
"""Most bytes of a descriptor set, or of a text with its imports."""
