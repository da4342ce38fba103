"""Partitions of a side file, by columns: what is written is read, and nothing else."""

import base64
import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from sluiceway.ledger.folding.fold_state import PartitionState
from sluiceway.ledger.partition_image import packed_states, unpacked_states
from sluiceway.types.strict_json import StrictJsonError


def states() -> list[PartitionState]:
    moved = PartitionState.begun(("20261120", None), "dt=20261120/app=é", 7)
    moved.move("dt=20261120/_sluiceway-9-" + "0" * 32 + "/app=é", 9)
    moved.rows, moved.files, moved.size_bytes, moved.file_sum = 2**62, 3, 2**60, 2**128 - 1
    expired = PartitionState.begun((), "", 3)
    expired.whole, expired.expired = False, True
    return [moved, expired]


def test_partitions_are_read_as_they_were_written() -> None:
    assert unpacked_states(packed_states(states())) == states()
    assert unpacked_states(packed_states([])) == []


def _packed(columns: object) -> str:
    return base64.b64encode(zlib.compress(json.dumps(columns).encode())).decode()


HARMS: dict[str, Callable[[dict[str, Any]], None]] = {
    "a column is missing": lambda columns: columns.pop("rows"),
    "a column is unknown": lambda columns: columns.update(more=[1, 2]),
    "a column is short": lambda columns: columns["rows"].pop(),
    "a number is a text": lambda columns: columns.update(rows=["1", "2"]),
    "a number is a truth": lambda columns: columns.update(version=[True, False]),
    "a value is a number": lambda columns: columns.update(values=[[1], []]),
    "values are no list": lambda columns: columns.update(values=["ab", "cd"]),
    "a sum has no digits": lambda columns: columns.update(file_sum=["x", "0"]),
    "a column is none": lambda columns: columns.update(folder="ab"),
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=list(HARMS))
def test_other_columns_are_refused(harm: Callable[[dict[str, Any]], None]) -> None:
    raw = zlib.decompress(base64.b64decode(packed_states(states())))
    columns = json.loads(raw)
    assert unpacked_states(_packed(columns)) == states()
    harm(columns)
    with pytest.raises(StrictJsonError):
        unpacked_states(_packed(columns))


@pytest.mark.parametrize("packed", ["x", "AAAA", "", _packed([]), _packed(None)])
def test_what_is_no_columns_is_refused(packed: str) -> None:
    with pytest.raises(StrictJsonError):
        unpacked_states(packed)
