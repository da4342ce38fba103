"""Records about where source partitions begin: SOURCES, RESET and SOURCE_CHANGE."""

from sluiceway.ledger.folding.fold_state import (
    FoldState,
    SourceState,
    Subscription,
    require,
    violation,
)
from sluiceway.ledger.log_tail import NO_TAIL, tail_runs
from sluiceway.ledger.operator_records import (
    GAP,
    MISSING,
    TAIL,
    TWICE,
    ChangedSource,
    ResetPartition,
    ResetRecord,
    SourceChangeRecord,
)
from sluiceway.ledger.records import PinnedPartition, Record, SourcesRecord

HANDED_OVER = "handed_over"
"""`PinnedPartition.how` of a topic that begins where a table ends."""


def check_sources(fold: FoldState, body: SourcesRecord, record: Record) -> None:
    """Refuse a source partition that has its pin already, or a key of another kind."""
    if body.operator:
        check_operator_record(fold, body, record)
        only = all(pin.retired for pin in body.partitions)
        same = fold.subscription == Subscription(body.topics, body.pattern, body.start)
        require(only and same, "rule 22", f"slot {record.seq} does more than retire")
    _check_hand_over(fold, body, record)
    kinds = {topic: type(key) for topic, key in fold.sources}
    for pin in body.partitions:
        known = fold.sources.get((pin.topic, pin.partition))
        where = f"slot {record.seq}: {pin.topic}[{pin.partition}]"
        if pin.retired:
            require(known is not None and not known.retired, "rule 5", f"{where} is not read")
        elif known is not None:
            goes_on = known.retired and pin.start == known.end and pin.how == "resumed"
            require(goes_on, "rule 5", f"{where} is pinned already")
        require(pin.start >= 0, "rule 5", f"{where} starts at {pin.start}")
        check_tail(pin.tail, where)
        kind = kinds.setdefault(pin.topic, type(pin.partition))
        require(kind is type(pin.partition), "rule 5", f"{where} has a key of another kind")


def _check_hand_over(fold: FoldState, body: SourcesRecord, record: Record) -> None:
    """A table is retired in the record that pins what comes after it: never both, never neither."""
    pinned = [pin for pin in body.partitions if not pin.retired]
    handed = [pin for pin in pinned if pin.how == HANDED_OVER]
    if body.because is None:
        require(not handed, "rule 5", f"slot {record.seq} is handed over by no table")
        return
    live = {key for key, known in fold.sources.items() if not known.retired}
    retired = {(pin.topic, pin.partition) for pin in body.partitions if pin.retired}
    ledgers = {fold.sources[key].topic_id for key in retired & live}
    exact = retired == live and ledgers == {body.because.ledger} and handed == pinned
    require(exact, "rule 5", f"slot {record.seq} does not leave the table that hands over")


def apply_sources(fold: FoldState, body: SourcesRecord, record: Record) -> None:
    """New source partitions have their starts; retired ones keep their ends."""
    fold.subscription = Subscription(body.topics, body.pattern, body.start)
    for pin in body.partitions:
        _pin(fold, pin)


def _pin(fold: FoldState, pin: PinnedPartition) -> None:
    key = (pin.topic, pin.partition)
    if pin.retired:
        fold.sources[key].retired = True
        return
    if pin.how == "resumed":
        known = fold.sources[key]
        known.retired = known.idle = False
        known.quiet_since_us = None
        return
    fold.sources[key] = SourceState(
        pin.cluster_id,
        pin.topic_id,
        int(pin.start),
        pin.how,
        int(pin.start),
        newest_slot=pin.newest_slot,
        tail=pin.tail,
        origin=pin.origin,
    )


def check_reset(fold: FoldState, body: ResetRecord, record: Record) -> None:
    """Refuse a move that does not leave the committed end, or hides what it costs."""
    check_operator_record(fold, body, record)
    for each in body.partitions:
        where, known = moved(fold, each, record)
        wanted = GAP if each.new_end >= each.old_end else TWICE
        # The same offset is a move where the log was held against a leader epoch.
        moves = each.new_end != each.old_end or known.end_epoch is not None
        require(
            moves and each.accepted == wanted,
            "rule 22",
            f"{where} goes from {each.old_end} to {each.new_end} as `{each.accepted}`",
        )
        require(
            each.max_event_time_us == known.max_event_time_us,
            "rule 22",
            f"{where} moves its greatest event time",
        )
        check_tail(each.tail, where)


