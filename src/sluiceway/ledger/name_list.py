"""Names of folders with a slot each, as one short text.

Hours of years differ in a digit or two from the one before: compressed, a name takes a byte or
two and a slot two or three.
"""

import base64
import zlib
from collections.abc import Mapping
from itertools import pairwise

from sluiceway.types.strict_json import StrictJsonError


def packed_names(slots: Mapping[str, int]) -> str:
    """The names in order, and behind them their slots, each told from the one before."""
    if not slots:
        return ""
    names = sorted(slots)
    told = [slots[name] for name in names]
    steps = [told[0], *(after - before for before, after in pairwise(told))]
    text = "\n".join([*names, *map(str, steps)])
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


def unpacked_names(packed: str) -> dict[str, int]:
    """The same again.

    Raises:
        StrictJsonError: It is no such text.
    """
    if not packed:
        return {}
    try:
        lines = zlib.decompress(base64.b64decode(packed, validate=True)).decode().split("\n")
        half, odd = divmod(len(lines), 2)
        steps = [int(line) for line in lines[half:]]
    except (ValueError, zlib.error) as error:
        raise StrictJsonError(f"no list of names: {error}") from error
    if odd:
        raise StrictJsonError("a list of names has a name without a slot")
    found, slot = dict[str, int](), 0
    for name, step in zip(lines, steps, strict=False):
        slot += step
        found[name] = slot
    return found
