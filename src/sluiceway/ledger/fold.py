"""The state that all records up to the tail add up to.

The fold tests the same preconditions when it reads as a writer tests before it puts (commit
rule 2), so a record that could not lawfully be written cannot be read either: it halts.
"""

from dataclasses import dataclass, field
from functools import singledispatchmethod
from typing import Protocol

from sluiceway.errors import InvariantError
from sluiceway.ledger.operator_records import (
    GAP,
    TWICE,
    ChangedSource,
    ResetPartition,
    ResetRecord,
    SourceChangeRecord,
)
from sluiceway.ledger.records import (
    FIRST_PREV,
    FORMAT,
    NO_ROWS,
    DataRecord,
    FenceRecord,
    FileRecord,
    PinnedPartition,
    RangeRecord,
    Record,
    RowCounts,
    SnapshotRecord,
    SourcesRecord,
    record_hash,
)

PartitionKey = tuple[str, int]
"""(topic, partition number)."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a route reads, as its last SOURCES record has it."""

    topics: tuple[str, ...]
    pattern: str
    start: str


class ReadSpan(Protocol):
    """What was read of one source partition: a range of a DATA record, or a task's answer."""

    @property
    def end(self) -> int:
        """First offset behind what was read."""

    @property
    def rows(self) -> int:
        """Records that were read."""

    @property
    def leader_epoch(self) -> int | None:
        """Of the last record; None when unknown."""

    @property
    def max_event_time_us(self) -> int | None:
        """Greatest one; None without event times."""


@dataclass(slots=True)
class SourceState:
    """Committed end of one source partition.

    Attributes:
        start: Where its generation begins: the pin, or what a RESET or SOURCE_CHANGE said.
        how: A `PinnedPartition.how`, `reset` or `source_change`.
        generation: How often an operator has moved its end; sums and dedupe are per generation.
        has_data: Whether this generation has rows.
    """

    cluster_id: str
    topic_id: str
    start: int
    how: str
    end: int
    generation: int = 0
    has_data: bool = False
    retired: bool = False
    leader_epoch: int | None = None
    max_event_time_us: int | None = None

    def advance(self, span: ReadSpan) -> None:
        """Take in what was read from the committed end on."""
        self.end = int(span.end)
        self.has_data = self.has_data or span.rows > 0
        if span.leader_epoch is not None:
            self.leader_epoch = span.leader_epoch
        if span.max_event_time_us is not None:
            newest = int(span.max_event_time_us)
            self.max_event_time_us = max(newest, self.max_event_time_us or newest)


@dataclass(slots=True)
class PartitionState:
    """A partition of the table as the ledger knows it."""

    values: tuple[str | None, ...]
    folder: str
    first_seq: int
    last_seq: int
    rows: int = 0
    files: int = 0


