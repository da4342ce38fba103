"""The typed formats that are judged beside JSON."""

from .avro_format import AVRO
from .connect_format import CONNECT, WRAPPED_DEBEZIUM
from .protobuf_format import PROTOBUF

TYPED_FORMATS = (AVRO, PROTOBUF, CONNECT, WRAPPED_DEBEZIUM)
