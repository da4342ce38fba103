"""Reads jumps again: a hole in a log is believed when a second consumer finds it too."""

import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from operator import attrgetter

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from sluiceway.errors import OffsetsLostError, SourceUnavailableError, TaskFailedError
from sluiceway.observe.failpoints import edge
from sluiceway.sources.contract import REFUSED_OFFSET, SourcePartition
from sluiceway.sources.kafka.failures import (
    OFFSET_GONE,
    BrokerTrouble,
    is_retried_by_library,
    kafka_error,
    task_failure,
)
from sluiceway.sources.kafka.native_consumer import NativeConsumer
from sluiceway.sources.kafka.progress import Jump
from sluiceway.sources.kafka.settings import consumer_settings

_TIMEOUT_S = 30.0
_ASK_TIMEOUT_S = 5.0
_POLL_S = 0.02
_MESSAGES = 1_000
# Little is wanted: one read inside the hole, not a stream.
_SMALL_FETCH = {"fetch.message.max.bytes": "262144", "queued.min.messages": "1000"}


def check_jumps(
    bootstrap_servers: str,
    properties: Mapping[str, str],
    jumps: Mapping[SourcePartition, Sequence[Jump]],
) -> None:
    """Read jumps again with a consumer made for it. Called by a task, for rare fetches only.

    Args:
        bootstrap_servers: The brokers.
        properties: The user's client properties.
        jumps: Per log at least one, rising.

    Raises:
        TaskFailedError: There is a row in a jump; the first consumer lost it.
        OffsetsLostError: The log now begins above a jump's begin; what was there is gone.
        SourceUnavailableError: No answer in time.
    """
    settings = consumer_settings(bootstrap_servers, {**properties, **_SMALL_FETCH}, BrokerTrouble())
    consumer = Consumer(settings)
    try:
        with edge("kafka.read_again", ",".join(map(str, jumps))):
            _read_again(consumer, jumps)
        # Fetches of a thousand logs would hold back the answers.
        consumer.unassign()
        for partition, found in jumps.items():
            _assert_still_there(consumer, partition, found[0].begin)
    except KafkaException as failure:
        raise task_failure(kafka_error(failure), bootstrap_servers) from failure
    finally:
        consumer.close()


def lost_offset(
    consumer: Consumer | NativeConsumer, partition: SourcePartition, offset: int, reason: str
) -> OffsetsLostError | SourceUnavailableError | TaskFailedError:
    """Build the error for an offset that the broker refused, from the log's bounds now."""
    try:
        bounds = log_bounds(consumer, partition)
    except SourceUnavailableError as failure:
        return failure
    start, end = bounds
    if start <= offset <= end:
        # The bounds hold it: another replica refused, or the leader was not ready yet.
        return TaskFailedError(
            f"offset {offset} was refused, though the log runs from {start} to {end}: {reason}",
            where=str(partition),
        )
    return OffsetsLostError(
        f"offset {offset} is gone: the log runs from {start} to {end} ({reason})",
        where=str(partition),
        hint="retention or truncation took it; `sluiceway explain SW455` has the ways out",
    ).with_report({REFUSED_OFFSET: offset, "log_start": start, "log_end": end})


def _read_again(consumer: Consumer, jumps: Mapping[SourcePartition, Sequence[Jump]]) -> None:
    """Read from the begin of the first jump to the end of the last, in every log."""
    waiting = dict(jumps)
    consumer.assign([TopicPartition(p.topic, p.partition, j[0].begin) for p, j in jumps.items()])
    deadline = time.monotonic() + _TIMEOUT_S
    while waiting:
        for message in consumer.consume(_MESSAGES, _POLL_S):
            _judge(consumer, message, waiting)
        if waiting and time.monotonic() > deadline:
            raise SourceUnavailableError(
                f"offsets without rows could not be read again within {_TIMEOUT_S:.0f} s",
                where=", ".join(map(str, waiting)),
            )


def _judge(
    consumer: Consumer, message: Message, waiting: dict[SourcePartition, Sequence[Jump]]
) -> None:
    partition = SourcePartition(message.topic() or "", message.partition() or 0)
    jumps = waiting.get(partition)
    if jumps is None:
        return
    offset = message.offset()
    error = message.error()
    if error is None:
        before = bisect_right(jumps, offset, key=attrgetter("begin"))
        if before and offset < jumps[before - 1].end:
            raise TaskFailedError(
                f"the row at offset {offset} was skipped: the first read jumped from "
                f"{jumps[before - 1].begin} to {jumps[before - 1].end}",
                where=str(partition),
            )
    elif error.name() in OFFSET_GONE:
        raise lost_offset(consumer, partition, jumps[0].begin, error.str())
    elif error.name() != "_PARTITION_EOF":
        if is_retried_by_library(error):
            return
        raise task_failure(error, str(partition))
    if offset >= jumps[-1].end:
        del waiting[partition]


def _assert_still_there(consumer: Consumer, partition: SourcePartition, begin: int) -> None:
    start, end = log_bounds(consumer, partition)
    if start > begin:
        raise OffsetsLostError(
            f"nothing is known of offsets {begin} to {start}: the log now runs from {start} "
            f"to {end}",
            where=str(partition),
            hint="retention took them meanwhile; `sluiceway explain SW455` has the ways out",
        )


def log_bounds(consumer: Consumer | NativeConsumer, partition: SourcePartition) -> tuple[int, int]:
    """The log's first offset and its high watermark or last stable offset, now.

    Called when something is wrong with an offset.

    Raises:
        SourceUnavailableError: The leader does not answer.
    """
    wanted = TopicPartition(partition.topic, partition.partition)
    try:
        bounds = consumer.get_watermark_offsets(wanted, timeout=_ASK_TIMEOUT_S)
    except KafkaException as failure:
        error = kafka_error(failure)
        raise SourceUnavailableError(
            f"the log's bounds could not be read: {error.name()}, {error.str()}",
            where=str(partition),
        ) from failure
    if bounds is None:
        raise SourceUnavailableError(
            f"the log's bounds could not be read within {_ASK_TIMEOUT_S:.0f} s",
            where=str(partition),
        )
    start, end = bounds
    return start, end
