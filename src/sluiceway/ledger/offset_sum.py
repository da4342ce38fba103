"""Order-free sum over the rows that were read (see docs/adr/0002-offset-sum.md).

Each (source partition number, offset) is mixed into two independent 64-bit words; the sums of
both words, modulo 2^64 each, make 128 bits. Adding is commutative, so ranges, tasks and epochs
can be summed in any order. It finds accidents, not forgery: only the broker is evidence.
"""

from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from sluiceway.types.log_key import LogKey

ZERO = "0" * 32
_SEEDS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03))
_MASK = (1 << 64) - 1


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Finaliser of SplitMix64 (Steele, Lea, Flood 2014): every input bit moves every output bit."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def offset_sum(partition: LogKey, offsets: NDArray[np.int64]) -> str:
    """Sum of one source partition's rows.

    Args:
        partition: Key of the source partition in its topic.
        offsets: Offsets of the rows, any order.

    Returns:
        32 lower-case hex digits.
    """
    words = offsets.astype(np.uint64)
    number = np.full(1, _number(partition), dtype=np.uint64)
    sums = []
    for seed in _SEEDS:
        keyed = words + _mix(number + seed)
        sums.append(int(_mix(_mix(keyed) + seed).sum(dtype=np.uint64)))
    return f"{sums[0]:016x}{sums[1]:016x}"


def _number(partition: LogKey) -> int:
    """A number itself; of a text 64 bits, with the highest set, which no number has."""
    if isinstance(partition, int):
        return partition
    return int.from_bytes(sha256(partition.encode()).digest()[:8]) | 1 << 63


def add_sums(left: str, right: str) -> str:
    """Sum of two disjoint sets of rows."""
    words = ((int(left[i : i + 16], 16) + int(right[i : i + 16], 16)) & _MASK for i in (0, 16))
    return "".join(f"{word:016x}" for word in words)
