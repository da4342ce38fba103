"""Reads splits inside a task: one pull under way for each queue, over one connection a broker."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from sluiceway.errors import (
    InvariantError,
    OffsetsLostError,
    SluicewayError,
    SourceUnavailableError,
    TaskFailedError,
)
from sluiceway.sources.contract import (
    Headers,
    RawRecords,
    SourceBatch,
    SourcePartition,
    Split,
    SplitEnd,
    SplitReader,
)
from sluiceway.sources.rocketmq.brokers import Brokers, answer_failure
from sluiceway.sources.rocketmq.codes import BUSY, Ask, ResponseCode
from sluiceway.sources.rocketmq.connection import Connection, wait_for_any
from sluiceway.sources.rocketmq.frames import Reply, WireError
from sluiceway.sources.rocketmq.messages import StoredMessage, read_messages
from sluiceway.sources.rocketmq.options import RocketMqOptions
from sluiceway.sources.rocketmq.pulled import PulledRows, pull_fields, pulled_rows, queue_fields
from sluiceway.sources.rocketmq.routes import MASTER, queue_of


class QueueBatch(SourceBatch):
    """Messages of one split.

    A message's keys (its property KEYS) are the row's key; its properties are the headers.

    Args:
        split_index: Which of the reader's splits.
        partition: The queue.
        messages: Offsets rising.
        record_time: Which of a message's times is the row's.
    """

    def __init__(
        self,
        split_index: int,
        partition: SourcePartition,
        messages: Sequence[StoredMessage],
        record_time: Literal["stored", "born"],
    ) -> None:
        self.split_index = split_index
        self.values = [each.body for each in messages]
        self.offsets = [each.offset for each in messages]
        self._partition = partition
        self._messages = messages
        self._record_time = record_time

    def timestamps_ms(self) -> Sequence[int | None]:
        """Store times, or the producers' times; see `RocketMqOptions.record_time`."""
        if self._record_time == "born":
            return [each.born_ms for each in self._messages]
        return [each.stored_ms for each in self._messages]

    def keys(self) -> Sequence[bytes | None]:
        """Keys of all rows."""
        return [each.property_bytes("KEYS") for each in self._messages]

    def headers(self) -> Sequence[Headers]:
        """Properties of all rows."""
        return [each.headers() for each in self._messages]

    def records(self, rows: Sequence[int]) -> RawRecords:
        """All that the queue has of these rows."""
        found = [self._messages[row] for row in rows]
        times = self.timestamps_ms()
        return RawRecords(
            topics=[self._partition.topic] * len(found),
            partitions=[self._partition.partition] * len(found),
            offsets=[each.offset for each in found],
            timestamps_ms=[times[row] for row in rows],
            keys=[each.property_bytes("KEYS") for each in found],
            values=[each.body for each in found],
            headers=[each.headers() for each in found],
        )


_TIMEOUT_S: Final = 5.0
# A broker checks requests that it keeps every five seconds.
_WAIT_MS: Final = 5_000
_SILENT_S: Final = 20.0
_GATHER_S: Final = 0.05
# In a backlog no reader waits for single rows, and what a read costs does not depend on its rows.
_GATHER_BACKLOG_S: Final = 0.5
_MAX_ROWS: Final = 10_000
_MAX_BYTES: Final = 16 << 20
_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 2.0
_ROUTE_AGAIN_S: Final = 1.0
# Who did not answer is asked again when ten times of what it took has gone by.
_SHUN_TIMES: Final = 10
_LONGEST_SHUN_S: Final = 10.0


