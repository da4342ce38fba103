"""Texts of a batch of times, each distinct step formatted once."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from sluiceway.eventtime.time_text import floor_divide

_TEXTS = pa.dictionary(pa.int32(), pa.string())

FormatOne = Callable[[int], str | None]


def partition_texts(micros: pa.Array, step_us: int, format_one: FormatOne) -> pa.DictionaryArray:
    """Texts of times, as `TimePattern.format` writes them. Called once a batch and column.

    Args:
        micros: int64 since the epoch, UTC; no nulls.
        step_us: Times of one step have one text, except where the zone changes its offset.
        format_one: Returns the text of one time.
    """
    steps = floor_divide(micros, step_us).dictionary_encode()
    firsts = [step * step_us for step in steps.dictionary.to_pylist()]
    texts = [format_one(first) for first in firsts]
    odd = [
        code for code, first in enumerate(firsts) if format_one(first + step_us - 1) != texts[code]
    ]
    codes = steps.indices
    if odd:
        # Each time in a step with an offset change gets a code of its own.
        numbers = codes.to_numpy().copy()
        rows = np.flatnonzero(np.isin(numbers, odd))
        numbers[rows] = np.arange(len(texts), len(texts) + len(rows))
        texts += [format_one(micros[row].as_py()) for row in rows.tolist()]
        codes = pa.array(numbers)
    return pa.DictionaryArray.from_arrays(codes, pa.array(texts, pa.string())).cast(_TEXTS)
