"""Tells of columns that no row fills beside fields that no column reads: names misspelt, mostly."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from sluiceway.observe.log import Log
from sluiceway.spec.key_path import path_text
from sluiceway.types.schema import Field
from sluiceway.worker.plan import TaskResult

_MOST_TOLD = 20


class RouteUnfilledColumns:
    """One route's, while its driver lives. Used by one thread at a time.

    Args:
        log: Of the route.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._empty: frozenset[str] | None = None
        self._told: set[str] = set()

    def check(
        self, columns: Sequence[Field], results: Sequence[TaskResult], ignored: Mapping[str, int]
    ) -> dict[str, str]:
        """Take in what the tasks of an epoch have filled; each column is told once.

        Args:
            columns: Of the payload, as the tasks were told.
            results: What they have answered.
            ignored: Fields that no column reads, seen so far.

        Returns:
            Columns that no row has filled so far, each with the field that was meant, as far as
            its name tells; else with an empty text. None while every field is read.
        """
        for each in results:
            if each.unfilled is not None:
                found = frozenset(each.unfilled)
                self._empty = found if self._empty is None else self._empty & found
        if not self._empty or not ignored:
            return {}
        empty = [column for column in columns if column.name in self._empty][:_MOST_TOLD]
        named = {column.name: _nearest(column, ignored) for column in empty}
        self._tell({name: n for name, n in named.items() if name not in self._told}, ignored)
        return named

    def _tell(self, named: Mapping[str, str], ignored: Mapping[str, int]) -> None:
        if not named:
            return
        self._told.update(named)
        meant = ", ".join(f"`{field}` for {name}" for name, field in named.items() if field)
        ask = f"did you mean the field {meant}? " if meant else ""
        self._log.warning(
            "columns_never_filled",
            columns=list(named),
            fields_not_read=list(ignored)[:_MOST_TOLD],
            hint=f"{ask}No row since this driver started fills the columns. Name the field as "
            "`path` of the column in the job file; rows that are there stay null",
        )


def _nearest(column: Field, ignored: Mapping[str, int]) -> str:
    """The field that a column's name was meant to be; empty when none is like it."""
    by_name = {name.lower(): name for name in ignored}
    wanted = path_text(column.path or (column.name,)).lower()
    close = get_close_matches(wanted, by_name, n=1)
    return by_name[close[0]] if close else ""
