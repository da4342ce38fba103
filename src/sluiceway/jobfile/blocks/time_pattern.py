"""Patterns from an event time to a partition value: `yyyyMMdd`, `HH`, `yyyy-MM-dd HH`."""

import re

from sluiceway.jobfile.blocks.values import wrong

_FIELDS = ("yyyy", "MM", "dd", "HH", "mm")
_PIECE = re.compile(r"([A-Za-z])\1*|.", re.DOTALL)
_LITERALS = frozenset("-_. ")
_MEANT = {
    "Y": "yyyy",
    "y": "yyyy",
    "M": "MM",
    "D": "dd",
    "d": "dd",
    "h": "HH",
    "H": "HH",
    "m": "mm",
}


def check_time_pattern(pattern: str) -> str:
    """Check that a pattern holds known fields, each once, and otherwise only plain literals.

    Returns:
        The pattern.

    Raises:
        PydanticCustomError: The pattern is not valid.
    """
    pieces = [match[0] for match in _PIECE.finditer(pattern)]
    fields = [piece for piece in pieces if piece not in _LITERALS]
    for piece in fields:
        if piece not in _FIELDS:
            meant = _MEANT.get(piece[0])
            todo = f"write `{meant}` for `{piece}`" if meant else f"remove `{piece}`"
            raise wrong("a pattern of yyyy MM dd HH mm and `-`, `_`, `.`, space", todo)
    if not fields or len(fields) != len(set(fields)) or pattern != pattern.strip():
        todo = "give each field at most once, no space at either end"
        raise wrong("a pattern with at least one of yyyy MM dd HH mm", todo)
    return pattern
