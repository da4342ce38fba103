"""COUNTS: how many rows another system has counted for times of the table (`ready.counts`).

The driver puts it between two epochs. So what it decides with stands in the ledger, and a start
goes on reading where the last one was.
"""

from dataclasses import dataclass

from sluiceway.types.strict_json import BigInt


@dataclass(frozen=True, slots=True)
class CountsEnd:
    """First offset of the topic of counts that was not read, of one partition.

    Attributes:
        partition: Number of the partition.
        end: The offset.
    """

    partition: int
    end: BigInt


@dataclass(frozen=True, slots=True)
class CountedPrefix:
    """All rows that a prefix is expected to have, whatever was said before.

    Attributes:
        prefix: Folder of the prefix, `dt=20261120/hr=08`.
        rows: Rows that it is to have.
    """

    prefix: str
    rows: BigInt


@dataclass(frozen=True, slots=True)
class CountsRecord:
    """What was read of the topic of counts.

    Attributes:
        topic: The topic of counts.
        cluster_id: Id of the cluster that has the topic.
        topic_id: Id of the topic, which differs after it was created again.
        ends: Ends of the topic's partitions that were read; a new log of this name starts over.
        counts: The last one of each prefix; none of a prefix that is closed.
    """

    topic: str
    cluster_id: str
    topic_id: str
    ends: tuple[CountsEnd, ...]
    counts: tuple[CountedPrefix, ...]
