"""Data files by readers that know nothing of Hive and Spark, with values as those show them."""

import base64
import json
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.parquet as pq
from pyarrow import orc

from tools.typed_rows import TypedColumn

Row = dict[str, Any]


def read_rows(files: Sequence[Path], *, by: str) -> list[Row]:
    """All rows of some files, by `pyarrow` (Parquet; ORC without its column `t`) or `duckdb`."""
    if by == "pyarrow":
        return [row for each in files for row in _arrow(each)]
    found = duckdb.execute("SELECT * FROM read_parquet(?)", [[str(each) for each in files]])
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def _arrow(path: Path) -> list[Row]:
    if path.suffix == ".orc":
        file = orc.ORCFile(path)
        found = file.read(columns=[name for name in file.schema.names if name != "t"])
    else:
        found = pq.read_table(path, coerce_int96_timestamp_unit="us")
    rows: list[Row] = found.to_pylist()
    return rows


def shown_value(column: TypedColumn, row: Row) -> str | None:
    """The text by which `TypedColumn.sql` has Spark show a value."""
    value = row[column.name]
    if value is None:
        return None
    if column.is_nested():
        return json.dumps(_nested(column.type, value))
    if column.type.startswith("char"):
        return str(value).ljust(5)
    if column.type == "float":
        return str(np.float32(value))
    return _plain(value)


def _plain(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return f"{value.year:04}-{value:%m-%d %H:%M:%S.%f}"
        case date():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
        case _:
            return str(value)


def _nested(kind: str, value: Any) -> Any:
    """As JSON has it; a map may come as pairs."""
    if isinstance(value, list) and kind.startswith("map<"):
        value = dict(value)
    if isinstance(value, dict):
        inner = kind.split(",", 1)[1][:-1] if kind.startswith("map<") else ""
        return {key: _nested(inner, each) for key, each in value.items()}
    if isinstance(value, list):
        return [_nested(kind[6:-1] if kind.startswith("array<") else "", each) for each in value]
    return _plain(value) if isinstance(value, datetime) else value
