"""Records of background work, made from the fold of all records before their slot.

Each returns None when what it was asked for does not hold any more: the caller reads again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

from sluiceway.ledger.counts_records import CountedPrefix, CountsEnd, CountsRecord
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding import fold_counts
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_partitions import ready_version
from sluiceway.ledger.live_files import is_all_of, removed_files
from sluiceway.ledger.partition_records import (
    AbandonRecord,
    ExpiredPartition,
    ExpireRecord,
    IntentRecord,
    ReadyCause,
    ReadyPartition,
    ReadyRecord,
    ReplaceRecord,
    SwapCounts,
    SwapInput,
    SwappedPartition,
    SwapRecord,
)
from sluiceway.ledger.places import is_below, moved_folder, swap_folder
from sluiceway.types.strict_json import BigInt

Files = Mapping[str, Sequence[FileRecord]]
"""Files by the name of their partition."""


@dataclass(frozen=True, slots=True)
class SwapParts:
    """What a SWAP says.

    Attributes:
        live: Files that were live in the slot of the INTENT.
        added: New files, staged.
        since: Files that were committed after the INTENT.
        carried: Copies of these, staged.
        counts: Where the rows went that were read.
        dirty_files: Rows that could not be written, staged.
        inputs: What the rows were made from.
        pins: Name of a table that was looked up -> its state then.
        sql: Hash of the SQL; empty without.
        operator: `user@host` who asked for it; empty when no one did.
        reason: In the operator's words.
    """

    live: Files
    added: Files
    since: Files
    carried: Files
    counts: SwapCounts
    dirty_files: Sequence[FileRecord] = ()
    inputs: Sequence[SwapInput] = ()
    pins: Mapping[str, str] = field(default_factory=dict)
    sql: str = ""
    operator: str = ""
    reason: str = ""


CountsLog = tuple[str, str, str]
"""Topic, cluster id and topic id of the topic of counts."""


def intent_body(fold: Fold, partition: str, purpose: str) -> IntentRecord | None:
    """Work on a partition; None when it is not there, not all known or worked on already."""
    state = fold.partitions.get(partition)
    if state is None or state.expired or not state.whole or not state.values:
        return None
    if fold.is_worked_on(partition):
        return None
    return IntentRecord(partition, state.version, uuid4().hex, purpose)


def swap_intent_body(fold: Fold, prefix: str, purpose: str) -> IntentRecord | None:
    """Work that replaces the rows of a prefix; None while something below it is worked on."""
    if why_not_swapped(fold, prefix) or fold.is_worked_on(prefix):
        return None
    return IntentRecord(prefix, ready_version(fold, prefix), uuid4().hex, purpose)


def why_not_swapped(fold: Fold, prefix: str) -> str:
    """Why the rows of a prefix can never be replaced; empty when they can."""
    if "=" not in prefix or any(not each.values for each in fold.partitions.values()):
        return "a table without partitions stays in its folder"
    if fold.sealed_above(prefix) is not None or any(is_below(each, prefix) for each in fold.sealed):
        return "it is sealed: it was announced so long ago that the ledger keeps nothing but that"
    if not fold.knows_all_below(prefix):
        return "the ledger has forgotten some of its partitions"
    return ""


def swap_body(fold: Fold, intent: int, parts: SwapParts) -> SwapRecord | None:
    """The SWAP of a prefix; None when more files have come, or the work has ended.

    Args:
        fold: Fold up to the record's slot.
        intent: Slot of the INTENT.
        parts: What is replaced, by what.
    """
    opened = fold.intents.get(intent)
    carried = sum(map(len, parts.carried.values()))
    if opened is None or opened.since.files != carried:
        return None
    names = {name for held in (parts.live, parts.added, parts.carried) for name in held}
    partitions = tuple(_swapped(fold, intent, name, parts) for name in sorted(names))
    made = SwapRecord(
        intent=intent,
        prefix=opened.partition,
        counts=parts.counts,
        rows_before=BigInt(fold.rows_below(opened.partition)),
        rows_after=BigInt(0),
        partitions=partitions,
        dirty_files=tuple(parts.dirty_files),
        inputs=tuple(parts.inputs),
        pins=dict(parts.pins),
        sql=parts.sql,
        operator=parts.operator,
        reason=parts.reason,
    )
    return replace(made, rows_after=BigInt(sum(int(file.rows) for file in made.live)))


def _swapped(fold: Fold, intent: int, name: str, parts: SwapParts) -> SwappedPartition:
    state = fold.partitions.get(name)
    folder = swap_folder(name, intent, fold.intents[intent].uuid)
    added, carried = (
        tuple(
            replace(file, final=f"{folder}/{file.final.rpartition('/')[2]}")
            for file in held.get(name, ())
        )
        for held in (parts.added, parts.carried)
    )
    live = (*parts.live.get(name, ()), *parts.since.get(name, ()))
    return SwappedPartition(
        partition=name,
        values=state.values if state is not None else (*added, *carried)[0].values,
        version=1 if state is None else state.version + 1,
        folder=folder,
        removed=removed_files(live),
        added=added,
        carried=carried,
    )


def abandon_body(fold: Fold, intent: int, reason: str) -> AbandonRecord | None:
    """The end of work without an effect; None when it has ended."""
    return AbandonRecord(intent, reason) if intent in fold.intents else None


def replace_body(
    fold: Fold, intent: int, live: Sequence[FileRecord], added: Iterable[FileRecord]
) -> ReplaceRecord | None:
    """A move to the new files.

    Args:
        fold: Fold up to the record's slot.
        intent: Slot of the INTENT.
        live: All files that were live when they were read.
        added: Theirs, with the same rows; staged in the intent's folder.

    Returns:
        None when files have come since, which have to be carried over, or the work has ended.
    """
    opened = fold.intents.get(intent)
    if opened is None:
        return None
    state = fold.partitions[opened.partition]
    if state.files != len(live):
        return None
    folder = moved_folder(opened.partition, intent, opened.uuid)
    return ReplaceRecord(
        intent=intent,
        partition=opened.partition,
        version=state.version + 1,
        folder=folder,
        removed=removed_files(live),
        added=tuple(
            replace(file, final=f"{folder}/{file.final.rpartition('/')[2]}") for file in added
        ),
    )


def ready_body(
    fold: Fold, prefix: str, at_us: int | None = None, because: ReadyCause | None = None
) -> ReadyRecord | None:
    """The announcement of all below a prefix; None while it is open or as it was announced.

    Args:
        fold: Fold up to the record's slot.
        prefix: Closed in the ledger.
        at_us: The clock now.
        because: The announcement of another table that it follows from.
    """
    closed = fold.closed.get(prefix)
    if closed is None:
        return None
    below = fold.below(prefix)
    last = max([closed.closed_seq, *(state.last_seq for state in below)])
    if last < closed.ready_seq:
        return None
    return ReadyRecord(
        prefix=prefix,
        version=closed.version + 1,
        as_of_seq=last,
        rows=BigInt(sum(state.rows for state in below)),
        files=BigInt(sum(state.files for state in below)),
        whole=fold.knows_all_below(prefix),
        partitions=tuple(
            ReadyPartition(state.folder, state.version, BigInt(state.rows), BigInt(state.files))
            for state in below
        ),
        at_us=None if at_us is None else BigInt(at_us),
        because=because,
    )


def counts_body(
    fold: Fold,
    closed: Iterable[str],
    log: CountsLog,
    ends: Mapping[int, int],
    counts: Mapping[str, int],
) -> CountsRecord | None:
    """What was read of a topic of counts; counts of closed prefixes are left out.

    None while the ledger would let go of a count by which a closing was decided that it does not
    have yet. That closing has to come first.

    Args:
        fold: Fold up to the record's slot.
        closed: Prefixes that are closed by the driver, in the ledger or not yet: a closing that is
            decided stays so.
        log: Which one was read.
        ends: Partition -> first offset that was not read.
        counts: Prefix -> rows.
    """
    late = fold.closed.keys() | fold.sealed.keys() | set(closed)
    overflows = len(fold.counted.rows.keys() | (counts.keys() - late)) > fold_counts.MAX_COUNTED
    if overflows and not fold.counted.rows.keys().isdisjoint(late):
        return None
    return CountsRecord(
        *log,
        ends=tuple(CountsEnd(number, BigInt(end)) for number, end in sorted(ends.items())),
        counts=tuple(
            CountedPrefix(prefix, BigInt(rows))
            for prefix, rows in sorted(counts.items())
            if prefix not in late
        ),
    )


def expire_body(
    fold: Fold,
    partitions: Iterable[str],
    reason: str,
    live: Mapping[str, Sequence[FileRecord]] | None = None,
) -> ExpireRecord | None:
    """The end of partitions that their owner has dropped; None when none of them is left.

    Args:
        fold: Fold up to the record's slot.
        partitions: Partitions by name; partitions that are worked on are left out.
        reason: In words.
        live: By partition, the live files when they were read, which are to be removed. A partition
            that has got others since is left out. None leaves all files to the owner.
    """
    states = [fold.partitions.get(name) for name in partitions]
    there = [
        each
        for each in states
        if each is not None
        and not each.expired
        and each.values
        and not fold.is_worked_on(each.folder)
    ]
    if live is not None:
        there = [each for each in there if is_all_of(each, live.get(each.folder, ()))]
    if not there:
        return None
    return ExpireRecord(
        reason,
        tuple(
            ExpiredPartition(
                each.folder,
                BigInt(each.rows),
                BigInt(each.files),
                moved_folder(each.folder, fold.next_seq, uuid4().hex),
                () if live is None else removed_files(live[each.folder]),
            )
            for each in there
        ),
    )
