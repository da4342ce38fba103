"""The part of a SNAPSHOT's side file that tells of the table's partitions."""

from collections.abc import Iterable
from dataclasses import dataclass

from sluiceway.ledger.fold_state import (
    ClosedPrefix,
    FoldState,
    LeftFolder,
    OpenIntent,
)
from sluiceway.ledger.forgetting import forget
from sluiceway.ledger.name_list import packed_names, unpacked_names
from sluiceway.ledger.partition_columns import packed_states, unpacked_states
from sluiceway.ledger.sealing import after_sealing
from sluiceway.types.strict_json import BigInt


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

    kept: str
    forgotten_up_to: str
    intents: tuple[_Intent, ...]
    closed: tuple[_Closed, ...]
    sealed: str
    left: tuple[_Left, ...]


def partitions_image(fold: FoldState, sealed: Iterable[str] = ()) -> PartitionsImage:
    """Of a fold without what the SNAPSHOT makes it forget; the fold itself stays as it is.

    Args:
        fold: Up to the SNAPSHOT's slot.
        sealed: What the SNAPSHOT seals. It is in the image still: whoever reads that takes the
            SNAPSHOT in next, and tests whether it may be sealed.
    """
    after = after_sealing(fold, sealed)
    forget(after)
    kept = [
        state
        for name, state in fold.partitions.items()
        if name in after.partitions or after.sealed_above(name) is not None
    ]
    return PartitionsImage(
        kept=packed_states(kept),
        forgotten_up_to=after.forgotten_up_to,
        intents=tuple(
            _Intent(seq, each.partition, each.uuid, each.version)
            for seq, each in sorted(fold.intents.items())
        ),
        closed=tuple(_closed(prefix, each) for prefix, each in sorted(fold.closed.items())),
        sealed=packed_names(fold.sealed),
        left=tuple(
            _Left(folder, each.partition, each.seq) for folder, each in sorted(fold.left.items())
        ),
    )


def restore_partitions(fold: FoldState, image: PartitionsImage) -> None:
    """Give a fold what the image says; called while it has no partitions yet."""
    kept = unpacked_states(image.kept)
    fold.partitions = {each.folder: each for each in kept}
    fold.forgotten_up_to = image.forgotten_up_to
    fold.moved = {each.location: each.folder for each in kept if each.version}
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
    fold.sealed = unpacked_names(image.sealed)
    fold.left = {each.folder: LeftFolder(each.partition, each.seq) for each in image.left}


def _closed(prefix: str, each: ClosedPrefix) -> _Closed:
    at_us = None if each.ready_at_us is None else BigInt(each.ready_at_us)
    late_rows = BigInt(each.late_rows)
    return _Closed(prefix, each.closed_seq, each.version, each.ready_seq, at_us, late_rows)
