"""Keeps consumers between epochs: a new one costs connections and the prefetched data.

A consumer is used again only when what it will deliver next is known. A consumer ahead of the
ledger (its epoch was discarded) is closed, never sought: what it holds is not to be trusted.
"""

import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from sluiceway.errors import JobFileError
from sluiceway.observe.failpoints import edge
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.sources.kafka.failures import BrokerTrouble, kafka_error, task_failure
from sluiceway.sources.kafka.native_consumer import NativeConsumer, native_consumer
from sluiceway.sources.kafka.settings import consumer_settings

MAX_CONSUMERS: Final = 4
IDLE_CLOSE_S: Final = 30.0
_NO_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class ConsumerKey:
    """What must be equal for a consumer to be used again.

    Attributes:
        properties: The user's client properties, by name. May hold secrets: never logged.
        owner: Ledger uuid and term; a driver of another term gets consumers of its own.
    """

    bootstrap_servers: str
    properties: tuple[tuple[str, str], ...]
    partitions: frozenset[SourcePartition]
    owner: str

    def __repr__(self) -> str:
        return f"ConsumerKey({self.bootstrap_servers!r}, {sorted(self.partitions)}, {self.owner!r})"

    def same_place(self, other: "ConsumerKey") -> bool:
        """Whether the other key differs at most in its owner."""
        return (self.bootstrap_servers, self.properties, self.partitions) == (
            other.bootstrap_servers,
            other.properties,
            other.partitions,
        )


@dataclass(frozen=True, slots=True)
class ReuseCounts:
    """How leases of this process were served.

    Attributes:
        reused: By a kept consumer as it was.
        reassigned: By a kept consumer that lagged and got new offsets.
        created: By a new consumer, for any reason; the next three are the reasons that matter.
        closed_ahead: Kept consumers closed because an epoch of theirs was discarded.
        closed_owner: Kept consumers closed because the ledger or its term is another.
        closed_behind: Kept consumers closed because others have read on, and a new leader's log is
            to be held against a leader epoch.
    """

    reused: int = 0
    reassigned: int = 0
    created: int = 0
    closed_ahead: int = 0
    closed_owner: int = 0
    closed_behind: int = 0


@dataclass(slots=True)
class LeasedConsumer:
    """A consumer that one reader owns until it gives it back.

    Attributes:
        trouble: What the library said about its connections since the lease began.
        next_offsets: Where the consumer goes on, per log, as its last user left it; a log that
            was taken off the consumer has none.
        idle_since_s: Monotonic time of the last return.
    """

    consumer: Consumer | NativeConsumer
    key: ConsumerKey
    trouble: BrokerTrouble
    next_offsets: dict[SourcePartition, int]
    idle_since_s: float = 0.0


