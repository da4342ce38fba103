"""Wrong variants of shared reading and of tables by value: some seed has to catch each."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sluiceway.catalog.metastore import MetastoreClient
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.room_rule import MirrorRule
from sluiceway.ledger import room_files
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.operator_records import OriginLog
from sluiceway.ledger.room_files import SwitchRequest, read_advice
from sluiceway.operate import drain
from sluiceway.operate.drain import LeftLog
from sluiceway.operate.switch import RoutePlace
from sluiceway.rooms.adopt_cut import LedgerCut, NeededFiles
from sluiceway.rooms.cut_files import CutFiles
from sluiceway.rooms.followed_copy import FollowedCopy
from sluiceway.rooms.origin import OriginFollower
from sluiceway.rooms.positions import CopiedLog, PositionMethod, ResumePosition
from sluiceway.rooms.standby import StandbyRoom
from sluiceway.rooms.tail_search import TailMatch, TailSearch
from sluiceway.route import takeover
from sluiceway.route.committer import EpochCommitter
from sluiceway.schedule import shared_reading
from sluiceway.schedule.planner import PlannedEpoch, PlannedSplit
from sluiceway.schedule.shared_reading import SharedReading
from sluiceway.schedule.source_view import SourceView
from sluiceway.sources.contract import SourceBatch, SourcePartition
from sluiceway.sources.missing_rows import MissingRowsReader
from sluiceway.sources.origins import OriginReader
from sluiceway.worker import bundle
from sluiceway.worker.plan import TaskPlan, TaskResult
from sluiceway.worker.row_batch import RowBatch
from tools.mutant_fit import Patch, held

_COMMIT_EPOCH = EpochCommitter.commit_epoch
_MARK_CHANGE, _LEFT_LOG, _FIND = StandbyRoom.mark_change, drain._left_log, OriginFollower.find
_REFUSE_UNADOPTED = takeover._refuse_unadopted
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


def done_at_the_fence(*asked: object) -> bool:
    """Producers of the other room write once its driver has fenced."""
    del asked
    return True


MIRROR_MUTANTS: dict[str, Sequence[Patch]] = {
    "copies-kept": [(OriginReader, "_without_copies", copies_kept)],
    "end-not-raised": [(OriginReader, "_without_copies", end_not_raised)],
    "newest-place": [(FollowedCopy, "place", property(newest_place))],
    "nothing-to-confirm": [(ResumePosition, "missing", nothing_to_confirm)],
    "done-at-the-fence": [(room_files, "has_taken", done_at_the_fence)],
    "tail-not-searched": [(TailSearch, "result", tail_in_part)],
}
"""Of a queue that a mirror copies; `shared_sim.mirror` catches them."""


def any_term(self: StandbyRoom, ledger: LedgerLog, fold: Fold) -> None:
    """What an operator confirmed of a term before holds of this one too."""
    del fold
    self._request = read_advice(ledger.storage, ledger.layout.switch, SwitchRequest)


def loss_forgotten(self: StandbyRoom, ledger: LedgerLog, fold: Fold) -> None:
    """Nothing waits for rows that only a lost room has."""
    self._orderly = True
    _MARK_CHANGE(self, ledger, fold)


def nothing_left(
    place: RoutePlace, view: SourceView, one: SourcePartition, origin: OriginLog
) -> LeftLog:
    """A room is drained once its logs can be read."""
    return replace(_LEFT_LOG(place, view, one, origin), rows=0)


def rows_come_again(self: MissingRowsReader, timeout_s: float) -> list[SourceBatch]:
    """Rows that were missing when the room was switched are rows."""
    return self._reader.read(timeout_s)


def left_log_resumed(self: TailSearch) -> TailMatch:
    """A room goes by the tail in the log that was left, which has rows of the table after it."""
    self._was_left = False
    return _RESULT(self)


def own_topic_again(self: OriginFollower, rule: MirrorRule, log: CopiedLog) -> ResumePosition:
    """A room goes on in the topic that it has read before, from its beginning."""
    left = log.known.origin
    if left is not None and left.topic_id == log.identity.topic_id and log.bounds is not None:
        return ResumePosition(log, log.bounds.start_offset, PositionMethod.HEADER)
    found = _FIND(self, rule, log)
    assert found is not None
    return found


RETURN_MUTANTS: dict[str, Sequence[Patch]] = {
    "any-term": [(StandbyRoom, "_read_request", any_term)],
    "loss-forgotten": [(StandbyRoom, "mark_change", loss_forgotten)],
    "nothing-left": [(drain, "_left_log", nothing_left)],
    "rows-come-again": [(MissingRowsReader, "read", rows_come_again)],
    "left-log-resumed": [(TailSearch, "result", left_log_resumed)],
    "own-topic-again": [(OriginFollower, "find", own_topic_again)],
}
"""Of a lost room that returns; `shared_sim.returning` catches them."""

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


def chain_is_whole(self: NeededFiles, fold: Fold) -> bool:
    """A slot is kept whether its files have come or not."""
    del self, fold
    return True


def whatever_size(self: NeededFiles, file: FileRecord) -> str | None:
    """Half of a file is a file."""
    for path in (self.layout.final(file.final), self.layout.attempt(file.staged)):
        if path in self.sizes:
            return path
    return None


def nothing(*asked: object) -> None:
    """Leave it undone."""
    del asked


def no_files(cut: LedgerCut) -> list[str]:
    """Leave files where they are."""
    del cut
    return []


def begun_anywhere(config: RouteConfig, log: LedgerLog, fold: Fold) -> None:
    """Each room begins a ledger of its own where it finds none."""
    if fold.fence is not None:
        _REFUSE_UNADOPTED(config, log, fold)


COPY_MUTANTS: dict[str, Sequence[Patch]] = {
    "cut-at-the-chains-end": [(NeededFiles, "is_whole", chain_is_whole)],
    "half-is-whole": [(NeededFiles, "place", whatever_size)],
    "cut-files-stay": [
        (LedgerCut, "to_move", property(no_files)),
        (CutFiles, "_sweep", nothing),
    ],
    "late-files-stay": [(CutFiles, "_sweep", nothing)],
    "claim-not-seen": [(takeover, "_refuse_other_generation", nothing)],
    "begun-anywhere": [(takeover, "_refuse_unadopted", begun_anywhere)],
}
"""Of a copied table; `shared_sim.copied` catches them."""

ALL_MUTANTS = {**MUTANTS, **MIRROR_MUTANTS, **RETURN_MUTANTS, **COPY_MUTANTS}


@contextmanager
def patched(name: str) -> Iterator[None]:
    """The product with one of them inside the block; empty is the product itself.

    Raises:
        MisfitError: It does not apply to the product as it is.
    """
    with held(name, ALL_MUTANTS[name] if name else ()):
        yield
