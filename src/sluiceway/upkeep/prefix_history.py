"""What made the rows of a prefix, by the log: ranges of the queue, and replays of dirty rows."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from sluiceway.ledger.dirty_files import dirty_sources, late_sources
from sluiceway.ledger.dirty_sources import DirtySource
from sluiceway.ledger.lane_records import LaneDataRecord
from sluiceway.ledger.layout import LedgerLayout, late_folder
from sluiceway.ledger.operator_records import OriginLog, SourceChangeRecord
from sluiceway.ledger.partition_records import ExpireRecord, SwapRecord
from sluiceway.ledger.places import is_below, partition_of
from sluiceway.ledger.records import DataRecord, RangeRecord, Record, SourcesRecord
from sluiceway.types.log_key import SourceKey
from sluiceway.upkeep.earlier_rows import EarlierRange, pinned_ranges
from sluiceway.worker.backfill_task import DirtySpan


@dataclass(frozen=True, slots=True)
class QueueRange:
    """Offsets `[start, end)` of one log.

    Attributes:
        origin: The log whose copies were dropped, as the ledger had it at `start`; None without.
    """

    topic_id: str
    cluster_id: str
    start: int
    end: int
    origin: OriginLog | None = None


@dataclass(slots=True)
class PrefixHistory:
    """What was read for a prefix.

    Attributes:
        ranges: By source partition, rising.
        left_out: Dirty files of these ranges.
        spans: Dirty rows that were replayed into the prefix, with rows of others.
        aside: Late rows of the prefix in their own place, by slot: they are not in the prefix.
        earlier: Of these ranges, those before the offsets at which the route began.
        earlier_slot: Slot of a SWAP that has brought such rows to the prefix or below it, and that
            no other one has replaced; -1 without one.
        earlier_dirty: Dirty files of all such ranges, whatever prefix they were read for.
    """

    ranges: dict[SourceKey, list[QueueRange]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    spans: list[DirtySpan] = field(default_factory=list)
    aside: dict[int, int] = field(default_factory=dict)
    earlier: list[EarlierRange] = field(default_factory=list)
    earlier_slot: int = -1
    earlier_dirty: list[str] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Offsets of the ranges, and rows of the spans."""
        spans = sum(span.stop - span.start for span in self.spans)
        return spans + sum(each.end - each.start for all_ in self.ranges.values() for each in all_)


def history_of(
    records: Iterable[Record], layout: LedgerLayout, ledger: str, prefix: str, before: int
) -> PrefixHistory:
    """What made a prefix.

    Args:
        records: The whole log, from its first slot on.
        layout: The route's layout.
        ledger: Uuid of the ledger.
        prefix: Prefix of partitions.
        before: Slot from which on records do not count.
    """
    found = _Found(layout, ledger, prefix)
    for record in records:
        if record.seq >= before:
            break
        found.add(record)
    return found.history()


