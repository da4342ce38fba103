"""Partition transforms give what Iceberg's specification says."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyiceberg.transforms import BucketTransform, TruncateTransform, parse_transform
from pyiceberg.types import DateType, DecimalType, LongType, StringType, TimestampType

from sluiceway.eventtime.partition_values import LakeTransform, murmur3_32
from sluiceway.sinks.iceberg.partition_fields import transformed_value

TIMES = [
    datetime.fromisoformat(text)
    for text in ("1969-12-31T23:00:00", "1970-01-01T00:00:00", "2026-11-20T08:59:00")
]


def texts(transform: str, values: list[object], kind: pa.DataType) -> list[str | None]:
    rows = pa.record_batch([pa.array(values, kind)], names=["c"])
    codes, found = LakeTransform(transform, "c", rows.schema).encode(rows)
    return [found[code] for code in codes.tolist()]


@pytest.mark.parametrize("name", ["year", "month", "day", "hour"])
def test_times_are_those_of_the_library_also_before_1970(name: str) -> None:
    micros = [int(each.replace(tzinfo=UTC).timestamp() * 1_000_000) for each in TIMES]
    shown = texts(name, [*TIMES, None], pa.timestamp("us"))
    apply = parse_transform(name).transform(TimestampType())
    assert shown[-1] is None
    found = [transformed_value(text, name, TimestampType()) for text in shown[:-1] if text]
    assert found == [apply(each) for each in micros]


def test_hours_are_shown_as_people_read_them() -> None:
    assert texts("hour", [TIMES[2]], pa.timestamp("us")) == ["2026-11-20-08"]


@pytest.mark.parametrize(
    ("values", "arrow", "kind"),
    [
        (["", "iceberg", "Größe"], pa.string(), StringType()),
        ([0, 34, -1, 2**62], pa.int64(), LongType()),
        ([Decimal("14.20"), Decimal("-0.01")], pa.decimal128(9, 2), DecimalType(9, 2)),
        ([date(2017, 11, 16)], pa.date32(), DateType()),
    ],
)
def test_buckets_are_those_of_the_library(
    values: list[object], arrow: pa.DataType, kind: object
) -> None:
    stored = [(v - date(1970, 1, 1)).days if isinstance(v, date) else v for v in values]
    apply = BucketTransform(num_buckets=16).transform(kind)
    assert texts("bucket[16]", values, arrow) == [str(apply(each)) for each in stored]


@pytest.mark.parametrize(
    ("values", "arrow", "kind"),
    [
        (["iceberg", "ab", "Größe"], pa.string(), StringType()),
        ([17, -1, -10, 0], pa.int64(), LongType()),
        ([Decimal("10.65"), Decimal("-0.05")], pa.decimal128(9, 2), DecimalType(9, 2)),
    ],
)
def test_truncated_values_are_those_of_the_library(
    values: list[object], arrow: pa.DataType, kind: object
) -> None:
    apply = TruncateTransform(width=10 if arrow != pa.string() else 3).transform(kind)
    width = 3 if arrow == pa.string() else 10
    shown = texts(f"truncate[{width}]", values, arrow)
    found = [transformed_value(text, f"truncate[{width}]", kind) for text in shown if text]
    assert found == [apply(each) for each in values]


WIDE = Decimal("-123456789012345678901234567890123456.78")


def test_decimals_of_38_digits_are_not_rounded() -> None:
    kind = DecimalType(38, 2)
    apply = BucketTransform(num_buckets=1000).transform(kind)
    assert texts("bucket[1000]", [WIDE], pa.decimal128(38, 2)) == [str(apply(WIDE))]
    (cut,) = texts("truncate[10]", [WIDE], pa.decimal128(38, 2))
    assert cut == "-123456789012345678901234567890123456.80"
    assert transformed_value(cut, "truncate[10]", kind) == Decimal(cut)


@pytest.mark.parametrize(("arrow", "bits"), [(pa.int64(), 64), (pa.int32(), 32), (pa.int16(), 32)])
def test_a_truncated_number_below_the_least_wraps_as_in_java(arrow: pa.DataType, bits: int) -> None:
    least = -(1 << (arrow.bit_width - 1))
    cut = least - least % 10
    wanted = cut if arrow.bit_width < bits else cut + (1 << bits)
    assert texts("truncate[10]", [least, 17], arrow) == [str(wanted), "10"]


def test_hash_is_that_of_the_specification() -> None:
    signed = [value - (1 << 32) if value >> 31 else value for value in (murmur3_32(b"iceberg"),)]
    assert signed == [1_210_000_089]


def test_a_transform_that_does_not_take_the_column_is_refused() -> None:
    schema = pa.schema([("c", pa.string())])
    with pytest.raises(ValueError, match="hour does not take the column c"):
        LakeTransform("hour", "c", schema)
