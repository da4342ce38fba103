"""What is in a topic, for a job file that is not written yet."""

from sluiceway.formats.recognise import TopicContents
from sluiceway.sources.kafka.source import BOOTSTRAP_SERVERS
from sluiceway.sources.registry import SourceAccess
from sluiceway.sources.topic_sample import sample_payloads


def look_at_topic(bootstrap_servers: str, topic: str, records: int) -> TopicContents:
    """Look at records of a topic; commits and joins nothing.

    Raises:
        TopicNotFoundError: There is no such topic.
        SourceUnavailableError: The brokers do not answer.
    """
    contents = TopicContents()
    access = SourceAccess("kafka", ((BOOTSTRAP_SERVERS, bootstrap_servers),))
    for payload in sample_payloads(access, [topic], records):
        contents.add(payload)
    return contents
