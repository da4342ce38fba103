"""Offsets of a consumer group, read and stored without joining it."""

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from sluiceway.errors import JobFileError, SourceUnavailableError
from sluiceway.observe.failpoints import edge
from sluiceway.sources.contract import SourcePartition
from sluiceway.sources.kafka.failures import (
    BrokerTrouble,
    is_group_refused,
    kafka_error,
    request_failure,
)
from sluiceway.sources.kafka.settings import consumer_settings

MAX_REPORTERS: Final = 32
_POLL_S: Final = 0.05
# Closing waits for a request under way; lag tools are not worth a minute of it.
_QUICK_END: Final = {"socket.timeout.ms": 2000, "session.timeout.ms": 2000}
_Reporter = tuple[Consumer, list[KafkaError | None], BrokerTrouble]


def group_offsets(
    access: tuple[str, Mapping[str, str]],
    group: str,
    partitions: Sequence[SourcePartition],
    timeout_s: float,
) -> dict[SourcePartition, int]:
    """Ask the group's coordinator through a consumer that subscribes to nothing.

    The library's admin client has a request for this too. It crashes the process when the
    coordinator has just moved (librdkafka issue 5040): it has no group of its own to find the new
    one. Offsets that an open transaction is about to replace are waited for, because the consumer
    reads committed rows only.

    Args:
        access: The brokers and the user's client properties.
        group: The group to take over.
        partitions: Partitions to ask for.
        timeout_s: Longest wait.

    Returns:
        Partitions for which the group has committed nothing are left out.

    Raises:
        SourceUnavailableError: The coordinator does not answer, or a transaction is open.
        UnhealthyEnvironmentError: The broker lacks the permission for the group.
        JobFileError: The library refuses the client properties.
    """
    servers, properties = access
    trouble = BrokerTrouble()
    where = f"group {group}"
    settings = consumer_settings(servers, properties, trouble) | {"group.id": group}
    try:
        consumer = Consumer(settings)
    except KafkaException as failure:
        raise JobFileError(
            f"Kafka properties are not valid: {kafka_error(failure).str()}", where=servers
        ) from failure
    try:
        asked = [TopicPartition(one.topic, one.partition) for one in partitions]
        with edge("kafka.committed", group):
            answers = consumer.committed(asked, timeout=timeout_s)
    except KafkaException as failure:
        raise request_failure(kafka_error(failure), trouble, where) from failure
    finally:
        consumer.close()
    found = {}
    for answer in answers:
        if answer.error is not None:
            raise request_failure(answer.error, trouble, where)
        if answer.offset >= 0:
            found[SourcePartition(answer.topic, answer.partition)] = int(answer.offset)
    return found


class GroupReporter:
    """Stores offsets of groups without members, for lag tools.

    It uses consumers that subscribe to nothing, one a group. The admin client's request crashes the
    process when the coordinator has just moved, as in `group_offsets`. At most `MAX_REPORTERS` stay
    open; used under the lock, since routes report from several threads.
    """

    def __init__(self, bootstrap_servers: str, properties: Mapping[str, str]) -> None:
        self._servers = bootstrap_servers
        self._properties = dict(properties)
        self._lock = threading.Lock()
        self._consumers: OrderedDict[str, _Reporter] = OrderedDict()
        self._closed = False

    def report(self, group: str, ends: Mapping[SourcePartition, int], timeout_s: float) -> None:
        """Store the ends as the group's offsets.

        Raises:
            SourceUnavailableError: The coordinator does not answer in time.
            UnhealthyEnvironmentError: The broker lacks the permission for the group.
        """
        offsets = [TopicPartition(one.topic, one.partition, end) for one, end in ends.items()]
        with self._lock:
            if self._closed:
                raise SourceUnavailableError("the client was closed", where=f"group {group}")
            consumer, answers, trouble = self._consumer(group)
            answers.clear()
            try:
                with edge("kafka.report", group):
                    consumer.commit(offsets=offsets, asynchronous=True)
                    deadline = time.monotonic() + timeout_s
                    while not answers and time.monotonic() < deadline:
                        event = consumer.poll(_POLL_S)
                        if event is not None and is_group_refused(event.error()):
                            # The answer says only that the coordinator is not known.
                            trouble.group = event.error()
            except KafkaException as failure:
                raise request_failure(kafka_error(failure), trouble, f"group {group}") from failure
            error = answers[0] if answers else KafkaError(KafkaError._TIMED_OUT)  # noqa: SLF001
            if error is not None:
                raise request_failure(error, trouble, f"group {group}")
            trouble.group = None

    def close(self) -> None:
        """Release the connections. Safe to repeat."""
        with self._lock:
            self._closed = True
            while self._consumers:
                self._consumers.popitem()[1][0].close()

    def _consumer(self, group: str) -> _Reporter:
        found = self._consumers.pop(group, None)
        if found is None:
            if len(self._consumers) >= MAX_REPORTERS:
                self._consumers.popitem(last=False)[1][0].close()
            answers: list[KafkaError | None] = []

            def on_commit(error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
                first = next((one.error for one in partitions if one.error is not None), None)
                answers.append(error or first)

            trouble = BrokerTrouble()
            settings = consumer_settings(self._servers, self._properties, trouble)
            own = {"group.id": group, "on_commit": on_commit, **_QUICK_END}
            found = (Consumer(settings | own), answers, trouble)
        self._consumers[group] = found
        return found
