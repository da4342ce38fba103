"""Which rows hold a value, however deep inside, that a format cannot keep."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Judge = Callable[[pa.Array], Mask | None]
"""Values of a type that is not nested -> which of them do not fit; None: all of them do."""


def unfit_mask(values: Any, judge: Judge) -> Mask | None:
    """Rows of a column in which the judge refuses a value; None when there are none.

    Args:
        values: Array of any type.
        judge: Asked about the plain values inside.
    """
    kind = values.type
    if pa.types.is_struct(kind):
        return either([unfit_mask(child, judge) for child in values.flatten()])
    if pa.types.is_map(kind):
        keys, items = map_parts(values)
        inner = either([unfit_mask(keys, judge), unfit_mask(items, judge)])
        return any_inside(inner, map_lengths(values))
    if pa.types.is_list(kind):
        return any_inside(unfit_mask(values.flatten(), judge), list_lengths(values))
    found = judge(values)
    return found if found is not None and found.any() else None


def either(masks: list[Mask | None]) -> Mask | None:
    """Rows that any of the masks names; None when there are none."""
    found = None
    for mask in masks:
        if mask is not None and mask.any():
            found = mask if found is None else found | mask
    return found


def any_inside(inner: Mask | None, lengths: NDArray[np.int64]) -> Mask | None:
    """Rows of which any element is named, by a mask over all elements."""
    if inner is None:
        return None
    ends = np.cumsum(lengths)
    named = np.concatenate(([0], np.cumsum(inner)))
    return np.asarray(named[ends] > named[ends - lengths])


def list_lengths(values: Any) -> NDArray[np.int64]:
    """Elements in each list; none in a null."""
    lengths = pc.fill_null(pc.list_value_length(values), 0)
    return np.asarray(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)


def map_lengths(values: Any) -> NDArray[np.int64]:
    """Entries in each map; none in a null."""
    lengths = np.diff(values.offsets.to_numpy()).astype(np.int64)
    if values.null_count:
        lengths[np.asarray(values.is_null())] = 0
    return np.asarray(lengths)


def map_parts(values: Any) -> tuple[Any, Any]:
    """Keys and items of all entries in order, without what null maps may hold."""
    offsets = values.offsets.to_numpy()
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    keys, items = values.keys.slice(first, count), values.items.slice(first, count)
    if values.null_count:
        hidden = np.diff(offsets) * np.asarray(values.is_null())
        if hidden.any():
            shown = np.repeat(~np.asarray(values.is_null()), np.diff(offsets))
            return keys.filter(pa.array(shown)), items.filter(pa.array(shown))
    return keys, items


def null_mask(values: Any) -> Mask:
    """Which values are null."""
    return np.asarray(values.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)


def where_true(found: Any) -> Mask:
    """An Arrow array of booleans as a mask; null is false."""
    filled = pc.fill_null(found, False)  # noqa: FBT003
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.bool_)
