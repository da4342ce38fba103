"""The brokers: logs that grow, have holes, lose beginnings and ends; and the driver's view."""

import random
from bisect import bisect_right
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


# A leader that was voted out may answer so long after; less than a driver waits for a second look.
_ZOMBIE_S = 2.0


@dataclass(frozen=True, slots=True)
class VotedOut:
    """A leader that does not know yet that it is none any more, with what it has."""

    since: float
    epoch: int
    stable_end: int
    end: int


@dataclass(slots=True)
class Log:
    """One source partition.

    Attributes:
        rows: By offset, whether a committed record stands there.
        epochs: By offset, the leader epoch under which it was appended; never falls.
        leader_epoch: Of the leader now.
        lost: What an unclean election took: producers send it again, so it comes back as it was,
            under newer epochs.
        first: First offset that can be read.
        open_since: First offset of a transaction that is still open; None without one.
        deleted: Below it retention has deleted records, at any time.
        appended: By offset, when it came.
        hidden: Of each answer of a leader that was voted out, since when and when it was given:
            no look can know of what came in between.
    """

    rows: list[bool] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    appended: list[float] = field(default_factory=list)
    first: int = 0
    open_since: int | None = None
    leader_epoch: int = 0
    lost: list[bool] = field(default_factory=list)
    voted_out: VotedOut | None = None
    hidden: list[tuple[float, float]] = field(default_factory=list)

    @property
    def stable_end(self) -> int:
        """First offset that cannot be read yet."""
        return len(self.rows) if self.open_since is None else self.open_since

    @property
    def known_rows(self) -> list[bool]:
        """Also rows that were lost and have not come again."""
        return self.rows + self.lost

    def end_of(self, leader_epoch: int) -> int:
        """What a leader answers: first offset that is of a newer epoch, or the log's end."""
        return bisect_right(self.epochs, leader_epoch)

    def append(self, rows: Sequence[bool], now: float) -> None:
        """What comes under the leader of now."""
        self.rows += rows
        self.epochs += [self.leader_epoch] * len(rows)
        self.appended += [now] * len(rows)

    def was_hidden(self, offset: int, asked_at: float) -> bool:
        """Whether a look that began then was answered by a leader that could not know of a row."""
        came = self.appended[offset]
        return any(since <= came <= told and told >= asked_at for since, told in self.hidden)

    def elect(self, now: float, epochs: int) -> None:
        """Another leader, which has all that was committed."""
        self.voted_out = VotedOut(now, self.leader_epoch, self.stable_end, len(self.rows))
        self.leader_epoch += epochs

    def cut(self, end: int) -> None:
        """What an unclean election takes; no transaction is open."""
        self.lost[:0] = self.rows[end:]
        del self.rows[end:], self.epochs[end:], self.appended[end:]


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
        self.says: Callable[[SourcePartition, LogBounds], LogBounds] = lambda _, place: place
        self.is_led: Callable[[SourcePartition], bool] = lambda _: True
        self.is_known: Callable[[SourcePartition], bool] = lambda _: True
        self.copy: Callable[[SourcePartition, LogBounds], LogBounds | None] = lambda *_: None

    def create(self, topic: str, partitions: int) -> None:
        """A topic, also one in the place of another of its name."""
        generation = int(self.ids.get(topic, f"{topic}#0").rpartition("#")[2]) + 1
        self.ids[topic] = f"{topic}#{generation}"
        self.topics[topic] = self.by_id[self.ids[topic]] = [Log() for _ in range(partitions)]

    def append(self, topic: str) -> None:
        """Records and holes at the end of a log of the topic."""
        log = self.rng.choice(self.topics[topic])
        if log.lost:
            self.send_again(log, self.rng.randint(1, len(log.lost)))
            return
        if log.open_since is not None:
            self._end_transaction(log)
            return
        if self.rng.random() < 0.15:
            log.open_since = len(log.rows)
        holes = 0.0 if self.rng.random() < 0.7 else 0.4
        count = self.rng.randint(1, 8)
        log.append([self.rng.random() >= holes for _ in range(count)], self._clock())

    def send_again(self, log: Log, count: int) -> None:
        """Producers find that what they had sent is gone."""
        log.append(log.lost[:count], self._clock())
        del log.lost[:count]

    def elect(self, topic: str) -> None:
        """Another leader for a log; perhaps one that was not in sync, and has less."""
        log = self.rng.choice(self.topics[topic])
        log.elect(self._clock(), self.rng.randint(1, 2))

    def cut(self, topic: str) -> None:
        """An unclean election: the end of a log is gone."""
        log = self.rng.choice(self.topics[topic])
        if log.open_since is not None:
            self._end_transaction(log)
        log.elect(self._clock(), self.rng.randint(1, 2))
        # Who was voted out here is dead, or there would have been no such election.
        log.voted_out = None
        if len(log.rows) > log.first:
            log.cut(self.rng.randrange(log.first, len(log.rows)))

    def bounds_of(self, log: Log) -> LogBounds:
        """What a leader says: that of now, or for a moment the one before."""
        old = log.voted_out
        if old is not None and self._clock() - old.since < _ZOMBIE_S and self.rng.random() < 0.5:
            first = min(log.first, old.stable_end)
            log.hidden.append((old.since, self._clock()))
            return LogBounds(first, old.stable_end, old.end, old.epoch)
        return LogBounds(log.first, log.stable_end, len(log.rows), log.leader_epoch)

    def heal(self) -> None:
        """End what is open."""
        for logs in self.topics.values():
            for log in logs:
                log.voted_out = None
                self.send_again(log, len(log.lost))
                if log.open_since is not None:
                    self._end_transaction(log)

    def _end_transaction(self, log: Log) -> None:
        if log.open_since is not None and self.rng.random() < 0.5:
            # Aborted: its records never appear.
            log.rows[log.open_since :] = [False] * (len(log.rows) - log.open_since)
        # The marker takes an offset of its own.
        log.append([False], self._clock())
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
            logs = [SourcePartition(topic, n) for n in range(len(self._broker.topics[topic]))]
            found += [
                DiscoveredPartition(one, identity, 0) for one in logs if self._broker.is_known(one)
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
            if self._broker.is_led(one):
                found[one] = self._broker.says(one, self._broker.bounds_of(log))
        if partitions and not found:
            raise SourceUnavailableError("no leader", where=str(partitions[0]))
        return found

    def copies(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        found = {}
        for one in partitions:
            log = self._log(one)
            place = LogBounds(log.first, log.stable_end, len(log.rows))
            copy = self._broker.copy(one, place)
            if copy is not None:
                found[one] = copy
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
        if partition.number >= len(logs):
            raise SourceUnavailableError("no leader", where=str(partition))
        return logs[partition.number]
