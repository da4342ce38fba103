"""Samples a topic for a job file that is not written yet."""

from sluiceway.formats.recognise import TopicContents
from sluiceway.sources.kafka.source import BOOTSTRAP_SERVERS
from sluiceway.sources.registry import SourceAccess
from sluiceway.sources.topic_sample import sample_keys, sample_payloads

_KEYS = 200


def read_topic(bootstrap_servers: str, topic: str, records: int) -> TopicContents:
    """Read some records of a topic; commits and joins nothing.

    Raises:
        TopicNotFoundError: There is no such topic.
        SourceUnavailableError: The brokers do not answer.
    """
    contents = TopicContents()
    for payload in sample_payloads(_access(bootstrap_servers), [topic], records):
        contents.add(payload)
    return contents


def read_topic_keys(bootstrap_servers: str, topic: str) -> list[bytes | None]:
    """Keys of some records of a topic; raises as `read_topic`."""
    return list(sample_keys(_access(bootstrap_servers), [topic], _KEYS))


def _access(bootstrap_servers: str) -> SourceAccess:
    return SourceAccess("kafka", ((BOOTSTRAP_SERVERS, bootstrap_servers),))
