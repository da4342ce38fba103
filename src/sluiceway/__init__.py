"""Sluiceway: message queues into Hive and lake tables, exactly once, on Spark."""

from importlib import import_module

__version__ = "0.1.0"

_OF_API = ("PointFile", "RouteSummary", "RunSummary", "TablePoint", "read_at", "run")


def __getattr__(name: str) -> object:
    """Find what `sluiceway.api` has; imported when asked for, so that `import sluiceway` is light.

    Raises:
        AttributeError: There is no such name.
    """
    if name not in _OF_API:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("sluiceway.api"), name)


def __dir__() -> list[str]:
    return [*globals(), *_OF_API]
