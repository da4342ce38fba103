"""What name servers answer: brokers, their addresses, and the queues of topics."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sluiceway.sources.contract import SourcePartition
from sluiceway.sources.rocketmq.codes import PERMISSION_READ
from sluiceway.sources.rocketmq.frames import WireError, read_json

MASTER: Final = 0
_MAX_QUEUES: Final = 100_000
_MAX_DIGITS: Final = 19
# Name servers of some releases write numbers as keys without quotes.
_BARE_KEY: Final = re.compile(rb"([{,])\s*(\d+)\s*:")
_SYSTEM_TOPICS: Final = frozenset(
    {
        "BenchmarkTest",
        "OFFSET_MOVED_EVENT",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "SCHEDULE_TOPIC_XXXX",
        "SELF_TEST_TOPIC",
        "TBW102",
        "TRANS_CHECK_MAX_TIME_TOPIC",
    }
)
_SYSTEM_PREFIXES: Final = ("rmq_sys_", "%RETRY%", "%DLQ%", "%SYS%", "RMQ_SYS_", "rmq_schedule_")


@dataclass(frozen=True, slots=True)
class BrokerPlace:
    """Where a broker is found.

    Attributes:
        cluster: Name of its cluster.
        addresses: `host:port` by the number of the replica; 0 is the master.
    """

    cluster: str
    addresses: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """Where a topic's queues are.

    Attributes:
        queues: Number of queues that can be read, by broker.
        brokers: Brokers by name.
    """

    queues: Mapping[str, int]
    brokers: Mapping[str, BrokerPlace]

    def partitions(self, topic: str) -> Iterator[tuple[SourcePartition, str]]:
        """Source partitions in order, each with the name of its cluster."""
        keys = sorted(
            (queue_key(broker, number), broker)
            for broker, count in self.queues.items()
            for number in range(count)
        )
        for key, broker in keys:
            yield SourcePartition(topic, key), self.brokers[broker].cluster


def queue_key(broker: str, queue: int) -> str:
    """Key of a source partition within its topic: `broker-a/3`."""
    return f"{broker}/{queue}"


def queue_of(partition: SourcePartition) -> tuple[str, int]:
    """Broker and number of a queue, from its key.

    Raises:
        ValueError: The key is not of this source.
    """
    broker, slash, number = str(partition.partition).rpartition("/")
    if not (broker and slash and number.isascii() and number.isdigit()):
        raise ValueError(f"{partition}: expected BROKER/QUEUE, such as broker-a/3")
    return broker, int(number)


def read_route(raw: bytes) -> TopicRoute:
    """Read the answer about a topic.

    Raises:
        WireError: It is none.
    """
    data = _lenient(raw)
    brokers = {
        _name(each, "brokerName"): BrokerPlace(_name(each, "cluster"), _addresses(each))
        for each in _objects(data, "brokerDatas")
    }
    queues: dict[str, int] = {}
    for each in _objects(data, "queueDatas"):
        count, permission = each.get("readQueueNums"), each.get("perm")
        if not isinstance(count, int) or not isinstance(permission, int):
            raise WireError("a topic's route has queues without number or permission")
        if not 0 <= count <= _MAX_QUEUES:
            raise WireError(f"a topic's route has {count} queues on one broker")
        broker = _name(each, "brokerName")
        if permission & PERMISSION_READ and broker in brokers:
            queues[broker] = count
    return TopicRoute(queues, brokers)


def read_topics(raw: bytes) -> list[str]:
    """Names of all topics but the system's own, in order.

    Raises:
        WireError: It is no list of topics.
    """
    names = _lenient(raw).get("topicList")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise WireError("a list of topics has no names")
    return sorted({name for name in names if not is_system_topic(name)})


def read_cluster(raw: bytes) -> dict[str, BrokerPlace]:
    """All brokers that are registered now, by name.

    Raises:
        WireError: It is no such answer.
    """
    table = _lenient(raw).get("brokerAddrTable") or {}
    if not isinstance(table, dict) or not all(isinstance(each, dict) for each in table.values()):
        raise WireError("a list of brokers has no addresses")
    return {
        name: BrokerPlace(str(each.get("cluster") or ""), _addresses(each))
        for name, each in table.items()
    }


def is_system_topic(name: str) -> bool:
    """Whether a topic is RocketMQ's own: transactions, retries, schedules."""
    return name in _SYSTEM_TOPICS or name.startswith(_SYSTEM_PREFIXES)


def _lenient(raw: bytes) -> dict[str, Any]:
    try:
        data = read_json(raw, "an answer of a name server")
    except WireError:
        data = read_json(_BARE_KEY.sub(rb'\1"\2":', raw), "an answer of a name server")
    if not isinstance(data, dict):
        raise WireError("an answer of a name server is no JSON object")
    return data


def _objects(data: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = data.get(key)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise WireError(f"a topic's route has no {key}")
    return found


def _name(data: Mapping[str, Any], key: str) -> str:
    found = data.get(key)
    if not isinstance(found, str) or not found:
        raise WireError(f"a topic's route has an entry without {key}")
    return found


def _addresses(data: Mapping[str, Any]) -> dict[int, str]:
    found = data.get("brokerAddrs")
    if not isinstance(found, dict) or not all(
        number.isascii()
        and number.isdigit()
        and len(number) <= _MAX_DIGITS
        and isinstance(address, str)
        for number, address in found.items()
    ):
        raise WireError("a broker has no addresses by number")
    return {int(number): address for number, address in found.items()}
