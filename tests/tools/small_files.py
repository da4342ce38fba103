"""A partition of many small files, in any format of a table, and the plan that merges them."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.sinks.files.contract import FileChoice, FileFormat
from sluiceway.sinks.files.reading import file_ending
from sluiceway.sinks.files.registry import open_format
from sluiceway.storage.local import LocalStorage
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.schema import (
    BooleanType,
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
)
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.plan import FileRules
from sluiceway.worker.rewrite import RewritePlan, rewrite_files

USUAL = datetime.fromisoformat("2026-11-20T08:09:00.123")
COLUMNS = Schema(
    (
        Field("id", IntegerType(64)),
        Field("flag", BooleanType()),
        Field("small", IntegerType(8)),
        Field("g", FloatType(64)),
        Field("price", DecimalType(18, 2)),
        Field("name", StringType()),
        Field("day", DateType()),
        Field("at", TimestampType()),
        Field("tags", ListType(StringType())),
        Field("counts", MapType(StringType(), IntegerType(32))),
        Field("geo", StructType((Field("lat", FloatType(64)), Field("city", StringType())))),
    )
)
SCHEMA = arrow_schema(COLUMNS)


def row(number: int, *, at: datetime | None = None) -> dict[str, Any]:
    if number % 7 == 3:
        return {"id": number} | dict.fromkeys(SCHEMA.names[1:])
    return {
        "id": number,
        "flag": number % 2 == 0,
        "small": number % 100 - 50,
        "g": [0.1, -0.0, float(number), 1.25e-300][number % 4],
        "price": Decimal(number).scaleb(-2),
        "name": ["", "北京 📦", "a\\b", f"n{number}"][number % 4],
        "day": date(2026, 11, 1 + number % 28),
        "at": at or USUAL + timedelta(seconds=number),
        "tags": [None, [], ["x", None, ""]][number % 3],
        "counts": [("k", number), ("", None)] if number % 2 else [],
        "geo": {"lat": 0.5, "city": None} if number % 3 else None,
    }


class SmallFiles:
    """A table's folder with the files of one partition."""

    def __init__(self, root: Path, choice: FileChoice, schema: pa.Schema = SCHEMA) -> None:
        self.layout = LedgerLayout(str(root), "orders")
        self.storage = LocalStorage()
        self.choice = choice
        self.schema = schema
        self.files: list[FileRecord] = []
        self.stage = root / "_sluiceway/orders/stage"
        self.stage.mkdir(parents=True)

    def add(self, rows: Sequence[dict[str, Any]], schema: pa.Schema | None = None) -> None:
        """One more file of the partition."""
        used = schema or self.schema
        final = f"dt=1/orders-1-{len(self.files)}-0-x{file_ending(self.choice)}"
        writer = self.storage.create_staged(f"{self.layout.stage}/{len(self.files)}")
        file = open_format(used, self.choice).new_file(writer)
        file.write(pa.RecordBatch.from_pylist(list(rows), schema=used))
        made = file.close()
        self.storage.publish(
            made.path,
            self.layout.final(final),
            size_bytes=made.seal.size_bytes,
            crc32c=made.seal.crc32c,
        )
        sizes = BigInt(made.rows), BigInt(made.seal.size_bytes)
        bounds: dict[str, tuple[str, ...]] = dict(made.column_bounds)
        self.files.append(FileRecord("", final, ("1",), *sizes, made.seal.crc32c, bounds))

    def rewrite(self, target_bytes: int = 128 << 20) -> tuple[FileRecord, ...]:
        files = tuple(self.files)
        plan = RewritePlan(self.layout, self.folder(), files, self.choice, FileRules(target_bytes))
        return rewrite_files(plan, self.storage)

    def folder(self) -> str:
        """A staged folder for new files."""
        made = self.stage / "i7-0"
        made.mkdir(exist_ok=True)
        return str(made)

    def staged(self, record: FileRecord) -> Path:
        return self.stage / record.staged

    def old(self) -> list[Path]:
        return [Path(self.layout.final(record.final)) for record in self.files]


def choice_of(file_format: FileFormat, compression: str, **settings: str) -> FileChoice:
    named = {"name": "ods.orders", **settings}
    columns = None if file_format is FileFormat.PARQUET else COLUMNS
    return FileChoice(file_format, compression, columns, tuple(sorted(named.items())))


PARQUET = choice_of(FileFormat.PARQUET, "zstd")
FORMATS = {
    "parquet": PARQUET,
    "parquet_micros": choice_of(FileFormat.PARQUET, "snappy", timestamps="micros"),
    "orc": choice_of(FileFormat.ORC, "zstd"),
    "text": choice_of(FileFormat.TEXT, "gzip", **{"escape.delim": "\\"}),
    "json": choice_of(FileFormat.JSON, "snappy"),
    "json_lz4": choice_of(FileFormat.JSON, "lz4"),
    "avro": choice_of(FileFormat.AVRO, "gzip"),
    "avro_plain": choice_of(FileFormat.AVRO, "none"),
}