@dataclass(slots=True)
class _Queue:
    """One split, as it is read.

    Attributes:
        next_offset: First offset that was not returned or gathered.
        rows: Rows that were returned or gathered.
        last_mark: Mark of the row below `next_offset`; None without one, or where a hole lies.
        check: Mark that the row below the next has to have; None when it is checked.
        requested: Where the pull under way begins; None when none is.
        sent_s: When it was sent.
        pause_s: How long to wait before the next one, and until when.
        pulled: Takes plain pulls where the native module is there; rows that `read` has not
            returned yet.
        gathered: Rows of pulls that were in doubt: after the rows of `pulled`, which has none.
        behind: The broker has more than was returned or gathered, as it last said.
        hole_end: A hole was met up to here, and is to be met again by a connection of its own.
    """

    index: int
    split: Split
    broker: str
    next_offset: int
    rows: int = 0
    last_mark: int | None = None
    check: int | None = None
    requested: int | None = None
    sent_s: float = 0.0
    pause_s: float = 0.0
    paused_until_s: float = 0.0
    pulled: PulledRows | None = None
    gathered: list[StoredMessage] = field(default_factory=list)
    gathered_bytes: int = 0
    behind: bool = False
    hole_end: int | None = None

    @property
    def done(self) -> bool:
        stop = self.split.stop_offset
        return stop is not None and self.next_offset >= stop

    @property
    def held(self) -> tuple[int, int]:
        """Rows that `read` has not returned, and bytes of their bodies."""
        if self.pulled is None or self.gathered:
            return len(self.gathered), self.gathered_bytes
        return len(self.pulled), self.pulled.body_bytes

    def pause(self, now_s: float) -> None:
        """Wait a little longer each time, until something comes."""
        self.pause_s = min(max(2 * self.pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
        self.paused_until_s = now_s + self.pause_s


class RocketMqSplitReader(SplitReader):
    """Pulls from masters; from a replica while its master is gone. Owned by one thread.

    Args:
        splits: Splits, at most one per source partition; of any topics.
        options: How the cluster is reached.
    """

    def __init__(self, splits: Sequence[Split], options: RocketMqOptions) -> None:
        self._options = options
        self._brokers = Brokers(options, _TIMEOUT_S)
        self._queues = [
            _Queue(
                index,
                split,
                queue_of(split.partition)[0],
                split.start_offset,
                check=split.leader_epoch if split.start_offset > 0 else None,
                # Tags are properties, which the native module does not read.
                pulled=None if options.tags else pulled_rows(split.partition),
            )
            for index, split in enumerate(splits)
        ]
        if len({split.partition for split in splits}) < len(splits):
            raise InvariantError("a task was given two splits of one source partition")
        self._under_way: dict[tuple[str, int], _Queue] = {}
        self._chosen: dict[str, tuple[Connection, int]] = {}
        self._shunned: dict[str, float] = {}
        self._had: set[str] = set()
        self._route_again_s = 0.0

    def read(self, timeout_s: float) -> list[SourceBatch]:
        """Return what has arrived; see the contract.

        A broker that is lost is searched for; until it is found no rows come.

        Raises:
            SourceUnavailableError: What a broker sends is not its protocol.
            OffsetsLostError: The wanted offset is out of range, or the row before is another.
            UnhealthyEnvironmentError: The login was refused.
            TaskFailedError: Offsets came that cannot be.
        """
        deadline_s = time.monotonic() + timeout_s
        until_s = deadline_s
        while not self.finished():
            self._ask()
            now_s = time.monotonic()
            if any(queue.held[0] for queue in self._queues):
                behind = any(queue.behind for queue in self._queues)
                until_s = min(until_s, now_s + (_GATHER_BACKLOG_S if behind else _GATHER_S))
            if now_s >= until_s or self._is_full():
                break
            self._receive(min(until_s - now_s, self._next_ask_s(now_s)))
        return self._make_batches()

    def finished(self) -> bool:
        """True when every split has a stop offset and has reached it."""
        return all(queue.done for queue in self._queues)

    def ends(self) -> tuple[SplitEnd, ...]:
        """How far each split was read, in the order of the splits."""
        return tuple(
            SplitEnd(
                end_offset=queue.next_offset,
                rows=queue.rows,
                gaps=queue.next_offset - queue.split.start_offset - queue.rows,
                leader_epoch=queue.last_mark,
            )
            for queue in self._queues
        )

    def close(self, *, reusable: bool) -> None:
        """Close all connections. Safe to repeat."""
        del reusable
        self._brokers.close()

    def _make_batches(self) -> list[SourceBatch]:
        batches: list[SourceBatch] = []
        for queue in self._queues:
            if queue.pulled:
                batches.append(queue.pulled.batch(queue.index, self._options.record_time))
            elif queue.gathered:
                batches.append(
                    QueueBatch(
                        queue.index,
                        queue.split.partition,
                        queue.gathered,
                        self._options.record_time,
                    )
                )
                queue.gathered, queue.gathered_bytes = [], 0
        return batches

    def _is_full(self) -> bool:
        held = [queue.held for queue in self._queues]
        return sum(n for n, _ in held) >= _MAX_ROWS or sum(b for _, b in held) >= _MAX_BYTES

    def _next_ask_s(self, now_s: float) -> float:
        waits = [
            q.paused_until_s - now_s for q in self._queues if q.requested is None and not q.done
        ]
        return max(0.001, min([_GATHER_S, *waits]))

    def _ask(self) -> None:
        """Have a pull under way for each queue that is not done and need not wait."""
        now_s = time.monotonic()
        for queue in self._queues:
            if queue.requested is not None and now_s - queue.sent_s > _SILENT_S:
                self._lose(self._chosen[queue.broker][0])
            if queue.done or queue.requested is not None or now_s < queue.paused_until_s:
                continue
            try:
                connection, _ = self._connection(queue.broker)
                offset = queue.next_offset - (queue.check is not None)
                fields = pull_fields(queue.split.partition, offset, wait_ms=_WAIT_MS)
                opaque = connection.send(Ask.PULL, fields)
            except SourceUnavailableError:
                self._forget(queue.broker)
                queue.pause(time.monotonic())
                continue
            queue.requested, queue.sent_s = offset, now_s
            self._under_way[connection.address, opaque] = queue

    def _connection(self, broker: str) -> tuple[Connection, int]:
        """The connection to a broker that is in use, else to its master, else to a replica."""
        chosen = self._chosen.get(broker)
        if chosen is not None:
            return chosen
        self._look_up()
        addresses = self._brokers.addresses(broker)
        failure = SourceUnavailableError("it is not registered now", where=f"broker {broker}")
        now_s = time.monotonic()
        for number in sorted(addresses):
            if self._shunned.get(addresses[number], 0.0) > now_s:
                continue
            began_s = time.monotonic()
            try:
                found = (self._brokers.connection(addresses[number]), number)
            except SourceUnavailableError as error:
                failure = error
                # A broker that swallows connections must not take the time of healthy brokers.
                ended_s = time.monotonic()
                shun_s = min(_SHUN_TIMES * (ended_s - began_s), _LONGEST_SHUN_S)
                self._shunned[addresses[number]] = ended_s + shun_s
                continue
            self._chosen[broker] = found
            self._check_again(broker)
            return found
        raise failure

    def _check_again(self, broker: str) -> None:
        """After a lost connection it may be another log: compare the last row that was read of it.

        Where this task has read none yet, that is the row below its start.
        """
        if broker in self._had:
            for queue in self._queues:
                if queue.broker == broker and queue.check is None:
                    has_read = queue.next_offset > queue.split.start_offset
                    queue.check = queue.last_mark if has_read else queue.split.leader_epoch
        self._had.add(broker)

    def _look_up(self) -> None:
        """Ask the name servers where brokers are, at most once a second.

        Silent brokers are asked more seldom, and their last answers go on to count.
        """
        now_s = time.monotonic()
        if now_s < self._route_again_s:
            return
        try:
            self._brokers.registered()
        except SourceUnavailableError:
            if not self._had:
                raise
        finally:
            ended_s = time.monotonic()
            took_s = _SHUN_TIMES * (ended_s - now_s)
            self._route_again_s = ended_s + min(max(_ROUTE_AGAIN_S, took_s), _LONGEST_SHUN_S)

    def _receive(self, timeout_s: float) -> None:
        connections = [each for each, _ in self._chosen.values()]
        wait_for_any(connections, timeout_s)
        for connection in connections:
            while (reply := self._next_reply(connection)) is not None:
                queue = self._under_way.pop((connection.address, reply.opaque), None)
                if queue is not None:
                    self._handle_reply(queue, reply)

    def _next_reply(self, connection: Connection) -> Reply | None:
        try:
            return connection.receive(0)
        except WireError:
            raise
        except SourceUnavailableError:
            self._lose(connection)
            return None

    def _handle_reply(self, queue: _Queue, reply: Reply) -> None:
        asked, queue.requested = queue.requested, None
        queue.behind = False
        is_replica = self._is_replica(queue.broker)
        if reply.code == ResponseCode.SUCCESS and asked is not None:
            queue.pause_s = 0.0
            if not _read_plain(queue, asked, reply.body):
                self._add_messages(queue, asked, read_messages(reply.body))
            told = "maxOffset" in reply.fields and not queue.done
            queue.behind = told and reply.number("maxOffset") > queue.next_offset
        elif reply.code == ResponseCode.PULL_NOT_FOUND and queue.check is None:
            # The end of the queue. A broker that has not kept the request wants no next one soon.
            if time.monotonic() - queue.sent_s < _FIRST_PAUSE_S:
                queue.pause(time.monotonic())
        elif reply.code in BUSY or reply.code in (
            ResponseCode.PULL_RETRY,
            ResponseCode.PULL_NOT_FOUND,
        ):
            queue.pause(time.monotonic())
            if is_replica and reply.code == ResponseCode.PULL_RETRY:
                self._shun(queue.broker)
        elif reply.code == ResponseCode.PULL_OFFSET_MOVED:
            self._handle_moved(queue)
        else:
            raise self._refusal(queue, reply)

    def _refusal(self, queue: _Queue, reply: Reply) -> SluicewayError:
        where = str(queue.split.partition)
        if reply.code in (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.INVALID_PARAMETER):
            return TaskFailedError(f"the broker does not have it now: {reply.remark}", where=where)
        return answer_failure(reply, where)

    def _add_messages(self, queue: _Queue, asked: int, messages: Sequence[StoredMessage]) -> None:
        rows = _from_offset(asked, messages)
        _assert_rising(queue, asked, rows)
        if queue.check is not None:
            rows = self._check_before(queue, rows)
        stop = queue.split.stop_offset
        kept: list[StoredMessage] = []
        for row in rows:
            if queue.done:
                break
            if row.offset > queue.next_offset and not self._is_hole(queue, row.offset):
                break
            if stop is not None and row.offset >= stop:
                queue.next_offset, queue.last_mark = stop, None
                break
            queue.next_offset, queue.last_mark = row.offset + 1, row.mark
            kept.append(row)
        tags = self._options.tags
        if tags:
            kept = [row for row in kept if (row.property_bytes("TAGS") or b"") in tags]
        queue.rows += len(kept)
        if queue.pulled:
            # What came before them stays before them, in one batch.
            queue.gathered_bytes += queue.pulled.body_bytes
            queue.gathered += queue.pulled.messages()
        queue.gathered += kept
        queue.gathered_bytes += sum(len(row.body) for row in kept)

    def _check_before(self, queue: _Queue, rows: list[StoredMessage]) -> list[StoredMessage]:
        """Compare the row below the start with the mark that the ledger has of it."""
        start, wanted = queue.next_offset, queue.check
        is_told = bool(rows) and rows[0].offset == start - 1
        if self._is_replica(queue.broker) and not (is_told and rows[0].mark == wanted):
            # It may have a past of its own; what the log has its master alone can say.
            queue.pause(time.monotonic())
            self._shun(queue.broker)
            return []
        queue.check = None
        if is_told:
            if rows[0].mark != wanted:
                first, last = self._bounds(queue)
                raise OffsetsLostError(
                    f"the row at offset {start - 1} is not the one that was read there: the topic "
                    "was created again, or the broker lost rows and others came in their place",
                    where=str(queue.split.partition),
                    hint="`sluiceway explain SW455` has the ways out",
                ).with_report(
                    {
                        "committed_end": start,
                        "leader_epoch": wanted,
                        "found": rows[0].mark,
                        # It is unknown where the other rows begin: all that exists is read.
                        "cut_at": first,
                        "log_start": first,
                        "log_end": last,
                    }
                )
            return rows[1:]
        return rows

    def _is_hole(self, queue: _Queue, end: int) -> bool:
        """Whether a hole was met twice, by two connections; the first time it is read again.

        What a replica lacks its master may have: it has lost more, or copied less.
        """
        if self._is_replica(queue.broker):
            self._shun(queue.broker)
            return False
        if queue.hole_end == end:
            queue.hole_end = None
            return True
        queue.hole_end = end
        self._lose(self._chosen[queue.broker][0])
        return False

    def _handle_moved(self, queue: _Queue) -> None:
        """The broker does not have the offset: by its bounds it is gone, or comes later."""
        queue.pause(time.monotonic())
        if self._is_replica(queue.broker):
            # It lags its master, which says nothing about the log.
            self._shun(queue.broker)
            return
        first, last = self._bounds(queue)
        offset = queue.next_offset
        if queue.check is not None and offset == first:
            # The row below was taken by retention; there is nothing to compare any more.
            queue.check = None
        elif not first <= offset <= last:
            raise OffsetsLostError(
                f"offset {offset} is gone: the log runs from {first} to {last}",
                where=str(queue.split.partition),
                hint="retention or truncation took it; `sluiceway explain SW455` has the ways out",
            ).with_report({"log_start": first, "log_end": last})

    def _bounds(self, queue: _Queue) -> tuple[int, int]:
        fields = queue_fields(queue.split.partition)
        asking = Brokers(self._options, _TIMEOUT_S)
        try:
            first, last = asking.call_brokers(
                [(queue.broker, Ask.MIN_OFFSET, fields), (queue.broker, Ask.MAX_OFFSET, fields)]
            )
            return max(first.number("offset"), 0), max(last.number("offset"), 0)
        finally:
            asking.close()

    def _is_replica(self, broker: str) -> bool:
        """Whether it is not a broker's master that is read now."""
        return broker in self._chosen and self._chosen[broker][1] != MASTER

    def _shun(self, broker: str) -> None:
        chosen = self._chosen.get(broker)
        if chosen is not None:
            self._shunned[chosen[0].address] = time.monotonic() + _ROUTE_AGAIN_S
            self._lose(chosen[0])

    def _forget(self, broker: str) -> None:
        chosen = self._chosen.get(broker)
        if chosen is not None:
            self._lose(chosen[0])

    def _lose(self, connection: Connection) -> None:
        """Give up a connection; what was under way on it is asked for again."""
        self._brokers.drop(connection)
        for broker in [b for b, (each, _) in self._chosen.items() if each is connection]:
            del self._chosen[broker]
        for key in [each for each in self._under_way if each[0] == connection.address]:
            queue = self._under_way.pop(key)
            queue.requested = None
            queue.pause(time.monotonic())


def _read_plain(queue: _Queue, asked: int, pull: bytes) -> bool:
    """Have the native module take a pull; False where messages have to be read one by one."""
    if queue.pulled is None or queue.gathered or asked != queue.next_offset:
        return False
    found = queue.pulled.read(pull, asked, queue.split.stop_offset)
    if found is None:
        return False
    taken, queue.last_mark = found
    queue.next_offset += taken
    queue.rows += taken
    queue.hole_end = None
    return True


def _from_offset(asked: int, messages: Sequence[StoredMessage]) -> list[StoredMessage]:
    """The messages from an offset on; a batch comes as it is stored, with earlier ones."""
    first = next((each for each in messages if each.offset >= asked), None)
    if first is None:
        return list(messages)
    return [each for each in messages if each.offset >= asked or each.physical != first.physical]


def _assert_rising(queue: _Queue, asked: int, rows: Sequence[StoredMessage]) -> None:
    last = asked - 1
    _, number = queue_of(queue.split.partition)
    for row in rows:
        if row.topic != queue.split.partition.topic or row.queue != number:
            raise TaskFailedError(
                f"a message of {row.topic}, queue {row.queue} came",
                where=str(queue.split.partition),
            )
        if row.offset <= last:
            raise TaskFailedError(
                f"offset {row.offset} came after {last}", where=str(queue.split.partition)
            )
        last = row.offset
