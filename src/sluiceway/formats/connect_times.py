"""Kafka Connect's names for numbers that are times.

Source: the semantic types of Kafka Connect and of Debezium's documentation.
"""

from collections.abc import Callable, Mapping

from sluiceway.convert.typed_values import Day, Instant, LocalTime, TypedTime

MakeTime = Callable[[int], TypedTime]

DECIMAL = "org.apache.kafka.connect.data.Decimal"
"""Bytes of a whole number; the scale is a parameter of the schema."""

NANO_TIMESTAMP = "io.debezium.time.NanoTimestamp"
"""Numbers of nanoseconds, which a column counts in microseconds."""

CONNECT_TIMES: Mapping[str, MakeTime] = {
    "org.apache.kafka.connect.data.Date": Day,
    "io.debezium.time.Date": Day,
    "org.apache.kafka.connect.data.Timestamp": lambda ms: Instant(ms * 1_000_000),
    "io.debezium.time.Timestamp": lambda ms: LocalTime(ms * 1_000_000),
    "io.debezium.time.MicroTimestamp": lambda us: LocalTime(us * 1000),
    NANO_TIMESTAMP: LocalTime,
}
"""Debezium's names of local times; the schema names no zone."""

CONNECT_TEXT_TIMES = frozenset({"io.debezium.time.IsoTimestamp"})
"""Texts that end with Z but are local times, like those numbers."""

ZONED_TIMESTAMP = "io.debezium.time.ZonedTimestamp"
"""Texts with an offset."""

VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
"""A structure of a decimal's scale and its unscaled value."""

CONNECT_DECIMAL = "org.apache.kafka.connect.data.Decimal"
"""Bytes of a decimal's unscaled value; the scale is in the schema."""
