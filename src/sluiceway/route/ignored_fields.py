"""Tells of fields that payloads have and no column reads: a producer's new field is not silent."""

from collections import Counter
from collections.abc import Sequence

from sluiceway.observe.log import Log
from sluiceway.types.dirty import shown
from sluiceway.worker.plan import ObservedField

_MOST_NAMES = 200
_MOST_CHARS = 200


class IgnoredFields:
    """One route's, while its driver lives. Used by one thread at a time.

    Args:
        log: Of the route.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._rows: Counter[str] = Counter()

    def count(self, seen: Sequence[ObservedField]) -> dict[str, int]:
        """Take in what the tasks of an epoch have seen; each name is told once.

        Args:
            seen: Fields in the rows that were sampled.

        Returns:
            Rows in which each was seen so far.
        """
        new: dict[str, str] = {}
        for each in seen:
            name = shown(each.name, _MOST_CHARS)[1:-1]
            if name not in self._rows:
                if len(self._rows) >= _MOST_NAMES:
                    continue
                new[name] = each.type or "of no one type"
            self._rows[name] += each.rows
        if new:
            self._log.info("fields_ignored", fields=new)
        return dict(self._rows)
