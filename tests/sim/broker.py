"""The brokers: logs that grow, have holes, are cut at their beginning; and the driver's view."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sluiceway.errors import SourceUnavailableError, TopicNotFoundError
from sluiceway.sources.contract import (
    DiscoveredPartition,
    LogBounds,
    SourceClient,
    SourceIdentity,
    SourcePartition,
)

CLUSTER = "cluster"
CLEAN, DIRTY, FILTERED, SKIPPED = "clean", "dirty", "filtered", "skipped"
_OUTCOMES = (CLEAN,) * 7 + (DIRTY, FILTERED, SKIPPED)
_HOURS = 3


@dataclass(slots=True)
class Log:
    """One source partition.

    Attributes:
        rows: By offset, whether a committed record stands there.
        first: First offset that can be read.
        open_since: First offset of a transaction that is still open; None without one.
        deleted: Below it retention has deleted records, at any time.
        appended: By offset, when it came.
    """

    rows: list[bool] = field(default_factory=list)
    appended: list[float] = field(default_factory=list)
    first: int = 0
    open_since: int | None = None

    @property
    def stable_end(self) -> int:
        """First offset that cannot be read yet."""
        return len(self.rows) if self.open_since is None else self.open_since


def outcome(partition: int, offset: int) -> str:
    """What has to become of a record."""
    return _OUTCOMES[(partition * 7919 + offset * 2654435761 // 64) % len(_OUTCOMES)]


def repaired(partition: int, offset: int) -> str:
    """What becomes of a dirty record when it is read with the repaired job file."""
    return CLEAN if (partition + offset) % 3 else DIRTY


def hour(partition: int, offset: int) -> str:
    """The table's partition that a clean record belongs to."""
    return f"{(partition + offset // 5) % _HOURS:02d}"


class Weather(Protocol):
    """Whether the brokers answer now."""

    def ask_broker(self, request: str) -> None: ...


class Broker:
    """All topics of the cluster. Its methods without a request are the world's own."""

    def __init__(
        self, rng: random.Random, weather: Weather, clock: Callable[[], float] = lambda: 0.0
    ) -> None:
        self.rng = rng
        self._clock = clock
        self.weather = weather
        self.topics: dict[str, list[Log]] = {}
        self.ids: dict[str, str] = {}
        self.by_id: dict[str, list[Log]] = {}

    def create(self, topic: str, partitions: int) -> None:
        """A topic, also one in the place of another of its name."""
        generation = int(self.ids.get(topic, f"{topic}#0").rpartition("#")[2]) + 1
        self.ids[topic] = f"{topic}#{generation}"
        self.topics[topic] = self.by_id[self.ids[topic]] = [Log() for _ in range(partitions)]

    def append(self, topic: str) -> None:
        """Records and holes at the end of a log of the topic."""
        log = self.rng.choice(self.topics[topic])
        if log.open_since is not None:
            self._end_transaction(log)
            return
        if self.rng.random() < 0.15:
            log.open_since = len(log.rows)
        holes = 0.0 if self.rng.random() < 0.7 else 0.4
        count = self.rng.randint(1, 8)
        log.rows.extend(self.rng.random() >= holes for _ in range(count))
        log.appended.extend([self._clock()] * count)

    def heal(self) -> None:
        """End what is open."""
        for logs in self.topics.values():
            for log in logs:
                if log.open_since is not None:
                    self._end_transaction(log)

    def _end_transaction(self, log: Log) -> None:
        if log.open_since is not None and self.rng.random() < 0.5:
            # Aborted: its records never appear.
            log.rows[log.open_since :] = [False] * (len(log.rows) - log.open_since)
        # The marker takes an offset of its own.
        log.rows.append(False)
        log.appended.append(self._clock())
        log.open_since = None


class SimSource(SourceClient):
    """The driver's view of the brokers."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        self._broker.weather.ask_broker("discover")
        found = []
        for topic in topics:
            if topic not in self._broker.topics:
                raise TopicNotFoundError("the cluster does not have it", where=topic)
            identity = SourceIdentity(CLUSTER, self._broker.ids[topic])
            found += [
                DiscoveredPartition(SourcePartition(topic, number), identity, 0)
                for number in range(len(self._broker.topics[topic]))
            ]
        return tuple(found)

    def list_topics(self) -> tuple[str, ...]:
        self._broker.weather.ask_broker("list")
        return tuple(sorted(self._broker.topics))

    def bounds(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        self._broker.weather.ask_broker("bounds")
        found = {}
        for one in partitions:
            log = self._log(one)
            found[one] = LogBounds(log.first, log.stable_end, len(log.rows))
        return found

    def offsets_at(
        self, partitions: Sequence[SourcePartition], timestamp_ms: int
    ) -> dict[SourcePartition, int]:
        self._broker.weather.ask_broker("offsets_at")
        return {one: self._log(one).stable_end for one in partitions}

    def committed(
        self, group: str, partitions: Sequence[SourcePartition]
    ) -> dict[SourcePartition, int]:
        self._broker.weather.ask_broker("committed")
        return {}

    def report(self, group: str, ends: Mapping[SourcePartition, int]) -> None:
        self._broker.weather.ask_broker("report")

    def close(self) -> None:
        return

    def _log(self, partition: SourcePartition) -> Log:
        logs = self._broker.topics.get(partition.topic, [])
        if partition.partition >= len(logs):
            raise SourceUnavailableError("no leader", where=str(partition))
        return logs[partition.partition]
