"""Columns that say where rows came from, and the sums that are made of them."""

from itertools import starmap

import numpy as np
import pyarrow as pa
import pytest

from sluiceway.audit.offset_check import OriginColumns, add_origins, origin_columns, table_origins
from sluiceway.ledger.offset_sum import offset_sum
from sluiceway.types.log_key import LogKey, SourceKey
from sluiceway.worker.plan import PlannedMetaColumn


@pytest.mark.parametrize("kind", ["partition", "partition_text"])
def test_columns_are_found_whatever_the_kind_of_the_keys(kind: str) -> None:
    meta = (("topic", "_t"), (kind, "_p"), ("offset", "_o"), ("timestamp", "_s"))
    found = origin_columns({each.part: each.column for each in starmap(PlannedMetaColumn, meta)})
    assert found == OriginColumns("_t", "_p", "_o")
    assert origin_columns({"topic": "_t", "offset": "_o"}) is None


@pytest.mark.parametrize("keys", [(3, 4), ("broker-a/3", "broker-b/3")])
def test_sums_of_rows_are_those_of_their_source_partitions(keys: tuple[LogKey, LogKey]) -> None:
    first, second = keys
    table = pa.table({"t": ["a"] * 3, "p": [first, second, first], "o": [1, 2, 5]})
    found: dict[SourceKey, str] = {}
    add_origins(found, table_origins(table, ["t", "p", "o"]))
    assert found == {
        ("a", first): offset_sum(first, np.array([1, 5], dtype=np.int64)),
        ("a", second): offset_sum(second, np.array([2], dtype=np.int64)),
    }


def test_numbers_that_a_text_format_keeps_as_text_are_the_same_source_partitions() -> None:
    found: dict[SourceKey, str] = {}
    table = pa.table({"t": ["a"], "p": ["3"], "o": ["7"]})
    add_origins(found, table_origins(table, ["t", "p", "o"]))
    assert found == {("a", 3): offset_sum(3, np.array([7], dtype=np.int64))}


def test_key_that_no_source_gives_is_told() -> None:
    table = pa.table({"t": ["a"], "p": ["007"], "o": [7]})
    with pytest.raises(ValueError, match="'007' is no source partition"):
        add_origins({}, table_origins(table, ["t", "p", "o"]))
