"""Parquet files of few rows: the native module makes each in one call, footer included."""

from datetime import date
from decimal import Context, Decimal
from math import isfinite
from typing import Any

import pyarrow as pa

from sluiceway.host.native_module import native_module
from sluiceway.sinks.files.column_bounds import bound_text, instant_text

# Up to so many rows the library takes longer, by measurement.
MOST_ROWS = 2_000
# One page a column holds all of it.
MOST_BYTES = 2 << 20
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_EXACT = Context(prec=38)
_CODECS = ("zstd", "snappy")


class SmallParquetFiles:
    """Makes the small files of one table. May be used by several threads.

    Args:
        maker: The native module's.
    """

    def __init__(self, maker: Any) -> None:
        self._maker = maker

    @classmethod
    def like(
        cls, template: bytes, schema: pa.Schema, *, compression: str, level: int | None
    ) -> "SmallParquetFiles | None":
        """Files with the schema of another one.

        Args:
            template: A Parquet file of no rows, as the library writes it.
            schema: Schema of the rows, as they are written.
            compression: Codec of all columns that it makes smaller.
            level: Compression level; None where the codec has none.

        Returns:
            None without the native module, and where it does not write such files.
        """
        module = native_module()
        if module is None or compression not in _CODECS:
            return None
        try:
            found = cls(module.SmallParquet(template, compression, level or 0))
            found.file(schema.empty_table())
        except ValueError:
            # A type that only the library knows.
            return None
        return found

    @staticmethod
    def fits(rows: int, size_bytes: int) -> bool:
        """Whether a file of so many rows and Arrow bytes is a small one."""
        return 0 < rows <= MOST_ROWS and size_bytes <= MOST_BYTES

    def file(self, table: pa.Table) -> tuple[bytes, list[tuple[Any, Any] | None]]:
        """The file of some rows.

        Returns:
            All its bytes. For each column of Parquet its least and greatest value: numbers, a
            decimal's digits, days or units since 1970. None for other columns, and without values.

        Raises:
            ValueError: The rows are not as the schema says.
        """
        (rows,) = table.combine_chunks().to_batches() or [_no_rows(table.schema)]
        made: tuple[bytes, list[tuple[Any, Any] | None]]
        made = self._maker.file(*rows.__arrow_c_array__())
        return made


def bound_texts(kind: pa.DataType, low: Any, high: Any) -> tuple[str, str] | None:
    """Bounds of a column as a record of the ledger holds them; None where it holds none.

    Args:
        kind: Type of the column in Arrow.
        low: Its least value, as `SmallParquetFiles.file` returns it.
        high: Its greatest one.
    """
    if pa.types.is_timestamp(kind):
        return _instant(kind, low), _instant(kind, high)
    if pa.types.is_decimal(kind):
        return _decimal(kind, low), _decimal(kind, high)
    if pa.types.is_date(kind):
        try:
            return _day(low), _day(high)
        except (ValueError, OverflowError):
            # Outside of the years 1 to 9999, as SQL may make one.
            return None
    if isinstance(low, float) and not (isfinite(low) and isfinite(high)):
        return None
    return bound_text(low), bound_text(high)


def _instant(kind: pa.TimestampType, value: int) -> str:
    scaled = abs(value) * 1_000_000 // _UNITS[kind.unit]
    return instant_text(scaled if value >= 0 else -scaled)


def _decimal(kind: pa.Decimal128Type, digits: int) -> str:
    return bound_text(Decimal(digits).scaleb(-kind.scale, _EXACT))


def _day(days: int) -> str:
    return bound_text(date.fromordinal(_EPOCH_DAY + days))


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)
