"""Which format a record needs: the oldest one whose readers understand it."""

from sluiceway.ledger.lane_records import LaneDataRecord
from sluiceway.ledger.operator_records import MISSING, TAIL, ResetRecord, SourceChangeRecord
from sluiceway.ledger.partition_records import SWAP_PURPOSES, IntentRecord, SwapRecord
from sluiceway.ledger.records import (
    ADOPTED_FORMAT,
    FORMAT,
    Body,
    DataRecord,
    FenceRecord,
    RangeRecord,
    SourcesRecord,
)


def _is_newer(span: RangeRecord) -> bool:
    return bool(span.corrected or span.tail) or span.origin_end is not None


def needed_format(body: Body) -> int:
    """The oldest format whose readers understand a record.

    A ledger keeps its format until a record needs a newer one; all later records have that too.
    So an older version reads a ledger to the first record that it does not know, and says so.
    """
    if isinstance(body, FenceRecord):
        return FORMAT if body.adopted is None else ADOPTED_FORMAT
    return 2 if _needs_second(body) else FORMAT


def _needs_second(body: Body) -> bool:
    match body:
        case SwapRecord():
            return True
        case IntentRecord():
            return body.purpose in SWAP_PURPOSES
        case SourcesRecord():
            newer = any(p.newest_slot >= 0 or p.tail or p.origin for p in body.partitions)
            return newer or body.because is not None
        case ResetRecord():
            return any(each.tail for each in body.partitions)
        case SourceChangeRecord():
            kept = {TAIL, MISSING}
            return any(kept & set(each.evidence) or each.origin() for each in body.partitions)
        case DataRecord():
            return any(map(_is_newer, body.ranges)) or bool(body.pins)
        case LaneDataRecord():
            return bool(body.pins)
        case _:
            return False