class _Found:
    def __init__(self, layout: LedgerLayout, ledger: str, prefix: str) -> None:
        self._layout = layout
        self._ledger = ledger
        self._prefix = prefix
        # Record -> partitions of the prefix that it has brought rows to and that are still there.
        self._brought: dict[int, tuple[Record, set[str]]] = {}
        self._late: dict[DirtySource, tuple[Record, int]] = {}
        self._taken: set[DirtySource] = set()
        self._sources: dict[DirtySource, str] = {}
        self._origins: dict[SourceKey, OriginLog | None] = {}
        self._begun: dict[tuple[int, SourceKey], OriginLog] = {}
        self._earlier: list[EarlierRange] = []
        self._earlier_slot = -1
        # Partitions of the prefix that have such rows and are still there.
        self._earlier_in: set[str] = set()
        self._earlier_dirty: list[str] = []

    def add(self, record: Record) -> None:
        body = record.body
        if isinstance(body, ExpireRecord):
            self._let_go({each.partition for each in body.partitions})
        self._note_dirty(record)
        self._keep_origins(record)
        if isinstance(body, SwapRecord):
            self._keep_earlier(record.seq, body)
        if not isinstance(body, DataRecord | LaneDataRecord):
            return
        if isinstance(body, LaneDataRecord):
            self._taken |= {
                source for source in self._late if any(r.source == str(source) for r in body.ranges)
            }
        names = {partition_of(file.final) for file in body.files}
        inside = {name for name in names if is_below(name, self._prefix)}
        if inside:
            self._brought[record.seq] = record, inside
        for source, file in late_sources(self._ledger, record).items():
            if is_below(late_folder(file.final), self._prefix):
                self._late[source] = record, int(file.rows)

    def _let_go(self, gone: set[str]) -> None:
        for _, names in self._brought.values():
            names.difference_update(gone)
        self._earlier_in -= gone
        if not self._earlier_in:
            self._earlier, self._earlier_slot = [], -1

    def _keep_origins(self, record: Record) -> None:
        """How far the copied logs were in the table when each range was read."""
        body = record.body
        if isinstance(body, SourceChangeRecord):
            for one in body.partitions:
                if one.origin() is not None or one.new_cluster_id != one.old_cluster_id:
                    self._origins[one.topic, one.partition] = one.origin()
        elif isinstance(body, SourcesRecord):
            self._origins |= {(p.topic, p.partition): p.origin for p in body.partitions if p.origin}
        elif isinstance(body, DataRecord):
            for span in body.ranges:
                key = (span.topic, span.partition)
                origin = self._origins.get(key)
                if origin is not None and span.origin_end is not None:
                    self._begun[record.seq, key] = origin
                    self._origins[key] = replace(origin, end=span.origin_end)

    def _keep_earlier(self, seq: int, body: SwapRecord) -> None:
        found = pinned_ranges(body.pins)
        if found:
            self._earlier_dirty += [self._layout.final(file.final) for file in body.dirty_files]
        if is_below(self._prefix, body.prefix):
            self._earlier, self._earlier_slot = found, seq if found else -1
            self._earlier_in = set()
        elif found and is_below(body.prefix, self._prefix):
            self._earlier_slot = seq
        if found:
            names = {each.partition for each in body.partitions}
            self._earlier_in |= {name for name in names if is_below(name, self._prefix)}

    def _note_dirty(self, record: Record) -> None:
        for source, file in dirty_sources(self._ledger, record).items():
            self._sources[source] = self._layout.final(file.final)

    def history(self) -> PrefixHistory:
        found = PrefixHistory(
            earlier=self._earlier,
            earlier_slot=self._earlier_slot,
            earlier_dirty=self._earlier_dirty,
        )
        for each in self._earlier:
            add_earlier(found, each)
        if self._earlier:
            found.left_out += self._earlier_dirty
        wanted = {seq: record for seq, (record, names) in self._brought.items() if names}
        for source, (record, rows) in self._late.items():
            if source in self._taken:
                # They are in the prefix by now, and were read with this record.
                wanted[record.seq] = record
            else:
                found.aside[record.seq] = found.aside.get(record.seq, 0) + rows
        for seq in sorted(wanted):
            body = wanted[seq].body
            if isinstance(body, DataRecord):
                for span in body.ranges:
                    origin = self._begun.get((seq, (span.topic, span.partition)))
                    _add_range(found, span, origin)
                found.left_out += [self._layout.final(file.final) for file in body.dirty_files]
            elif isinstance(body, LaneDataRecord):
                found.spans += self._spans(body)
        return found

    def _spans(self, body: LaneDataRecord) -> Iterator[DirtySpan]:
        left_out = tuple(self._layout.final(file.final) for file in body.dirty_files)
        for each in body.ranges:
            path = self._source_path(each.source)
            if path is not None:
                yield DirtySpan(path, int(each.start), int(each.end), left_out)

    def _source_path(self, source: str) -> str | None:
        """Where a dirty file is; None for late files, whose rows the ranges have."""
        try:
            return self._sources.get(DirtySource.parse(source))
        except ValueError:
            return None


def add_earlier(found: PrefixHistory, each: EarlierRange) -> None:
    """Have a range read from before the offsets at which the route began."""
    made = QueueRange(each.topic_id, each.cluster_id, each.start, each.end)
    found.ranges.setdefault((each.topic, each.partition), []).insert(0, made)


def _add_range(found: PrefixHistory, span: RangeRecord, origin: OriginLog | None) -> None:
    ranges = found.ranges.setdefault((span.topic, span.partition), [])
    made = QueueRange(span.topic_id, span.cluster_id, int(span.start), int(span.end), origin)
    last = ranges[-1] if ranges else None
    if made.start == made.end:
        return
    if last is not None and (last.topic_id, last.cluster_id, last.end) == (
        made.topic_id,
        made.cluster_id,
        made.start,
    ):
        ranges[-1] = replace(last, end=made.end)
    else:
        ranges.append(made)