@dataclass(slots=True)
class Fold:
    """Everything that the ledger says, up to and without slot `next_seq`.

    Attributes:
        fence_seq: Slot of the latest FENCE.
        last_epoch: Of the latest DATA since then, in slot `data_seq`; -1 when there is none.
    """

    next_seq: int = 0
    head: str = FIRST_PREV
    term: int = 0
    format: int = 1
    fence: FenceRecord | None = None
    first_fence: FenceRecord | None = None
    fence_seq: int = -1
    last_epoch: int = -1
    data_seq: int = -1
    subscription: Subscription | None = None
    sources: dict[PartitionKey, SourceState] = field(default_factory=dict)
    partitions: dict[str, PartitionState] = field(default_factory=dict)
    counts: RowCounts = NO_ROWS
    published_through: int = 0
    effects_through: int = 0
    unpublished: dict[int, DataRecord] = field(default_factory=dict)
    data_records: int = 0
    snapshot_through: int = 0

    def apply(self, record: Record, raw: bytes) -> None:
        """Take the record of slot `next_seq` in, or leave everything as it was.

        Raises:
            InvariantError: A precondition or invariant does not hold; says which.
        """
        self.check(record)
        self._take(record.body, record)
        if record.published_through > self.published_through:
            self._drop_published(record.published_through)
        self.effects_through = max(self.effects_through, record.effects_through)
        self.head = record_hash(raw)
        self.next_seq = record.seq + 1

    def check(self, record: Record) -> None:
        """Test a record against the fold before it is put or taken in.

        Raises:
            InvariantError: As in `apply`.
        """
        _require(record.seq == self.next_seq, "I1", f"slot {record.seq}, expected {self.next_seq}")
        _require(
            record.prev == self.head, "I1", f"slot {record.seq} is not chained to the one before"
        )
        through = (record.published_through, record.effects_through)
        _require(
            max(through) <= record.seq, "I1", f"slot {record.seq} claims the future: {through}"
        )
        if not isinstance(record.body, FenceRecord):
            _require(
                record.term == self.term and self.fence is not None,
                "I3",
                f"slot {record.seq} has term {record.term}, the fence has {self.term}",
            )
            _require(
                record.format == self.format,
                "rule 26",
                f"slot {record.seq} has format {record.format}, its fence declares {self.format}",
            )
        self._check_body(record.body, record)

    def check_published_through(self, seq: int) -> None:
        """Note that all files of all records below `seq` are published."""
        self._drop_published(seq)

    def _drop_published(self, through: int) -> None:
        self.published_through = max(self.published_through, through)
        for seq in [seq for seq in self.unpublished if seq < through]:
            del self.unpublished[seq]

    @singledispatchmethod
    def _check_body(self, body: object, record: Record) -> None:
        raise InvariantError(f"slot {record.seq} holds {type(body).__name__}")

    @_check_body.register
    def _(self, body: FenceRecord, record: Record) -> None:
        _require(
            record.term == self.term + 1,
            "I3",
            f"slot {record.seq} fences term {record.term} after {self.term}",
        )
        declared = f"slot {record.seq} of format {record.format} declares {body.format}"
        _require(record.format == body.format >= self.format, "rule 26", f"{declared} for the rest")
        _require(
            body.min_reader <= FORMAT,
            "rule 26",
            f"slot {record.seq} is for readers of format {body.min_reader} on; this version reads "
            f"up to {FORMAT}, run the newer version that wrote it",
        )
        if self.first_fence is not None:
            first = self.first_fence
            same = (body.ledger, body.job, body.route) == (first.ledger, first.job, first.route)
            _require(
                same, "rule 9", f"slot {record.seq} is a fence of another ledger, job or route"
            )
        else:
            _require(record.seq == 0, "I3", "a ledger begins with a fence")

    @_check_body.register
    def _(self, body: SourcesRecord, record: Record) -> None:
        for pin in body.partitions:
            known = self.sources.get((pin.topic, pin.partition))
            where = f"slot {record.seq}: {pin.topic}[{pin.partition}]"
            if pin.retired:
                _require(known is not None and not known.retired, "rule 5", f"{where} is not read")
            elif known is not None:
                goes_on = known.retired and pin.start == known.end and pin.how == "resumed"
                _require(goes_on, "rule 5", f"{where} is pinned already")
            _require(pin.start >= 0, "rule 5", f"{where} starts at {pin.start}")

    @_check_body.register
    def _(self, body: DataRecord, record: Record) -> None:
        slot = f"slot {record.seq}"
        _require(
            body.epoch > self.last_epoch,
            "I9",
            f"{slot} has epoch {body.epoch} after {self.last_epoch}",
        )
        for span in body.ranges:
            self._check_range(span, slot)
        keys = {(span.topic, span.partition) for span in body.ranges}
        _require(len(keys) == len(body.ranges), "I2", f"{slot} names a source partition twice")
        self._check_sums(body, slot)
        own = f"{record.term}-{body.epoch}-"
        for file in (*body.files, *body.dirty_files):
            own_folder = file.staged.startswith(own) and file.staged.count("/") == 1
            _require(own_folder and _is_contained(file.staged), "I9", f"{slot} names {file.staged}")
            _require(_is_contained(file.final), "I4", f"{slot} names {file.final}")

    @_check_body.register
    def _(self, body: SnapshotRecord, record: Record) -> None:
        slot = f"slot {record.seq}"
        _require(
            self.snapshot_through < body.through <= record.seq,
            "rule 19",
            f"{slot} has a snapshot of slot {body.through} after {self.snapshot_through}",
        )
        _require(
            record.published_through >= body.through,
            "rule 19",
            f"{slot} has a snapshot of unpublished slots, to {body.through}",
        )
        _require(
            _is_contained(body.side) and "/" not in body.side, "I4", f"{slot} names {body.side}"
        )

    @_check_body.register
    def _(self, body: ResetRecord, record: Record) -> None:
        self._check_operator_record(body, record)
        for each in body.partitions:
            where, known = self._moved(each, record)
            wanted = GAP if each.new_end > each.old_end else TWICE
            _require(
                each.new_end != each.old_end and each.accepted == wanted,
                "rule 22",
                f"{where} goes from {each.old_end} to {each.new_end} as `{each.accepted}`",
            )
            _require(
                each.max_event_time_us == known.max_event_time_us,
                "rule 22",
                f"{where} moves its greatest event time",
            )

    @_check_body.register
    def _(self, body: SourceChangeRecord, record: Record) -> None:
        self._check_operator_record(body, record)
        for each in body.partitions:
            # A topic that went and was created again was retired meanwhile: this brings it back.
            where, known = self._moved(each, record, or_retired=True)
            old = (each.old_cluster_id, each.old_topic_id)
            _require(
                old == (known.cluster_id, known.topic_id), "rule 22", f"{where} was never {old}"
            )
            new = (each.new_cluster_id, each.new_topic_id)
            _require(new != old, "rule 22", f"{where} stays the log that it is")

    def _check_operator_record(
        self, body: ResetRecord | SourceChangeRecord, record: Record
    ) -> None:
        slot = f"slot {record.seq}"
        _require(record.seq == self.fence_seq + 1, "rule 2", f"{slot} does not follow a fence")
        keys = {(each.topic, each.partition) for each in body.partitions}
        _require(
            0 < len(keys) == len(body.partitions),
            "rule 22",
            f"{slot} names no partition, or one twice",
        )

    def _moved(
        self, each: ResetPartition | ChangedSource, record: Record, *, or_retired: bool = False
    ) -> tuple[str, SourceState]:
        """The source partition that an operator moves, and its name for messages."""
        where = f"slot {record.seq}: {each.topic}[{each.partition}]"
        known = self.sources.get((each.topic, each.partition))
        if known is None or (known.retired and not or_retired):
            raise _violation("rule 22", f"{where} is not read")
        _require(
            each.old_end == known.end,
            "rule 22",
            f"{where} leaves {each.old_end}, the committed end is {known.end}",
        )
        _require(each.new_end >= 0, "rule 22", f"{where} goes to {each.new_end}")
        _require(
            each.generation == known.generation + 1,
            "rule 22",
            f"{where} begins generation {each.generation} after {known.generation}",
        )
        return where, known

    def _check_range(self, span: RangeRecord, slot: str) -> None:
        where = f"{slot}: {span.topic}[{span.partition}]"
        known = self.sources.get((span.topic, span.partition))
        _require(known is not None and not known.retired, "rule 5", f"{where} is not pinned")
        if known is None:
            return
        same = (known.cluster_id, known.topic_id) == (span.cluster_id, span.topic_id)
        _require(same, "P7", f"{where} is another log of the same name")
        _require(
            span.start == known.end,
            "I2",
            f"{where} starts at {span.start}, the committed end is {known.end}",
        )
        _require(
            span.end >= span.start and span.end - span.start == span.rows + span.gaps,
            "P6",
            f"{where} [{span.start}, {span.end}) has {span.rows} rows and {span.gaps} gaps",
        )

    @staticmethod
    def _check_sums(body: DataRecord, slot: str) -> None:
        counts = body.counts
        _require(counts.balanced(), "P6", f"{slot} does not balance: {counts}")
        read = sum(span.rows for span in body.ranges)
        _require(read == counts.read, "P6", f"{slot} read {counts.read}, its ranges {read}")
        written = sum(file.rows for file in body.files)
        _require(written == counts.written, "P6", f"{slot} wrote {counts.written}, files {written}")
        dirty = sum(file.rows for file in body.dirty_files)
        _require(dirty == counts.dirty, "P6", f"{slot} has {counts.dirty} dirty, files {dirty}")

    @singledispatchmethod
    def _take(self, body: object, record: Record) -> None:
        raise InvariantError(f"slot {record.seq} holds {type(body).__name__}")

    @_take.register
    def _(self, body: FenceRecord, record: Record) -> None:
        self.term = record.term
        self.format = body.format
        self.fence = body
        self.first_fence = self.first_fence or body
        self.fence_seq = record.seq
        self.last_epoch = -1
        self.data_seq = -1

    @_take.register
    def _(self, body: SourcesRecord, record: Record) -> None:
        self.subscription = Subscription(body.topics, body.pattern, body.start)
        for pin in body.partitions:
            self._pin(pin)

    def _pin(self, pin: PinnedPartition) -> None:
        key = (pin.topic, pin.partition)
        if pin.retired:
            self.sources[key].retired = True
            return
        if pin.how == "resumed":
            self.sources[key].retired = False
            return
        self.sources[key] = SourceState(
            pin.cluster_id, pin.topic_id, int(pin.start), pin.how, int(pin.start)
        )

    @_take.register
    def _(self, body: DataRecord, record: Record) -> None:
        self.last_epoch = body.epoch
        self.data_seq = record.seq
        for span in body.ranges:
            self.sources[(span.topic, span.partition)].advance(span)
        for file in body.files:
            self._add_file(file, record.seq)
        self.counts = self.counts.plus(body.counts)
        self.unpublished[record.seq] = body
        self.data_records += 1

    @_take.register
    def _(self, body: SnapshotRecord, record: Record) -> None:
        self.snapshot_through = body.through

    @_take.register
    def _(self, body: ResetRecord, record: Record) -> None:
        for each in body.partitions:
            self._begin_generation(each, "reset")

    @_take.register
    def _(self, body: SourceChangeRecord, record: Record) -> None:
        for each in body.partitions:
            self._begin_generation(each, "source_change")
            known = self.sources[each.topic, each.partition]
            known.cluster_id, known.topic_id = each.new_cluster_id, each.new_topic_id
            known.retired = False

    def _begin_generation(self, each: ResetPartition | ChangedSource, how: str) -> None:
        known = self.sources[each.topic, each.partition]
        known.start = known.end = int(each.new_end)
        known.how = how
        known.generation = each.generation
        known.has_data = False
        # The log may have been truncated or be another: what led there says nothing now.
        known.leader_epoch = None

    def _add_file(self, file: FileRecord, seq: int) -> None:
        folder = file.final.rpartition("/")[0]
        state = self.partitions.setdefault(folder, PartitionState(file.values, folder, seq, seq))
        state.last_seq = seq
        state.rows += int(file.rows)
        state.files += 1


def _is_contained(relative: str) -> bool:
    parts = relative.split("/")
    return not any(part in ("", ".", "..") for part in parts) and "\0" not in relative


def _require(holds: bool, rule: str, message: str) -> None:  # noqa: FBT001
    if not holds:
        raise _violation(rule, message)


def _violation(rule: str, message: str) -> InvariantError:
    return InvariantError(
        f"{rule} does not hold: {message}",
        hint="keep the table and its _sluiceway folder as they are and run `sluiceway verify`",
    )
