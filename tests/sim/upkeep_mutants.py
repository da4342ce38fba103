"""Wrong variants of snapshots, packs, garbage collection and operators' records."""

import gzip
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

from sim.substitutes import scheduler
from sluiceway.errors import StorageUnavailableError
from sluiceway.ledger import kept_partitions, snapshot
from sluiceway.ledger.collect import GarbageCollector
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import WatermarkState
from sluiceway.ledger.garbage import Decided, Epoch
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.operator_records import SourceChangeRecord
from sluiceway.ledger.packs import Packs
from sluiceway.ledger.records import FenceRecord, Record, SnapshotRecord
from sluiceway.ledger.writer import Committed, LedgerWriter
from sluiceway.operate import offset_moves
from sluiceway.route.owned_route import OwnedRoute
from sluiceway.storage.contract import PutResult
from sluiceway.types.strict_json import StrictJsonError, decode
from sluiceway.upkeep.housekeeping import keep_log_short


def nothing(*arguments: object, **named: object) -> None:
    """Instead of a check or a sync."""
    del arguments, named


# Packs


def write_pack_without_sync(self: Packs, folder: int) -> None:
    staged = f"{self._layout.stage}/pack-{folder:016d}-{uuid4().hex}"
    packed = gzip.compress(
        b"".join(self._slot(seq) for seq in self._layout.slots_of(folder)), 6, mtime=0
    )
    self._storage.make_folders(self._layout.pack(folder).rpartition("/")[0])
    self._storage.overwrite(staged, packed)
    self._storage.overwrite(self._layout.pack(folder), packed)


def empty_before_packing(self: Packs, folder: int) -> None:
    slots = [self._slot(seq) for seq in self._layout.slots_of(folder)]
    self._storage.remove(self._layout.log_folder(folder))
    held = {self._layout.record(seq): raw for seq, raw in zip(
        self._layout.slots_of(folder), slots, strict=True)}  # fmt: skip
    _PACKS_WRITE(replace_slots(self, held), folder)


_PACKS_WRITE = Packs._write


def replace_slots(self: Packs, held: dict[str, bytes]) -> Packs:
    """The packs, reading these slots from memory."""
    other = Packs(self._storage, self._layout)
    other._slot = lambda seq: held[self._layout.record(seq)]  # type: ignore[method-assign]
    return other


def pack_up_to_the_tail(self: Packs, through: int) -> int | None:
    del through
    return _PACK_NEXT(self, 1 << 60)


_PACK_NEXT = Packs.pack_next


def put_without_looking(writer: LedgerWriter, record: Record, raw: bytes) -> int | None:
    """As the product's, but for the look for a pack after the put."""
    path, attempts = writer.log.layout.record(record.seq), 0
    while True:
        attempts += 1
        try:
            if not writer._follows(record):
                return None
            writer._keep_record_before(record.seq)
            result = writer.log.storage.put_if_absent(path, raw, tmp_folder=writer.log.layout.stage)
        except StorageUnavailableError as error:
            writer._on_wait(attempts, error)
            scheduler().wait(None, 1.0)
        else:
            return attempts if result is PutResult.CREATED else None


def slot_before_pack(log: LedgerLog, seq: int) -> bytes | None:
    raw = log.storage.read(log.layout.record(seq))
    if raw is not None:
        return raw
    return next(log.packs.lines(seq), None) if log.packs.covers(seq) else None


def records_of_slots(log: LedgerLog, start: int = 0) -> Iterator[tuple[Record, bytes]]:
    seq = start
    while (found := log.read_slot(seq)) is not None:
        yield found
        seq += 1


# Snapshots


def snapshot_before_publishing(held: OwnedRoute, timeout_s: float) -> bool:
    owed = dict(held.owned.fold.unpublished)
    held.owned.writer.set_published()
    keep_log_short(held.upkeep, held.followers._events)
    held.owned.fold.unpublished.update(owed)
    return _WAIT_PUBLISHED(held, timeout_s)


_WAIT_PUBLISHED = OwnedRoute.wait_published


def trust_side_file(storage: Any, layout: Any, record: Record) -> Fold | None:
    body = record.body
    if not isinstance(body, SnapshotRecord):
        return None
    raw = storage.read(layout.snapshot(body.side))
    try:
        image = None if raw is None else decode(raw, snapshot._Image)
    except StrictJsonError:
        return None
    return None if image is None else snapshot._fold(image)


def keep_few_partitions(fold: Fold) -> list[Any]:
    states = sorted(fold.partitions.values(), key=lambda state: (-state.last_seq, state.folder))
    return states[: kept_partitions.MAX_PARTITIONS]