def apply_reset(fold: FoldState, body: ResetRecord, record: Record) -> None:
    """The source partitions go on elsewhere, each in a new generation."""
    for each in body.partitions:
        _begin_generation(fold, each, "reset", each.tail)


def check_source_change(fold: FoldState, body: SourceChangeRecord, record: Record) -> None:
    """Refuse a change from a log that was never read."""
    check_operator_record(fold, body, record)
    for each in body.partitions:
        # A topic that went and was created again was retired meanwhile: this brings it back.
        where, known = moved(fold, each, record, or_retired=True)
        old = (each.old_cluster_id, each.old_topic_id)
        require(old == (known.cluster_id, known.topic_id), "rule 22", f"{where} was never {old}")
        new = (each.new_cluster_id, each.new_topic_id)
        require(new != old, "rule 22", f"{where} stays the log that it is")
        check_tail(each.evidence.get(TAIL, NO_TAIL), where)
        check_tail(each.evidence.get(MISSING, NO_TAIL), where)


def apply_source_change(fold: FoldState, body: SourceChangeRecord, record: Record) -> None:
    """The source partitions go on in another log."""
    for each in body.partitions:
        _begin_generation(fold, each, "source_change", each.evidence.get(TAIL, NO_TAIL))
        known = fold.sources[each.topic, each.partition]
        known.cluster_id, known.topic_id = each.new_cluster_id, each.new_topic_id
        known.missing = each.evidence.get(MISSING, NO_TAIL)
        if each.origin() is not None or each.new_cluster_id != each.old_cluster_id:
            # A topic that was made again gets copies of the same log.
            known.origin = each.origin()
        known.retired = False


def check_operator_record(
    fold: FoldState, body: ResetRecord | SourceChangeRecord | SourcesRecord, record: Record
) -> None:
    """Refuse what does not follow a fence of its own, or names a partition twice."""
    slot = f"slot {record.seq}"
    require(record.seq == fold.fence_seq + 1, "rule 2", f"{slot} does not follow a fence")
    keys = {(each.topic, each.partition) for each in body.partitions}
    require(
        0 < len(keys) == len(body.partitions),
        "rule 22",
        f"{slot} names no partition, or one twice",
    )


def moved(
    fold: FoldState,
    each: ResetPartition | ChangedSource,
    record: Record,
    *,
    or_retired: bool = False,
) -> tuple[str, SourceState]:
    """The source partition that an operator moves, and its name for messages."""
    where = f"slot {record.seq}: {each.topic}[{each.partition}]"
    known = fold.sources.get((each.topic, each.partition))
    if known is None or (known.retired and not or_retired):
        raise violation("rule 22", f"{where} is not read")
    require(
        each.old_end == known.end,
        "rule 22",
        f"{where} leaves {each.old_end}, the committed end is {known.end}",
    )
    require(each.new_end >= 0, "rule 22", f"{where} goes to {each.new_end}")
    require(
        each.generation == known.generation + 1,
        "rule 22",
        f"{where} begins generation {each.generation} after {known.generation}",
    )
    return where, known


def check_tail(text: str, where: str) -> None:
    """Refuse a text that is no tail; one of an older version is empty."""
    try:
        tail_runs(text)
    except ValueError as error:
        raise violation("rule 5", f"{where} has {error}") from error


def _begin_generation(
    fold: FoldState, each: ResetPartition | ChangedSource, how: str, tail: str
) -> None:
    known = fold.sources[each.topic, each.partition]
    known.start = known.end = int(each.new_end)
    known.how = how
    known.generation = each.generation
    known.has_data = known.idle = False
    known.quiet_since_us = None
    # The log may have been truncated or be another: what led there says nothing now.
    known.end_epoch = None
    known.tail, known.missing = tail, NO_TAIL
