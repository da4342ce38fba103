"""Audited counts: what was counted elsewhere, and closings that say that it is there.

A prefix that is closed by its count has as many committed rows at least; the fold checks it.
"""

from sluiceway.ledger.counts_records import CountsRecord
from sluiceway.ledger.folding.fold_state import FoldState, is_contained, require
from sluiceway.ledger.partition_records import ExpireRecord
from sluiceway.ledger.places import prefixes
from sluiceway.ledger.records import DataRecord, Record

MAX_COUNTED = 10_000
"""Counts of open prefixes that are kept: the prefixes with the greatest names."""


def check_counts(fold: FoldState, body: CountsRecord, record: Record) -> None:
    """Refuse counts of what is closed: its closing was decided without them."""
    slot = f"slot {record.seq}"
    partitions = {each.partition for each in body.ends}
    lawful = all(each.partition >= 0 and each.end >= 0 for each in body.ends)
    once = len(partitions) == len(body.ends) and lawful
    require(once, "counts", f"{slot} has ends {body.ends}")
    names = {each.prefix for each in body.counts}
    require(len(names) == len(body.counts), "counts", f"{slot} counts a prefix twice")
    for each in body.counts:
        where = f"{slot}: {each.prefix}"
        require(is_contained(each.prefix) and each.rows >= 0, "counts", f"{where} has {each.rows}")
        require(not fold.is_closed(each.prefix), "counts", f"{where} is closed")


def apply_counts(fold: FoldState, body: CountsRecord, record: Record) -> None:
    """The counts hold until others come."""
    del record
    state = fold.counted
    log = (body.topic, body.cluster_id, body.topic_id)
    if state.log != log:
        state.log = log
        state.ends = {}
    state.ends |= {each.partition: int(each.end) for each in body.ends}
    state.rows |= {each.prefix: int(each.rows) for each in body.counts}
    for prefix in sorted(state.rows)[: max(0, len(state.rows) - MAX_COUNTED)]:
        del state.rows[prefix]


def check_counted(fold: FoldState, body: DataRecord, record: Record) -> None:
    """Refuse to close by a count that is unknown, or while rows of the count are missing."""
    slot = f"slot {record.seq}"
    counted = set(body.counted)
    closing = len(counted) == len(body.counted) and counted <= set(body.closed)
    require(closing, "counts", f"{slot} counts {body.counted} and closes {body.closed}")
    for prefix in body.counted:
        told = f"{fold.rows_below(prefix)} rows of {fold.counted.rows.get(prefix)}"
        require(fold.has_counted(prefix), "counts", f"{slot} closes {prefix} with {told}")


def apply_closed(fold: FoldState, body: DataRecord) -> None:
    """A closed prefix needs no count any more."""
    for prefix in body.closed:
        fold.counted.rows.pop(prefix, None)


def apply_expired(fold: FoldState, body: ExpireRecord) -> None:
    """As many rows fewer are expected as their owner has dropped."""
    for each in body.partitions:
        for prefix in prefixes(each.partition):
            expected = fold.counted.rows.get(prefix)
            if expected is not None:
                fold.counted.rows[prefix] = max(0, expected - int(each.rows))
