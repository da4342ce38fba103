"""The route's watermark: it never falls, and no row or log end that could hold it is left out.

The fold needs none of the job file's settings for its tests. Whatever those are, no source
partition that holds the watermark may be below it (commit rules 6, 11, 12, 23).
"""

from collections.abc import Iterable

from sluiceway.ledger.data_parts import MAX_HELD_BY, SourceName, WatermarkRecord
from sluiceway.ledger.folding.fold_state import FoldState, PartitionKey, SourceState, require
from sluiceway.ledger.records import DataRecord, Record

ALL_IDLE = "all_idle"


def check_watermark(fold: FoldState, body: DataRecord, record: Record) -> None:
    """Refuse a watermark that falls or that something holds, and closings that it does not bear."""
    slot = f"slot {record.seq}"
    _check_closing(fold, body, slot)
    mark = body.watermark
    if mark is None:
        return
    before = fold.watermark
    require(
        before.read_at_us is None or mark.read_at_us >= before.read_at_us,
        "rule 11",
        f"{slot} looked at {mark.read_at_us}, before {before.read_at_us}",
    )
    require(len(mark.held_by) <= MAX_HELD_BY, "rule 11", f"{slot} names {len(mark.held_by)}")
    idle = _idle_after(fold, body, mark, slot)
    if mark.us is None:
        require(not mark.by, "rule 12", f"{slot} says `{mark.by}` of a watermark that stays")
        return
    require(
        before.us is None or mark.us > before.us,
        "I7",
        f"{slot} has watermark {mark.us} after {before.us}",
    )
    _check_holders(fold, body, mark, idle, slot)


def _check_closing(fold: FoldState, body: DataRecord, slot: str) -> None:
    """A closed prefix has to lie below the watermark committed before it (commit rule 6)."""
    bound = None if body.watermark is None else body.watermark.bound_us
    known = fold.watermark.us
    by_watermark = set(body.closed) - set(body.counted)
    if not body.closed:
        require(bound is None, "rule 6", f"{slot} names a bound and closes nothing")
    elif known is None:
        require(bound is None, "rule 6", f"{slot} closes up to {bound} without a watermark")
    elif by_watermark or bound is not None:
        where = f"{slot} closes up to {bound}, the watermark is {known}"
        require(bound is not None and bound <= known, "rule 6", where)


def _idle_after(
    fold: FoldState, body: DataRecord, mark: WatermarkRecord, slot: str
) -> set[PartitionKey]:
    """Source partitions that are idle with this record."""
    moved = {(span.topic, span.partition) for span in body.ranges if span.rows > 0}
    idle = {key for key, known in fold.sources.items() if known.idle} - moved
    named = [*_keys(mark.idle), *_keys(mark.woken)]
    require(len(set(named)) == len(named), "rule 11", f"{slot} names a source partition twice")
    for key in named:
        known = fold.sources.get(key)
        is_read = known is not None and not known.retired
        require(is_read, "rule 5", f"{slot}: {key[0]}[{key[1]}] is not read")
        require(key not in moved, "rule 11", f"{slot}: {key[0]}[{key[1]}] has rows, and is named")
    for key in _keys(mark.woken):
        require(key in idle, "rule 11", f"{slot}: {key[0]}[{key[1]}] was not idle")
    for key in _keys(mark.idle):
        require(key not in idle, "rule 11", f"{slot}: {key[0]}[{key[1]}] is idle already")
    return (idle - set(_keys(mark.woken))) | set(_keys(mark.idle))


def _check_holders(
    fold: FoldState,
    body: DataRecord,
    mark: WatermarkRecord,
    idle: set[PartitionKey],
    slot: str,
) -> None:
    """Refuse to rise above a source partition that holds it, or from nothing at all."""
    times = {key: known.max_event_time_us for key, known in _read(fold)}
    for span in body.ranges:
        newest = span.max_event_time_us
        if newest is not None:
            seen = min(newest, mark.read_at_us)
            times[span.topic, span.partition] = max(
                seen, times.get((span.topic, span.partition)) or seen
            )
    holding = {key: time for key, time in times.items() if key not in idle}
    if mark.by == ALL_IDLE:
        had_rows = (known.max_event_time_us is not None for known in fold.sources.values())
        some = (
            fold.watermark.us is not None
            or any(had_rows)
            or any(time is not None for time in times.values())
        )
        require(some and bool(times), "rule 12", f"{slot}: no row was ever seen")
        require(not holding, "rule 12", f"{slot}: {sorted(holding)[:1]} is not idle")
        in_time = mark.us is not None and mark.us < mark.read_at_us
        require(in_time, "rule 12", f"{slot} has a watermark of {mark.us}, at {mark.read_at_us}")
        return
    require(not mark.by, "rule 12", f"{slot}: a watermark by `{mark.by}`")
    require(bool(holding), "rule 12", f"{slot}: all are idle, and the watermark rises by rows")
    for key, time in sorted(holding.items()):
        require(
            time is not None and mark.us is not None and time >= mark.us,
            "I7",
            f"{slot} has watermark {mark.us}, {key[0]}[{key[1]}] is at {time}",
        )


def apply_watermark(fold: FoldState, body: DataRecord, record: Record) -> None:
    """The watermark holds, and source partitions are idle or not. Called after the ranges."""
    del record
    mark = body.watermark
    if mark is None:
        return
    state = fold.watermark
    # A record that only closes repeats the last reading of log ends, which lacks later pins.
    has_looked = state.read_at_us != mark.read_at_us
    state.read_at_us = int(mark.read_at_us)
    state.held_by = mark.held_by
    if mark.us is not None:
        state.us, state.by = int(mark.us), mark.by
    for key in _keys(mark.idle):
        fold.sources[key].idle = True
    for key in _keys(mark.woken):
        fold.sources[key].idle = False
    for _, known in _read(fold):
        if known.quiet_since_us is None and has_looked:
            known.quiet_since_us = state.read_at_us


def _read(fold: FoldState) -> Iterable[tuple[PartitionKey, SourceState]]:
    return ((key, known) for key, known in fold.sources.items() if not known.retired)


def _keys(names: tuple[SourceName, ...]) -> list[PartitionKey]:
    return [(name.topic, name.partition) for name in names]
