"""Requests of the pull path."""

from typing import Final

from sluiceway.sources.contract import SourcePartition
from sluiceway.sources.rocketmq.codes import PULL_SUBSCRIPTION, PULL_SUSPEND
from sluiceway.sources.rocketmq.routes import queue_of

READER_GROUP: Final = "SLUICEWAY_READER"
"""Brokers want a group's name in each pull. Nothing is stored under it and nobody joins it."""
MAX_MESSAGES: Final = 1024


def queue_fields(partition: SourcePartition) -> dict[str, object]:
    """Topic and queue, as most requests of a broker name them."""
    _, queue = queue_of(partition)
    return {"topic": partition.topic, "queueId": queue}


def pull_fields(
    partition: SourcePartition, offset: int, *, wait_ms: int, messages: int = MAX_MESSAGES
) -> dict[str, object]:
    """A pull of a queue from an offset on.

    All messages are asked for, whatever tags are wanted: a broker compares hashes of tags only,
    and what it leaves out cannot be told from what is gone.

    Args:
        partition: The queue.
        offset: First offset.
        wait_ms: How long the broker keeps the request when there is nothing.
        messages: At most; brokers have a bound of their own.
    """
    flags = PULL_SUBSCRIPTION | (PULL_SUSPEND if wait_ms else 0)
    return {
        **queue_fields(partition),
        "consumerGroup": READER_GROUP,
        "queueOffset": offset,
        "maxMsgNums": messages,
        "sysFlag": flags,
        "commitOffset": 0,
        "suspendTimeoutMillis": wait_ms,
        "subscription": "*",
        "subVersion": 0,
        "expressionType": "TAG",
    }
