"""Names of options by which Avro and Protobuf are told their schema.

Apart from the decoders, so that a job file is read without what reads payloads.
"""

AVRO_SCHEMA = "schema"
AVRO_CONNECT = "connect"
AVRO_BARE = "bare"
"""As a field of which name a payload is read that is no record."""
AVRO_SCHEMAS = "schemas."
"""Before the number of one of several."""

PROTOBUF_DESCRIPTOR_SET = "descriptor_set"
PROTOBUF_SCHEMA = "schema"
PROTOBUF_CONNECT = "connect"
PROTOBUF_MESSAGE = "message"

MAX_PROTOBUF_BYTES = 16 * 1024 * 1024
"""Of a descriptor set, or a text with what it imports."""
