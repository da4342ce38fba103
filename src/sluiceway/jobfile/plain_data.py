"""Parts of a job file as plain data; wrong shapes are reported elsewhere."""

from collections.abc import Mapping
from typing import Any


def mapping(found: object, *path: str) -> Mapping[str, Any]:
    """The mapping at `path`; empty where there is none."""
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}
