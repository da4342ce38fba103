"""What is in a topic and what a table looks like, for a job file that is not written yet."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from sluiceway.catalog.hive_table import HiveTable
from sluiceway.catalog.metastore import MetastoreClient
from sluiceway.formats.recognise import TopicContents
from sluiceway.sinks.hive.table_check import check_writable
from sluiceway.sources.kafka.source import BOOTSTRAP_SERVERS
from sluiceway.sources.registry import SourceAccess
from sluiceway.sources.topic_sample import sample_payloads

_TIMEOUT_S = 10.0


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


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table that exists.

    Attributes:
        values: Of one of its partitions, by the partition column; empty when it has none.
    """

    table: HiveTable
    values: Mapping[str, str]


def look_at_table(metastore: str, name: str) -> FoundTable | None:
    """Look at a table; None when there is none.

    Args:
        metastore: `thrift://host:port`.
        name: `database.table`.

    Raises:
        TableMismatchError: It cannot be filled, whatever a job file says.
        MetastoreUnavailableError: The metastore does not answer.
    """
    database, _, table = name.lower().partition(".")
    client = MetastoreClient(metastore, _TIMEOUT_S)
    try:
        found = client.get_table(database, table)
        if found is None:
            return None
        check_writable(found)
        names = client.list_partition_names(database, table, limit=1)
    finally:
        client.close()
    pairs = (part.partition("=") for part in names[0].split("/")) if names else ()
    return FoundTable(found, {key: unquote(value) for key, _, value in pairs})
