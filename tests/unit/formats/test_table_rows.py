"""Rows of another table become the columns of this one: the same, converted exactly, or dirty."""

from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from sluiceway.chains.row_texts import row_texts
from sluiceway.convert.column_rows import ColumnRows
from sluiceway.formats.contract import Decoded
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.types.payloads import JoinedPayloads
from sluiceway.types.policy import Policy
from sluiceway.types.schema import (
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    ListType,
    MapType,
    Schema,
    StringType,
    StructType,
    TimestampType,
    VarcharType,
)

TABLE = FormatChoice("table")
AT = datetime(2026, 11, 20, 8, 0, 0, 500_000)  # noqa: DTZ001 - of UTC, as files have it


def rows(**columns: pa.Array) -> ColumnRows:
    return ColumnRows(pa.RecordBatch.from_pydict(columns), row_texts)


def decoded(*fields: Field, **columns: pa.Array) -> Decoded:
    return open_decoder(TABLE, Schema(fields)).decode(JoinedPayloads([rows(**columns)]))


def test_column_of_the_same_type_passes_as_it_is() -> None:
    held = pa.array([1, None, 3], pa.int64())
    found = decoded(Field("ID", IntegerType(64)), id=held)
    assert found.rows.column("ID").buffers() == held.buffers()
    assert found.indices.to_pylist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("held", "to", "wanted"),
    [
        (pa.array([7], pa.int32()), IntegerType(64), 7),
        (pa.array([7], pa.int64()), IntegerType(8), 7),
        (pa.array(["7"]), IntegerType(32), 7),
        (pa.array([Decimal("1.50")], pa.decimal128(5, 2)), DecimalType(9, 1), Decimal("1.5")),
        (pa.array([1.5], pa.float32()), FloatType(64), 1.5),
        (pa.array([AT], pa.timestamp("us")), TimestampType(), AT),
        (pa.array([AT], pa.timestamp("ns", "UTC")), TimestampType(), AT),
        (pa.array([date(1, 1, 1)]), DateType(), date(1, 1, 1)),
        (pa.array([b"\0\1"]), BinaryType(), b"\0\1"),
        (pa.array(["abc"]), VarcharType(3), "abc"),
        (pa.array([[1, 2]], pa.list_(pa.int32())), ListType(IntegerType(64)), [1, 2]),
        (
            pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
            MapType(StringType(), IntegerType(64)),
            [("a", 1)],
        ),
        (
            pa.array([{"x": 1, "y": AT}]),
            StructType((Field("y", TimestampType()), Field("x", IntegerType(8)))),
            {"y": AT, "x": 1},
        ),
    ],
)
def test_value_of_another_type_is_converted_exactly(
    held: pa.Array, to: DataType, wanted: object
) -> None:
    found = decoded(Field("v", to), v=held)
    assert found.dirty == ()
    assert found.rows.column("v").to_pylist() == [wanted]


@pytest.mark.parametrize(
    ("held", "to", "reason"),
    [
        (pa.array([300], pa.int64()), IntegerType(8), "overflow"),
        (pa.array([1.5]), IntegerType(64), "not_integral"),
        (pa.array([Decimal("1.55")], pa.decimal128(5, 2)), DecimalType(9, 1), "scale"),
        (pa.array(["abcd"]), VarcharType(3), "too_long"),
        (pa.array([True]), IntegerType(8), "wrong_type"),
        (pa.array([1_700_000_000_000_000_001], pa.timestamp("ns")), TimestampType(), "scale"),
    ],
)
def test_value_that_does_not_fit_makes_its_row_dirty(
    held: pa.Array, to: DataType, reason: str
) -> None:
    found = decoded(Field("v", to), v=held)
    assert [(row.index, row.path, row.reason) for row in found.dirty] == [(0, "v", reason)]
    assert found.rows.num_rows == 0


def test_rows_of_several_files_keep_their_places_and_their_own_reasons() -> None:
    fields = (Field("id", IntegerType(64), required=True), Field("n", IntegerType(8)))
    first = rows(id=pa.array([1, None, 3]), n=pa.array([1, 2, 300]))
    # An older file: it has no column `n`.
    second = rows(id=pa.array([4]))
    found = open_decoder(TABLE, Schema(fields)).decode(JoinedPayloads([first, second]))
    assert found.rows.to_pylist() == [{"id": 1, "n": 1}, {"id": 4, "n": None}]
    assert found.indices.to_pylist() == [0, 3]
    assert [(row.index, row.path, row.reason) for row in found.dirty] == [
        (1, "id", "null"),
        (2, "n", "overflow"),
    ]


def test_field_of_a_struct_is_read_by_its_path() -> None:
    held = pa.array([{"city": "Berlin"}, None])
    found = decoded(Field("city", StringType(), path=("geo", "city")), geo=held)
    assert found.rows.column("city").to_pylist() == ["Berlin", None]


@pytest.mark.parametrize(
    ("held", "to", "policy", "wanted"),
    [
        (pa.array([7], pa.int64()), StringType(), Policy(on_lossy="text"), "7"),
        (pa.array(["abcd"]), VarcharType(3), Policy(on_lossy="truncate"), "abc"),
        (pa.array([AT]), StringType(), Policy(on_lossy="text"), "2026-11-20T08:00:00.5Z"),
        (pa.array([AT]), DateType(), Policy(timezone="Asia/Tokyo"), date(2026, 11, 20)),
    ],
)
def test_rules_of_a_column_hold(
    held: pa.Array, to: DataType, policy: Policy, wanted: object
) -> None:
    found = decoded(Field("v", to, policy=policy), v=held)
    assert found.dirty == ()
    assert found.rows.to_pylist() == [{"v": wanted}]


def test_replayed_row_is_what_it_was() -> None:
    fields = (
        Field("id", IntegerType(64)),
        Field("at", TimestampType()),
        Field("raw", BinaryType()),
        Field("amount", DecimalType(18, 2)),
    )
    held = rows(
        id=pa.array([2**62]),
        at=pa.array([AT], pa.timestamp("us")),
        raw=pa.array([b"\0\xff"]),
        amount=pa.array([Decimal("0.10")], pa.decimal128(18, 2)),
    )
    decoder = open_decoder(TABLE, Schema(fields))
    kept = held.payloads([0])
    assert decoder.decode(kept).rows.to_pylist() == decoder.decode(held).rows.to_pylist()


def test_option_is_refused() -> None:
    with pytest.raises(ValueError, match="no option"):
        open_decoder(FormatChoice("table", (("a", "b"),)), Schema((Field("v", StringType()),)))