def keep_what_is_owed(fold: Fold) -> list[Any]:
    """Partitions that have moved are forgotten as others are, and nothing is sealed."""
    states = sorted(fold.partitions.values(), key=lambda state: (-state.last_seq, state.folder))
    needed = {work.partition for work in fold.intents.values()}
    needed.update(work.partition for work in fold.left.values())
    return states[: kept_partitions.MAX_PARTITIONS] + [
        each
        for each in states[kept_partitions.MAX_PARTITIONS :]
        if each.placed_seq >= fold.effects_through
        or each.folder in needed
        or (fold.watermark.read_at_us is not None and not fold.is_announced(each))
    ]


def nothing_to_seal(fold: Fold, choice: object) -> tuple[str, ...]:
    del fold, choice
    return ()


def never_sealed(fold: Fold, partition: str) -> None:
    """Rows go where the first rows of a sealed partition went."""
    del fold, partition


def all_open(files: Iterable[Any], fold: Fold) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    del fold
    return tuple(files), ()


def no_reason(fold: Fold, name: str, states: object) -> str:
    """Whatever is old is sealed."""
    del fold, name, states
    return ""


def packed_nothing(slots: object) -> str:
    """A side file leaves out what is sealed."""
    del slots
    return ""


def forget_the_unannounced(fold: Fold) -> list[Any]:
    """Nothing is to be announced as long as there is no watermark."""
    kept = _KEPT_PARTITIONS(fold)
    if fold.watermark.us is not None:
        return kept
    return _KEPT_PARTITIONS(replace(fold, watermark=WatermarkState()))


_KEPT_PARTITIONS = kept_partitions.kept_partitions


# Garbage


def why_of_next_epoch(decided: Decided, epoch: Epoch) -> str | None:
    term, number = epoch
    gone = term < decided.term or (term == decided.term and number <= decided.last_epoch + 1)
    return "it is over" if gone else None


def why_of_taken_slot(decided: Decided, epoch: Epoch) -> str | None:
    """The slot behind the last DATA or FENCE is taken: the epoch staged for it is called lost."""
    taken = decided.next_seq - 1 > max(decided.data_seq, decided.fence_seq)
    term, number = epoch
    if taken and term == decided.term and number == decided.last_epoch + 1:
        return "its slot is decided"
    return _WHY(decided, epoch)


def why_of_age(decided: Decided, epoch: Epoch) -> str | None:
    del decided, epoch
    return "it is old"


_WHY = Decided.why


def all_published(collector: GarbageCollector, names: Iterable[str], named: Any) -> set[str]:
    del collector, names
    return {file.final for each in named.values() for file in each.files}


def published_without_sync(
    collector: GarbageCollector, names: Iterable[str], named: Any
) -> set[str]:
    folders = set(names)
    files = [file for each in named.values() for file in each.files]
    mine = [file for file in files if file.staged.partition("/")[0] in folders]
    return {file.final for file in mine if collector._is_final(file)}


# RESET and SOURCE_CHANGE


def fence_unless_reset(
    writer: LedgerWriter, body: FenceRecord, on_lost: Callable[[], None]
) -> Committed:
    """An operator's command takes the latest term for its own."""
    if writer.fold.fence is None or not _is_operators():
        return _FENCE(writer, body, on_lost)
    writer.term = writer.fold.term
    return Committed(writer.fold.next_seq - 1, 1)


_FENCE = LedgerWriter.fence


def _is_operators() -> bool:
    return scheduler().alive().process.name.startswith(("reset", "change"))


def change_at_the_old_end(fold: Fold, wish: Any, moves: Any, tails: Any) -> Any:
    """The new log is read on from where the old one was left."""
    record = _RECORD_OF(fold, wish, moves, tails)
    if not isinstance(record, SourceChangeRecord):
        return record
    changed = tuple(replace(each, new_end=each.old_end) for each in record.partitions)
    return replace(record, partitions=changed)


_RECORD_OF = offset_moves.record_of


def apply_without_identity(fold: Fold, record: Record, raw: bytes) -> None:
    """SOURCE_CHANGE moves the committed end, and the log stays the old one."""
    before = {key: (one.cluster_id, one.topic_id) for key, one in fold.sources.items()}
    _APPLY(fold, record, raw)
    if isinstance(record.body, SourceChangeRecord):
        for key, (cluster_id, topic_id) in before.items():
            fold.sources[key].cluster_id = cluster_id
            fold.sources[key].topic_id = topic_id


_APPLY = Fold.apply


def moved_unchecked(
    fold: Fold, each: Any, record: Record, *, or_retired: bool = False
) -> tuple[str, Any]:
    del record, or_retired
    return "", fold.sources[each.topic, each.partition]
