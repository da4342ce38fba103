"""From another topic in a job file, which is no source, to its client's value. No I/O."""

from sluiceway.errors import JobFileError
from sluiceway.jobfile.blocks.models import RouteSpec
from sluiceway.jobfile.blocks.values import revealed
from sluiceway.sources.kafka.source import BOOTSTRAP_SERVERS
from sluiceway.sources.side_topics import SideTopic


def side_topic(spec: RouteSpec, key: str, topic: str, connection: str | None) -> SideTopic:
    """A topic of a connection; None stands for that of the source.

    Args:
        spec: The route.
        key: Key of the job file, for the place of an error.
        topic: Name of the topic.
        connection: Name of a connection in `connections`.

    Raises:
        JobFileError: The connection is not Kafka, and the spec was not made by the loader.
    """
    found = spec.connections.get(connection or spec.source.connection)
    kafka = None if found is None else found.kafka
    if kafka is None:
        raise JobFileError(
            f"{key}: the source is no Kafka cluster", hint="name a Kafka `connection` there"
        )
    options = {**kafka.properties, BOOTSTRAP_SERVERS: kafka.bootstrap_servers}
    return SideTopic(tuple(sorted((k, revealed(v)) for k, v in options.items())), topic)
