"""Parts of a job file as plain data, whose shapes may be wrong: that is told elsewhere."""

from collections.abc import Mapping
from typing import Any


def mapping(found: object, *path: str) -> Mapping[str, Any]:
    """What is at `path`; nothing where that is no mapping."""
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}
