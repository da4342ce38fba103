"""Topics of a lab's broker, which creates none by itself."""

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic


def create_topic(bootstrap_servers: str, topic: str, partitions: int) -> bool:
    """Create a topic, with one replica for each partition. Safe to repeat.

    Returns:
        Whether it is new; False for an existing one, which stays unchanged.

    Raises:
        KafkaException: The broker does not answer or refuses the name.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 3})
    (created,) = admin.create_topics([NewTopic(topic, partitions, 1)]).values()
    try:
        created.result()
    except KafkaException as failure:
        if failure.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        return False
    return True
