"""Opens topics that a route uses next to its source; who opens one imports the library."""

from sluiceway.errors import InvariantError
from sluiceway.sources.side_topics import MessageSender, RowFeed, SideTopic, TopicTail

_KAFKA = "kafka"


def open_row_feed(topic: SideTopic, name: str, timeout_s: float) -> RowFeed:
    """A feeder of one topic; a newer one of the same name fences it. Called once a driver.

    Args:
        topic: It has to be there.
        name: Name of the feed, for access rules on the brokers.
        timeout_s: Longest wait for the brokers in one call.
    """
    from sluiceway.sources.kafka.row_feed import KafkaRowFeed  # noqa: PLC0415

    return KafkaRowFeed(_kafka_access(topic), topic.topic, name, timeout_s)


def open_topic_tail(topic: SideTopic, timeout_s: float) -> TopicTail:
    """A reader of one small topic. Called once a driver."""
    from sluiceway.sources.kafka.topic_tail import KafkaTopicTail  # noqa: PLC0415

    servers, properties = _kafka_access(topic)
    return KafkaTopicTail(servers, properties, topic.topic, timeout_s)


def open_message_sender(topic: SideTopic) -> MessageSender:
    """Who sends a topic single messages. Called once a driver; need not connect yet."""
    from sluiceway.sources.kafka.message_sender import KafkaMessageSender  # noqa: PLC0415

    return KafkaMessageSender(dict(topic.options), topic.topic)


def _kafka_access(topic: SideTopic) -> tuple[str, dict[str, str]]:
    from sluiceway.sources.kafka.source import BOOTSTRAP_SERVERS  # noqa: PLC0415

    if topic.kind != _KAFKA:
        raise InvariantError(f"side topics are of Kafka, and this is of {topic.kind}")
    properties = dict(topic.options)
    return properties.pop(BOOTSTRAP_SERVERS), properties
