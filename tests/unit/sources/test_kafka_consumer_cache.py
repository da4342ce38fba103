"""A consumer is lent again only where what it delivers next is known."""

from collections.abc import Sequence

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from sluiceway.errors import TaskFailedError
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.sources.kafka import consumer_cache
from sluiceway.sources.kafka.consumer_cache import ConsumerCache, ConsumerKey, LeasedConsumer

FIRST, SECOND = SourcePartition("orders", 0), SourcePartition("orders", 1)


class Consumer:
    """Notes what it is assigned: log, offset and leader epoch of each.

    Attributes:
        refuses: It takes no assignment.
    """

    refuses = False

    def __init__(self) -> None:
        self.assigned: list[list[tuple[int, int, int | None]]] = []
        self.closed = 0

    def assign(self, wanted: Sequence[TopicPartition]) -> None:
        if self.refuses:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "no such thing"))
        self.assigned.append([(one.partition, one.offset, one.leader_epoch) for one in wanted])

    def close(self) -> None:
        self.closed += 1


class Lending:
    """A cache that makes stand-ins.

    Attributes:
        made: They, in the order in which they were made.
    """

    def __init__(self) -> None:
        self.cache = ConsumerCache()
        self.made: list[Consumer] = []

    def make(self, settings: object) -> Consumer:
        """Instead of the native consumer."""
        del settings
        self.made.append(Consumer())
        return self.made[-1]

    def acquire(self, *splits: Split, owner: str = "ledger@1") -> LeasedConsumer:
        logs = frozenset(split.partition for split in splits)
        return self.cache.acquire(ConsumerKey("127.0.0.1:9", (), logs, owner), splits)

    def counts(self) -> dict[str, int]:
        """Those that are not 0."""
        counts = self.cache.reuse_counts()
        found = {name: getattr(counts, name) for name in counts.__slots__}
        return {name: count for name, count in found.items() if count}


@pytest.fixture
def lending(monkeypatch: pytest.MonkeyPatch) -> Lending:
    found = Lending()
    monkeypatch.setattr(consumer_cache, "native_consumer", found.make)
    return found


def at(log: SourcePartition, offset: int, *, epoch: int | None = None, new: bool = False) -> Split:
    return Split(log, offset, None, leader_epoch=epoch, new_leader=new)


def test_first_reader_gets_a_new_consumer_at_its_offsets_and_leader_epochs(
    lending: Lending,
) -> None:
    leased = lending.acquire(at(FIRST, 10, epoch=4, new=True), at(SECOND, 20))
    (consumer,) = lending.made
    assert leased.consumer is consumer
    assert consumer.assigned == [[(0, 10, 4), (1, 20, None)]]
    assert lending.counts() == {"created": 1}


def test_consumer_that_stands_where_the_next_epoch_begins_goes_on_as_it_is(
    lending: Lending,
) -> None:
    first = lending.acquire(at(FIRST, 10), at(SECOND, 20))
    lending.cache.release(first, {FIRST: 15, SECOND: 20})
    again = lending.acquire(at(FIRST, 15, epoch=4, new=True), at(SECOND, 20))
    assert again is first
    assert len(lending.made[0].assigned) == 1
    assert lending.counts() == {"created": 1, "reused": 1}


@pytest.mark.parametrize("left_off", [{FIRST: 15, SECOND: 20}, {FIRST: 15}, {}])
def test_consumer_that_is_behind_in_one_log_is_assigned_anew_in_all(
    lending: Lending, left_off: dict[SourcePartition, int]
) -> None:
    first = lending.acquire(at(FIRST, 10), at(SECOND, 20))
    lending.cache.release(first, left_off)
    again = lending.acquire(at(FIRST, 15), at(SECOND, 25, epoch=4))
    assert again is first
    (consumer,) = lending.made
    assert consumer.assigned[1:] == [[(0, 15, None), (1, 25, 4)]]
    assert consumer.closed == 0
    assert lending.counts() == {"created": 1, "reassigned": 1}


def test_consumer_that_is_behind_is_not_used_for_a_log_with_a_new_leader(
    lending: Lending,
) -> None:
    first = lending.acquire(at(FIRST, 10), at(SECOND, 20))
    lending.cache.release(first, {FIRST: 15, SECOND: 20})
    again = lending.acquire(at(FIRST, 15), at(SECOND, 25, epoch=4, new=True))
    assert again is not first
    old, new = lending.made
    assert (old.closed, new.closed) == (1, 0)
    assert new.assigned == [[(0, 15, None), (1, 25, 4)]]
    assert lending.counts() == {"created": 2, "closed_behind": 1}


def test_consumer_that_takes_no_assignment_is_closed_and_fails_the_task(
    lending: Lending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Consumer, "refuses", True)
    with pytest.raises(TaskFailedError, match="no such thing"):
        lending.acquire(at(FIRST, 10))
    assert lending.made[0].closed == 1
    monkeypatch.setattr(Consumer, "refuses", False)
    lending.acquire(at(FIRST, 10))
    assert len(lending.made) == 2


@pytest.mark.parametrize(
    ("owner", "offset", "reason"),
    [("ledger@2", 15, "closed_owner"), ("ledger@1", 14, "closed_ahead")],
)
def test_consumer_of_another_term_or_ahead_of_the_ledger_is_closed(
    lending: Lending, owner: str, offset: int, reason: str
) -> None:
    lending.cache.release(lending.acquire(at(FIRST, 10)), {FIRST: 15})
    lending.acquire(at(FIRST, offset), owner=owner)
    assert [consumer.closed for consumer in lending.made] == [1, 0]
    assert lending.counts() == {"created": 2, reason: 1}
