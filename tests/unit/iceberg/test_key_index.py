"""Where keys lie: found among pieces of files, by hashes of whole columns."""

from decimal import Decimal
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from sluiceway.sinks.iceberg.keyed import key_index
from sluiceway.sinks.iceberg.keyed.key_index import KeyIndex, canonical_keys, key_hashes

CHANCE = Random(11)  # noqa: S311 - a game
KEYS = {
    "whole": pa.array([CHANCE.randrange(-(2**63), 2**63) for _ in range(300)], pa.int64()),
    "small": pa.array(range(300), pa.int32()),
    "amount": pa.array([Decimal(n) / 100 for n in range(-150, 150)], pa.decimal128(18, 2)),
    "text": pa.array(["", "a", "ab", "ba", "\0", "\0\0", *(f"ключ {n}" for n in range(294))]),
    "at": pa.array([n * 3_600_000_000 for n in range(300)], pa.timestamp("us")),
    "day": pa.array(range(300), pa.date32()),
}


@pytest.mark.parametrize("name", KEYS)
def test_equal_keys_have_equal_hashes_and_others_do_not(name: str) -> None:
    column = canonical_keys(pa.table({"k": KEYS[name]}))["k"]
    hashes = key_hashes([column])
    # Of a part that does not begin at the beginning, and in another order.
    order = CHANCE.sample(range(100, 300), 150)
    assert (key_hashes([column.slice(100)]) == hashes[100:]).all()
    assert (key_hashes([column.take(pa.array(order))]) == hashes[order]).all()
    distinct = len(set(column.to_pylist()))
    assert len(np.unique(hashes)) == distinct
    # The upper bits are what is looked at first.
    assert len(np.unique(hashes >> np.uint64(40))) == distinct


def test_parts_of_a_key_count_by_their_column() -> None:
    left, right = pa.chunked_array([["a", "b"]]), pa.chunked_array([["b", "a"]])
    hashes = key_hashes([left, right])
    assert hashes[0] != hashes[1]
    assert key_hashes([pa.chunked_array([], pa.string())]).tolist() == []


def test_nulls_are_hashed_alike_whatever_lies_below_them() -> None:
    plain = pa.array([1, None, 3], pa.int64())
    odd = pa.Array.from_buffers(
        pa.int64(), 3, [plain.buffers()[0], pa.py_buffer(np.array([1, 77, 3]).tobytes())]
    )
    assert (key_hashes([pa.chunked_array([plain])]) == key_hashes([pa.chunked_array([odd])])).all()


def test_keys_are_found_in_each_piece_and_only_where_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(key_index, "PIECE_ROWS", 16)
    monkeypatch.setattr(key_index, "_ROW", np.uint64(15))
    rows = {"one": [f"k{n % 40}" for n in range(100)], "two": ["x"], "none": []}

    def read(path: str) -> list[pa.Table]:
        table = pa.table({"k": pa.array(rows[path], pa.string())})
        return [table.slice(begin, 7) for begin in range(0, table.num_rows, 7)]

    index = KeyIndex(read)
    asked = pa.table({"k": pa.array(["k3", "x", "y", "k39"])})
    for paths in (["one", "two", "none"], ["two", "one"], ["one"], ["one", "two"]):
        found = {path: list(places) for path, places in index.find(paths, asked).items()}
        wanted = {"one": [3, 39, 43, 79, 83], "two": [0]}
        assert found == {path: wanted[path] for path in paths if path in wanted}
    index.close()


def test_a_hash_that_is_anothers_is_no_hit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "key_hashes", lambda columns: np.zeros(len(columns[0]), "u8"))
    index = KeyIndex(lambda path: [pa.table({"k": pa.array([1, 2, 3, 2], pa.int64())})])
    found = index.find(["f"], pa.table({"k": pa.array([2, 9], pa.int64())}))
    assert {path: list(places) for path, places in found.items()} == {"f": [1, 3]}
    index.close()
