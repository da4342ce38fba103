"""The driver's view against servers that go, stand in for others and come back."""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence

import pytest

from sluiceway.errors import SourceUnavailableError, TopicNotFoundError
from sluiceway.sources.contract import LogBounds, SourcePartition
from sluiceway.sources.rocketmq.brokers import Brokers
from sluiceway.sources.rocketmq.client import RocketMqSourceClient
from sluiceway.sources.rocketmq.codes import Ask
from sluiceway.sources.rocketmq.connection import Connection
from sluiceway.sources.rocketmq.frames import WireError
from sluiceway.sources.rocketmq.options import read_options
from tools.rocketmq_fake import BUSY, NO_TOPIC, FakeRocketMq, Request, reply_frame

PULL, UPDATE = 11, 15
LOG = SourcePartition("t", "broker-a/0")


@pytest.fixture
def fake() -> Iterator[FakeRocketMq]:
    with FakeRocketMq() as server:
        yield server


def client_of(fake: FakeRocketMq) -> RocketMqSourceClient:
    return RocketMqSourceClient(read_options({"name_servers": fake.address}), 5.0)


def bodies(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_client_bounds_come_of_masters_only(fake: FakeRocketMq) -> None:
    fake.queues[0].add(*bodies(4))
    client = client_of(fake)
    client.discover(["t"])
    assert client.bounds([LOG]) == {LOG: LogBounds(0, 4, 4)}
    fake.cut()
    assert client.bounds([LOG]) == {LOG: LogBounds(0, 4, 4)}, "a connection that died is made anew"
    fake.replica_only = True
    client.close()
    other = client_of(fake)
    with pytest.raises(SourceUnavailableError, match="no master of it is registered"):
        other.bounds([LOG])
    other.close()


def test_client_tells_what_a_replica_has_apart_from_the_log(fake: FakeRocketMq) -> None:
    fake.queues[0].add(*bodies(4))
    fake.queues[0].start = 1
    fake.replica_only = True
    client = client_of(fake)
    client.discover(["t"])
    with pytest.raises(SourceUnavailableError):
        client.bounds([LOG])
    assert client.copies([LOG]) == {LOG: LogBounds(1, 4, 4)}
    fake.answer = lambda ask: reply_frame(ask.opaque, BUSY) if ask.code == PULL else None
    assert client.copies([LOG]) == {}, "a replica that is not to be read, says so to pulls only"
    fake.answer = lambda _: None
    fake.cut()
    assert client.copies([LOG]) == {}, "the connection that died is made anew the next time"
    assert client.copies([LOG]) == {LOG: LogBounds(1, 4, 4)}
    fake.replica_only = False
    client.discover(["t"])
    assert client.copies([LOG]) == {}
    client.close()


def test_first_offsets_of_a_group_are_told_one_queue_before_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A broker that gets two at once makes two tables of them, and one is lost.
    told: list[list[int]] = []
    call = Brokers.call_brokers

    def noted(self: Brokers, asked: Sequence[tuple[str, Ask, Mapping[str, object]]]) -> object:
        told.append([int(str(of["queueId"])) for _, code, of in asked if code == UPDATE])
        return call(self, asked)

    monkeypatch.setattr(Brokers, "call_brokers", noted)
    logs = [SourcePartition("t", f"broker-a/{number}") for number in range(3)]
    with FakeRocketMq(queues=3) as fake:
        fake.answer = lambda ask: reply_frame(ask.opaque) if ask.code == UPDATE else None
        client = client_of(fake)
        client.discover(["t"])
        for end in (3, 4):
            client.report("g", dict.fromkeys(logs, end))
        client.report("h", dict.fromkeys(logs, 4))
        client.close()
    turns = [sorted(each) for each in told if each]
    assert [len(each) for each in turns] == [1, 2, 3, 1, 2]
    assert sorted(turns[0] + turns[1]) == turns[2] == sorted(turns[3] + turns[4]) == [0, 1, 2]


def test_topic_that_is_missed_is_gone_when_its_master_says_so(fake: FakeRocketMq) -> None:
    fake.queues[0].add(*bodies(4))
    client = client_of(fake)
    other = SourcePartition("t", "broker-b/0")
    assert client.gone([LOG, other]) == frozenset(), "the list of topics is older than the broker"
    fake.answer = lambda ask: reply_frame(ask.opaque, NO_TOPIC) if ask.code == PULL else None
    assert client.gone([LOG, other]) == {LOG}
    fake.replica_only = True
    assert client.gone([LOG, other]) == frozenset(), "a replica knows what it was told"
    fake.replica_only = False
    client._shun("broker-a", 5.0)
    assert client.gone([LOG, other]) == frozenset(), "it would hold up the others again"
    client.close()


def test_topics_that_are_called_after_brokers_and_clusters_are_not_listed(
    fake: FakeRocketMq,
) -> None:
    names = ["broker-a", "lab", "lab_REPLY_TOPIC", "orders", "other_REPLY_TOPIC"]
    body = json.dumps({"topicList": names}).encode()
    fake.answer = lambda ask: reply_frame(ask.opaque, body=body) if ask.code == 206 else None
    client = client_of(fake)
    assert client.list_topics() == ("orders", "other_REPLY_TOPIC")
    client.close()


def test_replica_that_acts_as_master_is_a_replica(fake: FakeRocketMq) -> None:
    fake.queues[0].add(*bodies(4))
    fake.replica_only = True
    acting = {
        "queueDatas": [{"brokerName": "broker-a", "readQueueNums": 1, "perm": 4}],
        "brokerDatas": [
            {"brokerName": "broker-a", "cluster": "lab", "brokerAddrs": {"0": fake.address}}
        ],
    }
    body = json.dumps(acting).encode()
    fake.answer = lambda ask: reply_frame(ask.opaque, body=body) if ask.code == 105 else None
    client = client_of(fake)
    assert [one.partition for one in client.discover(["t"])] == [LOG]
    with pytest.raises(SourceUnavailableError):
        client.bounds([LOG])
    assert client.copies([LOG]) == {LOG: LogBounds(0, 4, 4)}
    client.close()


def test_master_that_swallows_connections_is_left_alone_for_a_while(
    fake: FakeRocketMq, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.queues[0].add(*bodies(4))
    other = SourcePartition("t", "broker-b/0")
    tries: list[str] = []

    def swallow(self: Brokers, broker: str) -> Connection:
        if broker != "broker-b":
            return master(self, broker)
        tries.append(broker)
        time.sleep(1.1)
        raise SourceUnavailableError("no answer", where=broker)

    master = Brokers.master
    monkeypatch.setattr(Brokers, "master", swallow)
    client = client_of(fake)
    client.discover(["t"])
    for _ in range(3):
        assert client.bounds([LOG, other]) == {LOG: LogBounds(0, 4, 4)}
    assert len(tries) == 1
    with pytest.raises(SourceUnavailableError, match="a moment ago"):
        client.bounds([other])
    client.close()


def test_client_topic_that_was_there_is_looked_for_again(fake: FakeRocketMq) -> None:
    def gone(request: Request) -> bytes | None:
        return reply_frame(request.opaque, NO_TOPIC) if request.code == 105 else None

    fake.answer = gone
    client = client_of(fake)
    with pytest.raises(TopicNotFoundError, match=re.escape("topic not found: t")):
        client.discover(["t"])
    fake.answer = lambda _: None
    assert [one.partition for one in client.discover(["t"])] == [LOG]
    fake.answer = gone
    with pytest.raises(SourceUnavailableError, match="no broker serves topic t now"):
        client.discover(["t"])
    client.close()


@pytest.mark.parametrize("guess", [0, 1, 2, 3, 4, 9])
@pytest.mark.parametrize(("at", "wanted"), [(0, 0), (3, 3), (4, 4), (5, 5)])
def test_client_start_by_time_does_not_rely_on_the_broker(
    fake: FakeRocketMq, guess: int, at: int, wanted: int
) -> None:
    fake.queues[0].add(*bodies(5))

    def answer(request: Request) -> bytes | None:
        if request.code != 29:
            return None
        return reply_frame(request.opaque, fields={"offset": str(guess)})

    fake.answer = answer
    client = client_of(fake)
    assert client.offsets_at([LOG], 1_700_000_000_000 + at) == {LOG: wanted}
    client.close()


def test_offset_that_no_log_can_have_is_refused(fake: FakeRocketMq) -> None:
    fake.answer = lambda asked: (
        reply_frame(asked.opaque, fields={"offset": str(2**63)}) if asked.code in (30, 31) else None
    )
    client = client_of(fake)
    with pytest.raises(WireError, match="an offset was expected"):
        client.bounds([LOG])
    client.close()
