"""The typed formats that are judged beside JSON."""

from .avro_format import AVRO
from .protobuf_format import PROTOBUF

TYPED_FORMATS = (AVRO, PROTOBUF)