class ConsumerCache:
    """Consumers at rest, of this process only. Safe for several threads.

    Args:
        max_consumers: At rest at one time; the one that rests longest is closed first.
        idle_close_s: A consumer at rest for this long is closed.
    """

    def __init__(
        self, *, max_consumers: int = MAX_CONSUMERS, idle_close_s: float = IDLE_CLOSE_S
    ) -> None:
        self._max_consumers = max_consumers
        self._idle_close_s = idle_close_s
        self._lock = threading.Lock()
        self._resting: list[LeasedConsumer] = []
        self._timer: threading.Timer | None = None
        self._counts = dict.fromkeys(ReuseCounts.__slots__, 0)
        self._holes: dict[str, set[SourcePartition]] = {}
        self._pid = os.getpid()
        self._inherited: list[LeasedConsumer] = []

    def acquire(self, key: ConsumerKey, splits: Iterable[Split]) -> LeasedConsumer:
        """Lend a consumer that delivers each split from its start. Called once a reader.

        Args:
            key: Its partitions are the splits' partitions.
            splits: What will be read.

        Raises:
            JobFileError: The library refuses the client properties.
            TaskFailedError: The library refuses the assignment.
        """
        wanted = {split.partition: split for split in splits}
        leased = self._pop_fit(key, wanted)
        if leased is not None and all(
            leased.next_offsets.get(partition) == split.start_offset
            for partition, split in wanted.items()
        ):
            self._count("reused")
            return leased
        if leased is not None and _has_to_check(leased, wanted):
            self.discard(leased)
            leased = None
            self._count("closed_behind")
        self._count("created" if leased is None else "reassigned")
        leased = leased or _new_consumer(key)
        try:
            with edge("kafka.assign", key.bootstrap_servers):
                _assign(leased, wanted)
        except KafkaException as failure:
            self.discard(leased)
            raise task_failure(kafka_error(failure), key.bootstrap_servers) from failure
        return leased

    def release(self, leased: LeasedConsumer, next_offsets: Mapping[SourcePartition, int]) -> None:
        """Take a consumer back that delivered exactly the rows below `next_offsets`.

        Args:
            leased: No longer used by the caller.
            next_offsets: Per log that is still assigned, where the next range begins.
        """
        leased.next_offsets = dict(next_offsets)
        leased.idle_since_s = time.monotonic()
        with self._lock:
            self._disown_inherited()
            self._resting.append(leased)
            surplus = self._resting[: -self._max_consumers]
            self._resting = self._resting[-self._max_consumers :]
            self._start_timer()
        _close_all(surplus)

    def discard(self, leased: LeasedConsumer) -> None:
        """Close a consumer that cannot be trusted any more, after an exception above all."""
        _close_all([leased])

    def logs_with_holes(self, bootstrap_servers: str) -> set[SourcePartition]:
        """Logs of which this process knows that offsets are missing; whoever finds one adds it."""
        with self._lock:
            return self._holes.setdefault(bootstrap_servers, set())

    def reuse_counts(self) -> ReuseCounts:
        """How leases were served since this process began."""
        with self._lock:
            return ReuseCounts(**self._counts)

    def close_idle(self) -> None:
        """Close what has rested too long. Called by a timer of the cache."""
        with self._lock:
            self._disown_inherited()
            self._timer = None
            oldest_s = time.monotonic() - self._idle_close_s
            idle = [one for one in self._resting if one.idle_since_s <= oldest_s]
            self._resting = [one for one in self._resting if one.idle_since_s > oldest_s]
            if self._resting:
                self._start_timer()
        _close_all(idle)

    def close(self) -> None:
        """Close everything at rest. Safe to repeat; the cache can be used further."""
        with self._lock:
            self._disown_inherited()
            resting, self._resting = self._resting, []
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        _close_all(resting)

    def _pop_fit(
        self, key: ConsumerKey, wanted: Mapping[SourcePartition, Split]
    ) -> LeasedConsumer | None:
        """Take a fit consumer out of the cache; close the unfit ones of the same place."""
        found = None
        unfit = []
        with self._lock:
            self._disown_inherited()
            for leased in [one for one in self._resting if one.key.same_place(key)]:
                self._resting.remove(leased)
                if leased.key.owner != key.owner:
                    self._counts["closed_owner"] += 1
                    unfit.append(leased)
                elif _is_ahead(leased, wanted):
                    self._counts["closed_ahead"] += 1
                    unfit.append(leased)
                elif found is None:
                    found = leased
                else:
                    unfit.append(leased)
        _close_all(unfit)
        if found is not None:
            found.trouble.clear()
        return found

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(self._idle_close_s, self.close_idle)
            self._timer.daemon = True
            self._timer.start()

    def _disown_inherited(self) -> None:
        """After a fork: the parent's consumers have no threads here; never touch or free them."""
        if self._pid != os.getpid():
            self._inherited += self._resting
            self._resting = []
            self._timer = None
            self._counts = dict.fromkeys(ReuseCounts.__slots__, 0)
            self._pid = os.getpid()


_CACHE: Final = ConsumerCache()


def process_cache() -> ConsumerCache:
    """The cache that all readers of this process share; it holds no consumer before the first."""
    return _CACHE


def _is_ahead(leased: LeasedConsumer, wanted: Mapping[SourcePartition, Split]) -> bool:
    return any(
        offset > wanted[partition].start_offset for partition, offset in leased.next_offsets.items()
    )


def _has_to_check(leased: LeasedConsumer, wanted: Mapping[SourcePartition, Split]) -> bool:
    """Whether a leader epoch has to be held against a log at another offset than it stands.

    The library does so when it meets a log and when its leader changes. It does not when it is
    assigned another offset of a known log.
    """
    return any(
        split.new_leader and leased.next_offsets.get(partition) != split.start_offset
        for partition, split in wanted.items()
    )


def _new_consumer(key: ConsumerKey) -> LeasedConsumer:
    trouble = BrokerTrouble()
    settings = consumer_settings(key.bootstrap_servers, dict(key.properties), trouble)
    try:
        consumer = native_consumer(settings) or Consumer(settings)
    except KafkaException as failure:
        raise JobFileError(
            f"Kafka properties are not valid: {kafka_error(failure).str()}",
            where=key.bootstrap_servers,
        ) from failure
    return LeasedConsumer(consumer, key, trouble, {})


def _assign(leased: LeasedConsumer, wanted: Mapping[SourcePartition, Split]) -> None:
    leased.consumer.assign(
        [
            TopicPartition(
                partition.topic,
                partition.partition,
                split.start_offset,
                leader_epoch=_NO_EPOCH if split.leader_epoch is None else split.leader_epoch,
            )
            for partition, split in wanted.items()
        ]
    )


def _close_all(leases: Iterable[LeasedConsumer]) -> None:
    for leased in leases:
        leased.consumer.close()
