"""Wrong variants of reading a table: some seed has to catch each."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sluiceway.chains.upstream import UpstreamLedger
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import ReplaceRecord
from sluiceway.ledger.records import Record
from sluiceway.ledger.row_places import FileSpan, RowBook
from sluiceway.sources.contract import HandOver
from tools.mutant_fit import Patch, held

_REPLACE, _HAND_OVER = RowBook._replace, UpstreamLedger.hand_over
_SPANS = RowBook._spans


def all_published(self: LedgerLog, record: Record) -> bool:
    """What is committed counts as published."""
    return True


def reordered(self: RowBook, slot: int, body: ReplaceRecord) -> None:
    """Files of a REPLACE are taken in another order than that of their rows."""
    _REPLACE(self, slot, replace(body, added=tuple(reversed(body.added))))


def whole_files(self: RowBook, asked: Any) -> list[FileSpan]:
    """A span begins with its file."""
    return [replace(span, first_row=0) for span in _SPANS(self, asked)]


def lease_ahead(self: UpstreamLedger, place: int) -> int:
    """A slot counts as read with its first row."""
    at = bisect_right(self._steps, place, key=lambda step: step.end)
    return self._steps[min(at, len(self._steps) - 1)].slot if self._steps else -1


def hand_over_mid_slot(self: UpstreamLedger, place: int, within_ms: int) -> HandOver | None:
    """A slot that is read in part counts as read."""
    at = bisect_right(self._steps, place, key=lambda step: step.end)
    if at < len(self._steps) and (not at or self._steps[at - 1].end != place):
        return _HAND_OVER(self, self._steps[at].end, within_ms)
    return _HAND_OVER(self, place, within_ms)


def hand_over_at_newest(self: UpstreamLedger, place: int, within_ms: int) -> HandOver | None:
    """The topics begin where the table's job is now."""
    found = _HAND_OVER(self, place, within_ms)
    return None if found is None else _HAND_OVER(self, self.end, within_ms)


MUTANTS: dict[str, Sequence[Patch]] = {
    "all-published": [(LedgerLog, "_has_files", all_published)],
    "reordered": [(RowBook, "_replace", reordered)],
    "whole-files": [(RowBook, "_spans", whole_files)],
    "lease-ahead": [(UpstreamLedger, "slot_before", lease_ahead)],
    "hand-over-mid-slot": [(UpstreamLedger, "hand_over", hand_over_mid_slot)],
    "hand-over-at-newest": [(UpstreamLedger, "hand_over", hand_over_at_newest)],
}


@contextmanager
def patched(name: str) -> Iterator[None]:
    """The product with one of them inside the block; empty is the product itself.

    Raises:
        MisfitError: It does not apply to the product as it is.
    """
    with held(name, MUTANTS[name] if name else ()):
        yield
