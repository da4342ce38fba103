"""What the driver asks name servers and brokers: what there is, where logs begin and end."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Final

from sluiceway.errors import SourceUnavailableError
from sluiceway.sources.contract import (
    DiscoveredPartition,
    LogBounds,
    SourceClient,
    SourceIdentity,
    SourcePartition,
)
from sluiceway.sources.rocketmq.brokers import Brokers, check_answer
from sluiceway.sources.rocketmq.codes import Answer, Ask
from sluiceway.sources.rocketmq.frames import Reply
from sluiceway.sources.rocketmq.messages import read_messages
from sluiceway.sources.rocketmq.options import RocketMqOptions
from sluiceway.sources.rocketmq.pulls import pull_fields, queue_fields
from sluiceway.sources.rocketmq.routes import queue_of

_REPORT_TIMEOUT_S: Final = 5.0


class RocketMqSourceClient(SourceClient):
    """The driver's view of one cluster. Used by one thread, but for `report`.

    Args:
        options: How it is reached.
        request_timeout_s: Longest time that a call blocks.
    """

    def __init__(self, options: RocketMqOptions, request_timeout_s: float) -> None:
        self._brokers = Brokers(options, request_timeout_s)
        # Reports of several routes come at once, beside all else.
        self._report_lock = Lock()
        self._reporting = Brokers(options, min(request_timeout_s, _REPORT_TIMEOUT_S))
        self._reported: dict[tuple[str, SourcePartition], int] = {}

    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        """Describe all queues of the topics that can be read; see the contract.

        RocketMQ gives topics no ids. One that was deleted and created again is told by its rows:
        `SplitEnd.leader_epoch` is a mark of the last row, which the next reader compares.

        Raises:
            SourceUnavailableError: No name server answers, or no broker has the topic now.
            TopicNotFoundError: Brokers are there, and none has the topic.
        """
        return tuple(
            DiscoveredPartition(partition, SourceIdentity(cluster, topic), leader_epoch=None)
            for topic in sorted(set(topics))
            for partition, cluster in self._brokers.route(topic).partitions(topic)
        )

    def list_topics(self) -> tuple[str, ...]:
        """Names of all topics but RocketMQ's own; see the contract.

        Raises:
            SourceUnavailableError: No name server answers.
        """
        return tuple(self._brokers.topics())

    def bounds(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        """Read first and last offsets of queues from their masters, all at once.

        Of a broker whose master does not answer there are none: how far a replica is says nothing
        about what was committed.

        Raises:
            SourceUnavailableError: No master answers.
        """
        asked = [
            (queue_of(one)[0], code, queue_fields(one))
            for one in partitions
            for code in (Ask.MIN_OFFSET, Ask.MAX_OFFSET)
        ]
        replies, failures = self._brokers.try_brokers(asked)
        found = {}
        for index, one in enumerate(partitions):
            first, last = replies.get(2 * index), replies.get(2 * index + 1)
            if first is None or last is None:
                continue
            check_answer(first, str(one))
            check_answer(last, str(one))
            # Rows that come between the two answers are below neither.
            end = max(last.number("offset"), 0)
            start = min(max(first.number("offset"), 0), end)
            found[one] = LogBounds(start, end, end)
        if not found:
            for failure in failures.values():
                raise failure
        return found

    def offsets_at(
        self, partitions: Sequence[SourcePartition], timestamp_ms: int
    ) -> dict[SourcePartition, int]:
        """First offset whose store time is >= `timestamp_ms`; the end offset when none is.

        A broker's own search gives the row before in some releases, so its answer is where the
        search of the client begins.

        Raises:
            SourceUnavailableError: A master does not answer.
        """
        bounds = self.bounds(partitions)
        missing = [one for one in partitions if one not in bounds]
        if missing:
            raise SourceUnavailableError("its master does not answer", where=str(missing[0]))
        replies = self._ask(
            partitions,
            Ask.SEARCH_BY_TIME,
            lambda one: {**queue_fields(one), "timestamp": timestamp_ms},
        )
        found = {}
        for one, reply in zip(partitions, replies, strict=True):
            check_answer(reply, str(one))
            place = bounds[one]
            found[one] = self._first_not_before(one, place, reply.number("offset"), timestamp_ms)
        return found

    def committed(
        self, group: str, partitions: Sequence[SourcePartition]
    ) -> dict[SourcePartition, int]:
        """Read a consumer group's offsets, without joining it; see the contract.

        Raises:
            SourceUnavailableError: A master does not answer.
        """
        replies = self._ask(
            partitions,
            Ask.QUERY_OFFSET,
            lambda one: {
                **queue_fields(one),
                "consumerGroup": group,
                # Newer brokers take an unknown group for one at 0 otherwise.
                "setZeroIfNotFound": False,
            },
        )
        found = {}
        for one, reply in zip(partitions, replies, strict=True):
            if reply.code == Answer.QUERY_NOT_FOUND:
                continue
            check_answer(reply, str(one))
            if (offset := reply.number("offset")) >= 0:
                found[one] = offset
        return found

    def report(self, group: str, ends: Mapping[SourcePartition, int]) -> None:
        """Tell RocketMQ's tools how far the ledger is, without joining the group.

        Offsets that do not rise over what this object reported are left out.

        Raises:
            SourceUnavailableError: A master does not answer.
        """
        with self._report_lock:
            self._report(group, ends)

    def close(self) -> None:
        """Release connections. Safe to repeat."""
        self._brokers.close()
        with self._report_lock:
            self._reporting.close()

    def _report(self, group: str, ends: Mapping[SourcePartition, int]) -> None:
        risen = {
            one: end for one, end in ends.items() if end > self._reported.get((group, one), -1)
        }
        topics = {one.topic for one in risen}
        for topic in sorted(topics - {one.topic for _, one in self._reported}):
            self._reporting.route(topic)
        replies = self._update(group, risen)
        missing = {
            queue_of(one)[0]: one
            for one, reply in zip(risen, replies, strict=True)
            if reply.code == Answer.NO_SUCH_GROUP
        }
        if missing:
            self._make_known(group, missing)
            replies = self._update(group, risen)
        for (one, end), reply in zip(risen.items(), replies, strict=True):
            check_answer(reply, str(one))
            self._reported[group, one] = end

    def _update(self, group: str, ends: Mapping[SourcePartition, int]) -> Sequence[Reply]:
        return self._reporting.call_brokers(
            [
                (
                    queue_of(one)[0],
                    Ask.UPDATE_OFFSET,
                    {**queue_fields(one), "consumerGroup": group, "commitOffset": end},
                )
                for one, end in ends.items()
            ]
        )

    def _make_known(self, group: str, queues: Mapping[str, SourcePartition]) -> None:
        """Pull nothing in the group's name: a broker that makes groups by itself makes it then."""
        for broker, one in queues.items():
            fields = pull_fields(one, 0, wait_ms=0, messages=1)
            self._reporting.call_broker(broker, Ask.PULL, {**fields, "consumerGroup": group})

    def _ask(
        self,
        partitions: Iterable[SourcePartition],
        code: Ask,
        fields: Callable[[SourcePartition], Mapping[str, object]],
    ) -> Sequence[Reply]:
        return self._brokers.call_brokers(
            [(queue_of(one)[0], code, fields(one)) for one in partitions]
        )

    def _first_not_before(
        self, partition: SourcePartition, place: LogBounds, guess: int, timestamp_ms: int
    ) -> int:
        """The first row that is not older, by looking at rows from the broker's guess on."""
        low, high = place.start_offset, place.end_offset
        probe = min(max(guess, low), high - 1)
        while low < high:
            stored_ms = self._stored_ms(partition, probe)
            if stored_ms is None or stored_ms < timestamp_ms:
                low = probe + 1
                # The guess is most often the row before.
                probe = low if probe == guess and low < high else (low + high) // 2
            else:
                high = probe
                probe = high - 1 if probe == guess and low < high else (low + high) // 2
        return low

    def _stored_ms(self, partition: SourcePartition, offset: int) -> int | None:
        """Store time of one row; None when retention took it meanwhile."""
        broker, _ = queue_of(partition)
        reply = self._brokers.call_broker(
            broker, Ask.PULL, pull_fields(partition, offset, wait_ms=0, messages=1)
        )
        if reply.code == Answer.PULL_OFFSET_MOVED:
            return None
        check_answer(reply, str(partition))
        rows = [each for each in read_messages(reply.body) if each.offset >= offset]
        if not rows:
            raise SourceUnavailableError(f"offset {offset} has no row", where=str(partition))
        return rows[0].stored_ms
