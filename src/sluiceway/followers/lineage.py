"""Sends OpenLineage events: which topics a route reads into which table, and how far it is.

The log is the source of the events. Each FENCE begins a run and ends the run before it, unless its
driver did. DATA adds to the totals of a run. The file `told-lineage.json` holds how far events were
sent. Events are sent at least once: a repeated event says the same of the same run.
"""

import os
import time
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, replace

from sluiceway.errors import Retriable
from sluiceway.followers.lineage_events import LineageRoute, RunState, Totals, run_event
from sluiceway.host.http import post_json
from sluiceway.host.http_receiver import HttpReceiver
from sluiceway.jobfile.compile.ready_rule import LineageRule
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.follower import PIECE_S, Follower, LogView
from sluiceway.ledger.lane_records import LaneDataRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.partition_records import SwapRecord
from sluiceway.ledger.places import is_uuid
from sluiceway.ledger.records import DataRecord, FenceRecord, Record
from sluiceway.observe.failpoints import edge
from sluiceway.storage.contract import Storage
from sluiceway.types.strict_json import StrictJsonError, decode, encode

_NAME = "lineage"


class LineageReceiver(ABC):
    """A system that receives events.

    Attributes:
        place: Its name for messages; holds no secret.
    """

    place: str

    @abstractmethod
    def send(self, event: bytes) -> None:
        """Send one event; called again after any failure.

        Raises:
            Retriable, OSError: It was not sent, or that is not known.
        """


class HttpLineage(LineageReceiver):
    """An endpoint that takes events as POSTs, such as Marquez's `/api/v1/lineage`."""

    def __init__(self, receiver: HttpReceiver) -> None:
        self.place = receiver.host
        self._receiver = receiver

    def send(self, event: bytes) -> None:
        """See `LineageReceiver.send`."""
        post_json(self._receiver, event, {})


