"""What the driver asks name servers and brokers: what there is, where logs begin and end."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Final

from sluiceway.errors import SourceUnavailableError, UnhealthyEnvironmentError
from sluiceway.sources.contract import (
    DiscoveredPartition,
    LogBounds,
    SourceClient,
    SourceIdentity,
    SourcePartition,
)
from sluiceway.sources.rocketmq.brokers import Brokers, check_answer
from sluiceway.sources.rocketmq.codes import Ask, ResponseCode
from sluiceway.sources.rocketmq.frames import Reply
from sluiceway.sources.rocketmq.messages import read_messages
from sluiceway.sources.rocketmq.options import RocketMqOptions
from sluiceway.sources.rocketmq.pulled import pull_fields, queue_fields
from sluiceway.sources.rocketmq.routes import MASTER, queue_of

_ENDS: Final = (Ask.MIN_OFFSET, Ask.MAX_OFFSET)
_REPORT_TIMEOUT_S: Final = 5.0
# What took longer is not asked again at once: it would hold up brokers that answer.
_SLOW_S: Final = 1.0
_SHUN_TIMES: Final = 10
_LONGEST_SHUN_S: Final = 10.0


class RocketMqSourceClient(SourceClient):
    """The driver's view of one cluster. Used by one thread, except `report`.

    Args:
        options: How it is reached.
        request_timeout_s: Longest time that a call blocks.
    """

    def __init__(self, options: RocketMqOptions, request_timeout_s: float) -> None:
        self._brokers = Brokers(options, request_timeout_s)
        # Reports of several routes come at once, while all else goes on.
        self._report_lock = Lock()
        self._reporting = Brokers(options, min(request_timeout_s, _REPORT_TIMEOUT_S))
        self._reported: dict[tuple[str, SourcePartition], int] = {}
        # Until when a broker's master, by name, or a replica, by address, is left alone.
        self._shunned: dict[str, float] = {}

    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        """Describe all queues of the topics that can be read; see the contract.

        RocketMQ gives topics no ids. The rows show that one was deleted and created again:
        `SplitEnd.leader_epoch` is a mark of the last row, which the next reader compares.

        Raises:
            SourceUnavailableError: No name server answers, or no broker has the topic now.
            TopicNotFoundError: Brokers are there, and none has the topic.
        """
        found = tuple(
            DiscoveredPartition(partition, SourceIdentity(cluster, topic), leader_epoch=None)
            for topic in sorted(set(topics))
            for partition, cluster in self._brokers.route(topic).partitions(topic)
        )
        # A topic's route may give a replica that acts as master the master's number.
        self._brokers.registered()
        return found

    def list_topics(self) -> tuple[str, ...]:
        """Names of all topics but RocketMQ's own; see the contract.

        Each broker and cluster has topics that are called after it.

        Raises:
            SourceUnavailableError: No name server answers.
        """
        brokers = self._brokers.registered()
        clusters = {place.cluster for place in brokers.values()}
        own = {*brokers, *clusters, *(f"{name}_REPLY_TOPIC" for name in clusters)}
        return tuple(name for name in self._brokers.topics() if name not in own)

    def bounds(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        """Read first and last offsets of queues from their masters, all at once.

        Queues whose master does not answer have none: how far a replica is says nothing
        about what was committed. A master for which that took long is left alone for a while.

        Raises:
            SourceUnavailableError: No master answers.
        """
        own = [one for one in partitions if self._is_awake(queue_of(one)[0])]
        replies, failures = self._ask_masters(
            [(queue_of(one)[0], code, queue_fields(one)) for one in own for code in _ENDS]
        )
        found = {}
        for index, one in enumerate(own):
            first, last = replies.get(2 * index), replies.get(2 * index + 1)
            if first is not None and last is not None:
                found[one] = _bounds(one, first, last)
        if not found:
            for failure in failures.values():
                raise failure
            if partitions:
                raise SourceUnavailableError(
                    "its master did not answer a moment ago; it is asked again",
                    where=str(partitions[0]),
                )
        return found

    def copies(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        """Read what replicas have, as far as they let themselves be read; see the contract."""
        by_broker: dict[str, list[SourcePartition]] = {}
        for one in partitions:
            by_broker.setdefault(queue_of(one)[0], []).append(one)
        found: dict[SourcePartition, LogBounds] = {}
        for broker, own in by_broker.items():
            for address in filter(self._is_awake, self._brokers.replicas(broker)):
                began_s = time.monotonic()
                try:
                    found |= self._copies_at(address, own)
                except (SourceUnavailableError, UnhealthyEnvironmentError):
                    self._shun(address, time.monotonic() - began_s)
                else:
                    break
        return found

    def gone(self, partitions: Sequence[SourcePartition]) -> frozenset[SourcePartition]:
        """The partitions whose topic a master says it does not have; see the contract.

        With a broker its topics leave the list, and a list that was read before it came back says
        nothing: only the broker itself knows.

        Raises:
            SourceUnavailableError: No name server answers.
        """
        brokers = self._brokers.registered()
        asked = [
            one
            for one in partitions
            if (place := brokers.get(queue_of(one)[0])) is not None
            and MASTER in place.addresses
            and self._is_awake(queue_of(one)[0])
        ]
        replies = self._ask_masters(
            [
                (queue_of(one)[0], Ask.PULL, pull_fields(one, 0, wait_ms=0, messages=1))
                for one in asked
            ]
        )[0]
        codes = {one: replies[index].code for index, one in enumerate(asked) if index in replies}
        return frozenset(one for one, code in codes.items() if code == ResponseCode.TOPIC_NOT_EXIST)

    def _ask_masters(
        self, asked: Sequence[tuple[str, Ask, Mapping[str, object]]]
    ) -> tuple[dict[int, Reply], dict[str, SourceUnavailableError]]:
        """As `try_brokers`; a master that took long to fail is left alone for a while."""
        began_s = time.monotonic()
        replies, failures = self._brokers.try_brokers(asked)
        for broker in failures:
            self._shun(broker, time.monotonic() - began_s)
        return replies, failures

    def _copies_at(
        self, address: str, own: Sequence[SourcePartition]
    ) -> dict[SourcePartition, LogBounds]:
        replies = self._brokers.call_address(
            address, [(code, queue_fields(one)) for one in own for code in _ENDS]
        )
        places = {
            one: _bounds(one, replies[2 * index], replies[2 * index + 1])
            for index, one in enumerate(own)
        }
        for one, place in places.items():
            if place.start_offset < place.end_offset:
                # A replica that is not to be read returns its offsets all the same.
                asked = pull_fields(one, place.end_offset - 1, wait_ms=0, messages=1)
                (reply,) = self._brokers.call_address(address, [(Ask.PULL, asked)])
                check_answer(reply, address)
                break
        return places

    def _is_awake(self, who: str) -> bool:
        return self._shunned.get(who, 0.0) <= time.monotonic()

    def _shun(self, who: str, took_s: float) -> None:
        if took_s >= _SLOW_S:
            self._shunned[who] = time.monotonic() + min(_SHUN_TIMES * took_s, _LONGEST_SHUN_S)

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
            if reply.code == ResponseCode.QUERY_NOT_FOUND:
                continue
            check_answer(reply, str(one))
            if (offset := reply.number("offset")) >= 0:
                found[one] = offset
        return found

    def report(self, group: str, ends: Mapping[SourcePartition, int]) -> None:
        """Report to RocketMQ's tools how far the ledger is, without joining the group.

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
        for some in self._in_turns(group, risen):
            self._report_some(group, some)

    def _in_turns(
        self, group: str, risen: Mapping[SourcePartition, int]
    ) -> Iterator[Mapping[SourcePartition, int]]:
        """For groups and topics that a broker does not know, send one queue before the others.

        Brokers make the table of a group's offsets with the first of them. Of two that come at
        once each makes one, and the offset in the other is lost.
        """
        known = {(one.topic, queue_of(one)[0]) for of, one in self._reported if of == group}
        alone: dict[SourcePartition, int] = {}
        others: dict[SourcePartition, int] = {}
        for one, end in risen.items():
            place = one.topic, queue_of(one)[0]
            (others if place in known else alone)[one] = end
            known.add(place)
        yield from filter(None, (alone, others))

    def _report_some(self, group: str, risen: Mapping[SourcePartition, int]) -> None:
        replies = self._update(group, risen)
        missing = {
            queue_of(one)[0]: one
            for one, reply in zip(risen, replies, strict=True)
            if reply.code == ResponseCode.NO_SUCH_GROUP
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
        """The first row that is not older, by reading rows from the broker's guess on."""
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
        if reply.code == ResponseCode.PULL_OFFSET_MOVED:
            return None
        check_answer(reply, str(partition))
        rows = [each for each in read_messages(reply.body) if each.offset >= offset]
        if not rows:
            raise SourceUnavailableError(f"offset {offset} has no row", where=str(partition))
        return rows[0].stored_ms


def _bounds(partition: SourcePartition, first: Reply, last: Reply) -> LogBounds:
    """From the answers about both ends, the first end asked for first."""
    check_answer(first, str(partition))
    check_answer(last, str(partition))
    # Rows that come between the two answers are below neither.
    end = max(last.number("offset"), 0)
    return LogBounds(min(max(first.number("offset"), 0), end), end, end)
