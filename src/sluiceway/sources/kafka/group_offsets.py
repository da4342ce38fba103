"""What a consumer group has committed, read without joining it."""

from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

from sluiceway.errors import JobFileError
from sluiceway.sources.contract import SourcePartition
from sluiceway.sources.kafka.failures import BrokerTrouble, kafka_error, request_failure
from sluiceway.sources.kafka.settings import consumer_settings


def group_offsets(
    access: tuple[str, Mapping[str, str]],
    group: str,
    partitions: Sequence[SourcePartition],
    timeout_s: float,
) -> dict[SourcePartition, int]:
    """Ask the group's coordinator through a consumer that subscribes to nothing.

    The library's admin client has a request for this too, and crashes the process when the
    coordinator has just moved (librdkafka issue 5040): it has no group of its own to look for
    the new one. Offsets that an open transaction is about to replace are waited for, because the
    consumer reads committed rows only.

    Args:
        access: The brokers and the user's client properties.
        group: The group to take over.
        partitions: Those to ask for.
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
