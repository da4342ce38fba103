from hashlib import sha256

import numpy as np

from sluiceway.ledger.offset_sum import ZERO, add_sums, offset_sum


def test_offset_sum_has_the_documented_vectors() -> None:
    assert offset_sum(0, np.array([], dtype=np.int64)) == ZERO
    assert offset_sum(0, np.array([0], dtype=np.int64)) == VECTOR_0_0
    assert offset_sum(3, np.array([5, 8], dtype=np.int64)) == VECTOR_3_58


VECTOR_0_0 = "568a9b0b1a2c05ecac11611d348b4be1"
VECTOR_3_58 = "6618b774f9a3113f2b5a14fe98d168a8"


def test_offset_sum_ignores_order_and_adds_up() -> None:
    offsets = np.arange(1000, dtype=np.int64)
    whole = offset_sum(2, offsets)
    assert offset_sum(2, offsets[::-1]) == whole
    assert add_sums(offset_sum(2, offsets[:400]), offset_sum(2, offsets[400:])) == whole


def test_offset_sum_tells_pairs_with_the_same_plain_sum_apart() -> None:
    left = offset_sum(0, np.array([5, 8], dtype=np.int64))
    right = offset_sum(0, np.array([6, 7], dtype=np.int64))
    assert left != right
    assert offset_sum(1, np.array([5, 8], dtype=np.int64)) != left


def test_offset_sum_of_a_text_key_is_of_its_hash() -> None:
    offsets = np.array([5, 8], dtype=np.int64)
    hashed = int.from_bytes(sha256(b"broker-a/3").digest()[:8]) | 1 << 63
    assert offset_sum("broker-a/3", offsets) == offset_sum(hashed, offsets)
    assert offset_sum("broker-a/3", offsets) == "aed7506692e0ab4bdfea4693d47f24c3"
    assert offset_sum("broker-a/3", offsets) != offset_sum("broker-b/3", offsets)
