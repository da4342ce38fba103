"""Wrong variants of shared reading and of tables by value: some seed has to catch each."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sluiceway.catalog.metastore import MetastoreClient
from sluiceway.rooms.followed_copy import FollowedCopy
from sluiceway.rooms.positions import ResumePosition
from sluiceway.rooms.tail_search import TailMatch, TailSearch
from sluiceway.route.committer import EpochCommitter
from sluiceway.schedule import shared_reading
from sluiceway.schedule.planner import PlannedEpoch, PlannedSplit
from sluiceway.schedule.shared_reading import SharedReading
from sluiceway.schedule.source_view import SourceView
from sluiceway.sources.contract import SourceBatch
from sluiceway.sources.origins import OriginReader
from sluiceway.worker import bundle
from sluiceway.worker.plan import TaskPlan, TaskResult
from sluiceway.worker.row_batch import RowBatch
from tools.mutant_fit import Patch, held

_COMMIT_EPOCH = EpochCommitter.commit_epoch
_WITHOUT_COPIES, _RESULT = OriginReader._without_copies, TailSearch.result


def split_alone(plan: TaskPlan) -> object:
    """Routes decode and choose alike when they read the same."""
    return plan.route.source, plan.splits


def one_object(x: SourceBatch) -> SourceBatch:
    """Routes that count the splits in other ways have one batch."""
    return x


def left_waiting(reading: bundle._Reading) -> None:
    """Rows that wait for more are not written at the end."""
    del reading


def dealt_to_all(rows: RowBatch, plans: Sequence[TaskPlan]) -> list[RowBatch]:
    """Each route has the rows of all."""
    return [replace(rows, dirty=list(rows.dirty)) for _ in plans]


def near_is_equal(self: SharedReading, epoch: PlannedEpoch) -> bool:
    """A route joins others that are elsewhere in the source partition."""
    return epoch.route.source == self.epoch.route.source


def own_range(mine: PlannedSplit, piece: PlannedSplit) -> PlannedSplit:
    """Whatever the group reads counts from the route's own end."""
    return replace(piece, range_start=mine.range_start)


def ends_read(self: EpochCommitter, answers: Sequence[TaskResult]) -> None:
    """A named table begins after the rows that have named it."""
    state = self._context.state
    read = {(each.topic, each.partition): int(each.end) for one in answers for each in one.splits}
    known = state.owned.value_tables
    if known is None:
        return
    fold, most = state.owned.fold, self._context.config.max_tables
    ends = {key: read.get(key, each.end) for key, each in fold.sources.items()}
    named = dict.fromkeys(table for answer in answers for table in answer.tables)
    self.has_new_tables = self.has_new_tables or bool(named)
    known.add(tuple(named), ends, most)


def kept_late(
    self: EpochCommitter, planned: PlannedEpoch, answers: Sequence[TaskResult], view: SourceView
) -> None:
    """Tables are kept once the record is there that goes beyond their first rows."""
    state = self._context.state
    ends = {key: each.end for key, each in state.owned.fold.sources.items()}
    _COMMIT_EPOCH(self, planned, [replace(answer, tables=()) for answer in answers], view)
    named = dict.fromkeys(table for answer in answers for table in answer.tables)
    known = state.owned.value_tables
    if named and known is not None:
        known.add(tuple(named), ends, self._context.config.max_tables)
        self.has_new_tables = True


def made_by_the_server(self: MetastoreClient, location: str) -> None:
    """The metastore makes the folder of a database or table."""
    del self, location


def copies_kept(self: OriginReader, batch: SourceBatch) -> SourceBatch | None:
    """Copies of rows that the table has are rows."""
    del self
    return batch


def end_not_raised(self: OriginReader, batch: SourceBatch) -> SourceBatch | None:
    """What was read of the copies is forgotten with each fetch: repeats count again."""
    before = self._ends[batch.split_index]
    found = _WITHOUT_COPIES(self, batch)
    self._ends[batch.split_index] = before
    return found


def newest_place(self: FollowedCopy) -> int:
    """A room continues where its copies end."""
    return self.next


def nothing_to_confirm(self: ResumePosition, confirmed: Collection[str]) -> tuple[str, ...]:
    """A room goes by copies that the mirror may go on to write."""
    del self, confirmed
    return ()


def tail_in_part(self: TailSearch) -> TailMatch:
    """Where the tail ends does not matter: the copies' end is as good."""
    found = _RESULT(self)
    return replace(found, offset=None, found=False, matches=0)


MIRROR_MUTANTS: dict[str, Sequence[Patch]] = {
    "copies-kept": [(OriginReader, "_without_copies", copies_kept)],
    "end-not-raised": [(OriginReader, "_without_copies", end_not_raised)],
    "newest-place": [(FollowedCopy, "place", property(newest_place))],
    "nothing-to-confirm": [(ResumePosition, "missing", nothing_to_confirm)],
    "tail-not-searched": [(TailSearch, "result", tail_in_part)],
}
"""Of a queue that a mirror copies; `shared_sim.mirror` catches them."""

MUTANTS: dict[str, Sequence[Patch]] = {
    "audience-of-another": [(bundle, "read_key", split_alone)],
    "split-of-another": [(bundle, "copy", one_object)],
    "left-waiting": [(bundle, "_write_waiting", left_waiting)],
    "rows-of-all": [(bundle, "dealt_rows", dealt_to_all)],
    "joins-elsewhere": [
        (SharedReading, "fits", near_is_equal),
        (shared_reading, "_own", own_range),
    ],
    "named-after-its-rows": [(EpochCommitter, "_keep_named", ends_read)],
    "named-after-the-record": [(EpochCommitter, "commit_epoch", kept_late)],
    "folder-left-to-the-server": [(MetastoreClient, "_make_folder", made_by_the_server)],
}


@contextmanager
def patched(name: str) -> Iterator[None]:
    """The product with one of them inside the block; empty is the product itself.

    Raises:
        MisfitError: It does not apply to the product as it is.
    """
    with held(name, {**MUTANTS, **MIRROR_MUTANTS}[name] if name else ()):
        yield
