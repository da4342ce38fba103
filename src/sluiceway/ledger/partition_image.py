"""The part of a SNAPSHOT's side file that tells of the table's partitions."""

from dataclasses import dataclass, replace

from sluiceway.ledger.fold_state import (
    ClosedPrefix,
    FoldState,
    LeftFolder,
    OpenIntent,
    PartitionState,
)
from sluiceway.ledger.forgetting import forget
from sluiceway.types.strict_json import BigInt


@dataclass(frozen=True, slots=True)
class _Partition:
    values: tuple[str | None, ...]
    folder: str
    first_seq: int
    last_seq: int
    location: str
    moved_seq: int
    placed_seq: int
    rows: BigInt
    files: BigInt
    size_bytes: BigInt
    file_sum: BigInt
    version: int
    whole: bool
    expired: bool


@dataclass(frozen=True, slots=True)
class _Intent:
    seq: int
    partition: str
    uuid: str
    version: int


@dataclass(frozen=True, slots=True)
class _Closed:
    prefix: str
    closed_seq: int
    version: int
    ready_seq: int
    ready_at_us: BigInt | None
    late_rows: BigInt


@dataclass(frozen=True, slots=True)
class _Left:
    folder: str
    partition: str
    seq: int


@dataclass(frozen=True, slots=True)
class PartitionsImage:
    """What a fold knows of partitions, as strict JSON holds it."""

    kept: tuple[_Partition, ...]
    forgotten_up_to: str
    intents: tuple[_Intent, ...]
    closed: tuple[_Closed, ...]
    left: tuple[_Left, ...]


def partitions_image(fold: FoldState) -> PartitionsImage:
    """Of a fold as it will be behind the SNAPSHOT; the fold itself stays as it is."""
    after = replace(fold, partitions=dict(fold.partitions), forgotten=None)
    forget(after)
    return PartitionsImage(
        kept=tuple(map(_partition, after.partitions.values())),
        forgotten_up_to=after.forgotten_up_to,
        intents=tuple(
            _Intent(seq, each.partition, each.uuid, each.version)
            for seq, each in sorted(fold.intents.items())
        ),
        closed=tuple(_closed(prefix, each) for prefix, each in sorted(fold.closed.items())),
        left=tuple(
            _Left(folder, each.partition, each.seq) for folder, each in sorted(fold.left.items())
        ),
    )


def restore_partitions(fold: FoldState, image: PartitionsImage) -> None:
    """Give a fold what the image says; called while it has no partitions yet."""
    fold.partitions = {each.folder: _state(each) for each in image.kept}
    fold.forgotten_up_to = image.forgotten_up_to
    fold.moved = {each.location: each.folder for each in image.kept if each.version}
    fold.intents = {
        each.seq: OpenIntent(each.partition, each.uuid, each.version) for each in image.intents
    }
    fold.closed = {
        each.prefix: ClosedPrefix(
            each.closed_seq,
            each.version,
            each.ready_seq,
            None if each.ready_at_us is None else int(each.ready_at_us),
            int(each.late_rows),
        )
        for each in image.closed
    }
    fold.left = {each.folder: LeftFolder(each.partition, each.seq) for each in image.left}


def _closed(prefix: str, each: ClosedPrefix) -> _Closed:
    at_us = None if each.ready_at_us is None else BigInt(each.ready_at_us)
    late_rows = BigInt(each.late_rows)
    return _Closed(prefix, each.closed_seq, each.version, each.ready_seq, at_us, late_rows)


def _partition(state: PartitionState) -> _Partition:
    return _Partition(
        values=state.values,
        folder=state.folder,
        first_seq=state.first_seq,
        last_seq=state.last_seq,
        location=state.location,
        moved_seq=state.moved_seq,
        placed_seq=state.placed_seq,
        rows=BigInt(state.rows),
        files=BigInt(state.files),
        size_bytes=BigInt(state.size_bytes),
        file_sum=BigInt(state.file_sum),
        version=state.version,
        whole=state.whole,
        expired=state.expired,
    )


def _state(each: _Partition) -> PartitionState:
    return PartitionState(
        values=each.values,
        folder=each.folder,
        first_seq=each.first_seq,
        last_seq=each.last_seq,
        location=each.location,
        moved_seq=each.moved_seq,
        placed_seq=each.placed_seq,
        rows=int(each.rows),
        files=int(each.files),
        size_bytes=int(each.size_bytes),
        file_sum=int(each.file_sum),
        version=each.version,
        whole=each.whole,
        expired=each.expired,
    )
