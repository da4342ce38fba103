"""Wrong variants of publishing: each has to be caught by some seed."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate

from sluiceway.ledger.follower import LogView
from sluiceway.sinks.iceberg import commit_request, lake_table, publisher
from sluiceway.sinks.iceberg.lake_batch import LakeBatch, next_batch
from sluiceway.sinks.iceberg.lake_table import LakeTable
from sluiceway.sinks.iceberg.lineage import Lineage, lineage
from sluiceway.sinks.iceberg.publisher import LakePublisher

_REQUIREMENTS = commit_request.requirements_of
_NEXT = next_batch
_TRY = LakePublisher._try
_SEND = LakeTable.send
_PUBLISH = LakePublisher._publish


def without_head(metadata: TableMetadata) -> Any:
    """A request does not say on which head it was built."""
    return tuple(
        each for each in _REQUIREMENTS(metadata) if not isinstance(each, AssertRefSnapshotId)
    )


def head_of_now(self: LakeTable, table: Any, request: Any) -> str:
    """What a request asserts is looked up anew when it is sent."""
    now = self.load()
    return _SEND(self, table, replace(request, requirements=_REQUIREMENTS(now.metadata)))


def property_apart(self: LakeTable, table: Any, request: Any) -> str:
    """Rows first, and how far they are by a request of its own."""
    rows = tuple(each for each in request.updates if not isinstance(each, SetPropertiesUpdate))
    told = tuple(each for each in request.updates if isinstance(each, SetPropertiesUpdate))
    said = _SEND(self, table, replace(request, updates=rows))
    if said:
        return said
    now = self.load()
    return _SEND(self, now, commit_request.CommitRequest(told, _REQUIREMENTS(now.metadata)))


def answer_believed(self: LakePublisher, batch: LakeBatch, view: LogView) -> None:
    """Sent is done: nobody looks."""
    look = self._look(view.log)
    self._note(look, view)
    if look.next_slot != batch.first:
        batch = _NEXT(view, look.next_slot, view.over)
        if not batch.is_due:
            return
    self._try(look.table, batch, view)
    self._place = batch.last + 1


def sent_again(self: LakeTable, table: Any, request: Any) -> str:
    """What was not answered well is sent again as it is, on the head of that moment."""
    said = _SEND(self, table, request)
    if not said:
        return said
    return head_of_now(self, table, request)


def first_slot_left(
    view: LogView, first: int, over: Callable[[], bool], **bounds: Any
) -> LakeBatch:
    """A batch leaves out its first slot."""
    batch = _NEXT(view, first, over, **bounds)
    batch.files = [(seq, file) for seq, file in batch.files if seq != first]
    return batch


def empty_is_through(
    view: LogView, first: int, over: Callable[[], bool], **bounds: Any
) -> LakeBatch:
    """Behind as many slots without rows as a batch holds nothing is looked for."""
    batch = _NEXT(view, first, over, **bounds)
    batch.more = batch.more and batch.is_due
    return batch


def expired_is_lost(metadata: TableMetadata, through: Any) -> Lineage:
    """Snapshots that others expired look like a table that was replaced."""
    found = _LINEAGE(metadata, through)
    return Lineage.LOST if found is Lineage.UNPROVEN else found


_LINEAGE = lineage


def cleaned_up(self: LakePublisher, table: Any, batch: LakeBatch, view: LogView) -> str:
    """What was refused, as it seems, is removed: files, and the names under which they wait."""
    said = _TRY(self, table, batch, view)
    if said:
        for _, file in batch.files:
            self._files.storage.remove(f"{self._files.root}/data/{file.final}")
    return said


Patch = tuple[object, str, object]
MUTANTS: dict[str, Sequence[Patch]] = {
    "without-head": [(commit_request, "requirements_of", without_head)],
    "head-of-now": [(LakeTable, "send", head_of_now)],
    "property-apart": [(LakeTable, "send", property_apart)],
    "answer-believed": [(LakePublisher, "_publish", answer_believed)],
    "sent-again": [(LakeTable, "send", sent_again)],
    "first-slot-left": [(publisher, "next_batch", first_slot_left)],
    "empty-is-through": [(publisher, "next_batch", empty_is_through)],
    "expired-is-lost": [(lake_table, "lineage", expired_is_lost)],
    "cleaned-up": [(LakePublisher, "_try", cleaned_up)],
}


@contextmanager
def patched(name: str) -> Iterator[None]:
    """The product with one of them inside the block; empty is the product itself."""
    kept = []
    try:
        for owner, attribute, wrong in MUTANTS[name] if name else ():
            kept.append((owner, attribute, getattr(owner, attribute)))
            setattr(owner, attribute, wrong)
        yield
    finally:
        for owner, attribute, right in kept:
            setattr(owner, attribute, right)