class FileLineage(LineageReceiver):
    """A file that gets a line an event; jobs and routes may share it."""

    def __init__(self, path: str) -> None:
        self.place = path

    def send(self, event: bytes) -> None:
        """See `LineageReceiver.send`."""
        # One write of the whole line: lines of other processes do not mix with it.
        opened = os.open(self.place, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            line = event + b"\n"
            if os.write(opened, line) != len(line):
                raise OSError("only a part of the line was written")
        finally:
            os.close(opened)


def receiver_of(rule: LineageRule) -> LineageReceiver:
    """The receiver in the job file."""
    if rule.http is not None:
        return HttpLineage(rule.http)
    return FileLineage(rule.file or "")


@dataclass(frozen=True, slots=True)
class _Told:
    """How far events were sent.

    Attributes:
        through: Slot below which the totals have all records.
        term: Term of the run.
        open: Whether the event of its end is still to be sent.
        totals: Totals of the run.
    """

    through: int
    term: int
    open: bool
    totals: Totals


class LineageFollower(Follower):
    """Sends events to one receiver.

    Args:
        route: The route's part of events.
        receiver: The receiver.
        layout: Layout of the ledger.
        storage: The store of the ledger.
        interval_s: Seconds between two events of a run that goes on.
    """

    name = _NAME

    def __init__(
        self,
        route: LineageRoute,
        receiver: LineageReceiver,
        layout: LedgerLayout,
        storage: Storage,
        interval_s: float,
    ) -> None:
        self.connection = f"lineage {receiver.place}"
        self._route = route
        self._receiver = receiver
        self._path = layout.announced(_NAME)
        self._storage = storage
        self._interval_s = interval_s
        self._told: _Told | None = None
        self._observed: _Told | None = None
        self._due = 0.0
        self._began = (0, 0)
        self._through = 0

    def update(self, fold: Fold, since: int, *, again: bool = False) -> None:
        """See `Follower.update`: sets the first slot of a route that never sent an event."""
        del since
        if again:
            self._began = (fold.next_seq, fold.term)
        self._through = fold.next_seq

    def place(self) -> int:
        """See `Follower.place`."""
        told = self._told
        return 0 if told is None else told.through

    def rest_s(self) -> float | None:
        """See `Follower.rest_s`."""
        return max(0.0, self._due - time.monotonic())

    def follow(self, view: LogView) -> int:
        """See `Follower.follow`: one event an interval, and one for each run that begins or ends.

        Raises:
            FencedError: Another driver has taken over.
            Retriable: The receiver did not get the event, or that is not known.
            StorageUnavailableError: The store failed.
        """
        seen = self._observed or self._go_on(view)
        if view.last or time.monotonic() >= self._due:
            self._catch_up(view, seen)
        return self.place()

    def _catch_up(self, view: LogView, seen: _Told) -> None:
        until = time.monotonic() + PIECE_S
        for record in view.records(seen.through):
            seen = self._apply(view, record, seen)
            self._observed = seen
            if view.over() or time.monotonic() >= until:
                break
        if view.last and seen.open and seen.through >= self._through:
            self._send(view, RunState.COMPLETE, replace(seen, open=False))
        elif seen != self._told:
            self._send(view, RunState.RUNNING, seen)
        if seen.through >= view.through:
            self._due = time.monotonic() + self._interval_s

    def _apply(self, view: LogView, record: Record, seen: _Told) -> _Told:
        """Add a record in order; a run that begins or ends gets its event at once."""
        body = record.body
        if not isinstance(body, FenceRecord):
            return replace(
                seen, through=record.seq + 1, totals=_with(seen.totals, record, self._route.topics)
            )
        if seen.open:
            # Its driver did not record its end.
            self._send(view, RunState.ABORT, replace(seen, open=False), body.started_at_ms)
        began = _Told(record.seq + 1, record.term, open=True, totals=Totals())
        self._send(view, RunState.START, began, body.started_at_ms)
        return began

    def _go_on(self, view: LogView) -> _Told:
        """The state after the last event; without any, the current run of the ledger."""
        raw = self._storage.read(self._path)
        try:
            told = None if raw is None else decode(raw, _Told)
        except StrictJsonError:
            told = None
        if told is None:
            through, term = self._began
            told = _Told(through, term, open=True, totals=Totals())
            self._send(view, RunState.START, told)
        self._told = self._observed = told
        return told

    def _send(self, view: LogView, state: RunState, told: _Told, at_ms: int | None = None) -> None:
        at_ms = int(time.time() * 1000) if at_ms is None else int(at_ms)
        event = run_event(self._route, state, told.term, at_ms, told.totals)
        view.log.check_held()
        try:
            with edge("lineage.tell", self._receiver.place):
                self._receiver.send(event)
        except OSError as error:
            raise Retriable(
                f"was not sent: {error.strerror or type(error).__name__}",
                where=self._receiver.place,
                hint="see `lineage` in the job file",
            ) from None
        self._storage.overwrite(self._path, encode(told))
        self._told = self._observed = told


def _with_swap(totals: Totals, seq: int, body: SwapRecord, topics: tuple[str, ...]) -> Totals:
    """Totals with the rows that a unit was computed to, and what it was computed from."""
    files = [file for each in body.partitions for file in each.added]
    read = {topics[0]: int(body.counts.read)} if body.inputs and topics else {}
    rows = sum(int(file.rows) for file in files)
    size_bytes = sum(int(file.size_bytes) for file in files)
    found = totals.plus(read, rows, size_bytes, len(files))
    # A table without a ledger has no slots.
    newest = max((each.slot for each in body.inputs if is_uuid(each.ledger)), default=-1)
    slots = dict(found.slots)
    if read and newest >= 0:
        slots[topics[0]] = max(newest, slots.get(topics[0], newest))
    return replace(found, slots=slots, slot=seq)


def _with(totals: Totals, record: Record, topics: tuple[str, ...] = ()) -> Totals:
    """Totals with the rows of a record.

    Args:
        totals: Totals of the records before.
        record: The record.
        topics: What the route reads.
    """
    body = record.body
    if isinstance(body, SwapRecord):
        return _with_swap(totals, record.seq, body, topics)
    if not isinstance(body, DataRecord | LaneDataRecord):
        return totals
    read: Counter[str] = Counter()
    if isinstance(body, DataRecord):
        # A lane reads dirty rows, which were counted as read before.
        for each in body.ranges:
            read[each.topic] += int(each.rows)
    size_bytes = sum(int(file.size_bytes) for file in body.files)
    rows = sum(int(file.rows) for file in body.files)
    return totals.plus(read, rows, size_bytes, len(body.files))
