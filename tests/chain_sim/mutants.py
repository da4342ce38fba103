"""Wrong variants of reading a table: some seed has to catch each."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sluiceway.chains import lake_log, units
from sluiceway.chains.lake_log import LakeLog, LakeStep, StepKind
from sluiceway.chains.upstream import UpstreamLedger
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import ReplaceRecord, SwapRecord
from sluiceway.ledger.places import partition_of
from sluiceway.ledger.records import Record
from sluiceway.ledger.row_places import FileSpan, RowBook
from sluiceway.schedule import source_view
from sluiceway.schedule.source_view import SourceView
from sluiceway.sources.contract import Correction, HandOver, Removal, SourcePartition, Split
from sluiceway.types.log_key import SourceKey
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep import rereading
from sluiceway.upkeep.recomputing import Recomputer
from sluiceway.upkeep.rereading import ReadSoFar, Rereading
from tools.mutant_fit import Patch, held

_REFUSE_TWICE, _AS_OF_ENDS = Rereading.refuse_twice, Rereading.as_of_ends
_CORRECTIONS = UpstreamLedger.corrections
_REPLACE, _HAND_OVER = RowBook._replace, UpstreamLedger.hand_over
_SPANS = RowBook._spans
_AFTER, _REMOVAL, _PASSED_OVER = LakeLog.after, lake_log._removal, source_view.passed_over
_WHY_DUE, _APPLY, _NOTE = units._why_due, units.UnitBook.apply, Recomputer._note


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


def sql_forgotten(*given: Any) -> units.DueReason | None:
    """A unit is not due when only the query is another one."""
    reason = _WHY_DUE(*given)
    return None if reason is units.DueReason.SQL else reason


def version_forgotten(
    state: units.UnitState, before: units.ComputedUnit | None, *given: Any
) -> units.DueReason | None:
    """A unit is not due when only its announcement is a newer one."""
    if before is not None and before.slot == state.slot:
        state = replace(state, version=before.version)
    return _WHY_DUE(state, before, *given)


def slot_forgotten(
    state: units.UnitState, before: units.ComputedUnit | None, *given: Any
) -> units.DueReason | None:
    """A unit is not due when only its rows are others."""
    if before is not None and before.version == state.version:
        state = replace(state, slot=before.slot)
    return _WHY_DUE(state, before, *given)


def not_announced(state: units.UnitState, rule: units.UnitRule, now_ms: int) -> bool:
    """Rows that came after the announcement are computed with the others."""
    del now_ms
    return state.version == 0 and rule.when is units.UnitWhen.READY


def moved_is_changed(self: units.UnitBook, record: Record) -> None:
    """Files that a compaction has moved count as other rows."""
    _APPLY(self, record)
    if isinstance(record.body, ReplaceRecord):
        self._add(partition_of(record.body.added[0].final), 0, record.seq, 0)


def newest_input(self: Recomputer, body: SwapRecord) -> None:
    """What was computed counts as computed from all that is known."""
    _NOTE(self, body)
    table = self._table
    for state in () if table is None else table.states():
        if state.prefix == body.prefix:
            known = self._computed[body.prefix]
            self._computed[body.prefix] = replace(known, version=state.version, slot=state.slot)


def ledger_ahead(self: UpstreamLedger, slot: int) -> None:
    """All of the ledger counts as what the snapshot of an Iceberg table has."""
    del slot
    self.read_on()


UNIT_MUTANTS: dict[str, Sequence[Patch]] = {
    "sql-forgotten": [(units, "_why_due", sql_forgotten)],
    "version-forgotten": [(units, "_why_due", version_forgotten)],
    "slot-forgotten": [(units, "_why_due", slot_forgotten)],
    "not-announced": [(units, "is_open", not_announced)],
    "moved-is-changed": [(units.UnitBook, "apply", moved_is_changed)],
    "newest-input": [(Recomputer, "_note", newest_input)],
    "ledger-ahead": [(UpstreamLedger, "read_through", ledger_ahead)],
}
"""Of computing units; `chain_sim.units` catches them."""

MUTANTS: dict[str, Sequence[Patch]] = {
    "all-published": [(LedgerLog, "_has_files", all_published)],
    "reordered": [(RowBook, "_replace", reordered)],
    "whole-files": [(RowBook, "_spans", whole_files)],
    "lease-ahead": [(UpstreamLedger, "slot_before", lease_ahead)],
    "hand-over-mid-slot": [(UpstreamLedger, "hand_over", hand_over_mid_slot)],
    "hand-over-at-newest": [(UpstreamLedger, "hand_over", hand_over_at_newest)],
}


def removals_pass(snapshot: Any, gained: int) -> StepKind:
    """Whatever a snapshot does counts as an append."""
    del snapshot
    return StepKind.ADDS if gained > 0 else StepKind.KEEPS


def expired_left_out(self: LakeLog, split: Split) -> list[LakeStep]:
    """What cannot be read is left out."""
    steps, _ = self._since(split.newest_slot)
    start = max(split.start_offset, steps[0].begin if steps else 0)
    return [step for step in steps if step.kind is not StepKind.KEEPS and step.end > start]


def base_of_now(self: LakeLog, split: Split) -> list[LakeStep]:
    """The rows below the newest ones have the order of the files of now."""
    return _AFTER(self, replace(split, newest_slot=self.newest, leader_epoch=None))


def passed_unread(fold: Fold, view: SourceView) -> HandOver | None:
    """A snapshot that removes rows is passed over before all rows below it are read."""
    for one, place in view.bounds.items():
        known = fold.sources.get((one.topic, one.partition))
        if known is not None and place.removals:
            known = replace(known, end=BigInt(place.removals[0].end))
            fold = replace(fold, sources={**fold.sources, (one.topic, one.partition): known})
    return _PASSED_OVER(fold, view)


def begins_with_all(step: LakeStep) -> Removal:
    """The log after a snapshot that removes rows begins with the rows that it has left."""
    return replace(_REMOVAL(step), start=0)


def added_with_removal(step: LakeStep) -> Removal:
    """The rows that such a snapshot has added are read."""
    gone = _REMOVAL(step)
    return replace(gone, start=max(gone.start - gone.added, 0))


LAKE_MUTANTS: dict[str, Sequence[Patch]] = {
    "passed-unread": [(source_view, "passed_over", passed_unread)],
    "begins-with-all": [(lake_log, "_removal", begins_with_all)],
    "added-with-removal": [(lake_log, "_removal", added_with_removal)],
    "removals-pass": [(lake_log, "_kind", removals_pass)],
    "expired-left-out": [(LakeLog, "after", expired_left_out)],
    "base-of-now": [(LakeLog, "after", base_of_now)],
}
"""Of reading an Iceberg table of others; `chain_sim.lakes` catches them."""


def rebuilt_with_rows_aside(
    self: Rereading, log: LedgerLog, read: ReadSoFar, prefix: str, before: int
) -> None:
    """A prefix is rebuilt while rows of it are aside."""


def not_asked_again(
    self: Rereading, log: LedgerLog, read: ReadSoFar, prefix: str, before: int
) -> None:
    """Whether rows are aside is asked before the work alone."""
    if before == read.slots:
        _REFUSE_TWICE(self, log, read, prefix, before)


def as_of_now(self: Rereading, correction: Correction, ends: Mapping[SourceKey, int]) -> Correction:
    """A rebuild reads all that the table above has."""
    (one,) = (SourcePartition(*key) for key in ends)
    bounds = self._source.bounds([one])
    return _AS_OF_ENDS(self, correction, {(one.topic, one.partition): bounds[one].end_offset})


def any_swap(swaps: Mapping[str, int], log: LedgerLog, correction: Correction) -> bool:
    """Any SWAP of a prefix counts as one with its correction."""
    return correction.prefix in swaps


def last_slot_left_out(self: UpstreamLedger, start: int, place: int) -> tuple[Correction, ...]:
    """A SWAP in the last slot that is read is none of it."""
    found = _CORRECTIONS(self, start, place)
    return tuple(each for each in found if each.slot < each.as_of)


def partly_read_forgotten(self: UpstreamLedger, place: int) -> tuple[str, ...]:
    """A slot that is read in part counts as not read at all."""
    return ()


CORRECTION_MUTANTS: dict[str, Sequence[Patch]] = {
    "rebuilt-with-rows-aside": [(Rereading, "refuse_twice", rebuilt_with_rows_aside)],
    "not-asked-again": [(Rereading, "refuse_twice", not_asked_again)],
    "as-of-now": [(Rereading, "as_of_ends", as_of_now)],
    "any-swap": [(rereading, "is_brought", any_swap)],
    "last-slot-left-out": [(UpstreamLedger, "corrections", last_slot_left_out)],
    "partly-read-forgotten": [(UpstreamLedger, "partly_read", partly_read_forgotten)],
}
"""Of following corrections; `chain_sim.corrections` catches them."""

ALL_MUTANTS = {**MUTANTS, **UNIT_MUTANTS, **LAKE_MUTANTS, **CORRECTION_MUTANTS}


@contextmanager
def patched(name: str) -> Iterator[None]:
    """The product with one of them inside the block; empty is the product itself.

    Raises:
        MisfitError: It does not apply to the product as it is.
    """
    with held(name, ALL_MUTANTS[name] if name else ()):
        yield
