"""From the block `ready` of a job file to the values that a driver works with. No I/O."""

from typing import Any

from sluiceway.errors import JobFileError
from sluiceway.eventtime.readiness import CountRule
from sluiceway.eventtime.watermark import WatermarkRule
from sluiceway.jobfile.blocks.http_receiver import http_receiver
from sluiceway.jobfile.blocks.models import RouteSpec
from sluiceway.jobfile.blocks.ready import (
    CountsSpec,
    ReadySpec,
    ReadyTopicSpec,
    leading_times,
)
from sluiceway.jobfile.blocks.values import revealed
from sluiceway.jobfile.compile.ready_rule import AnnounceRule, CountsRule, ReadyRule
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


def ready_rule(spec: RouteSpec) -> ReadyRule | None:
    """When partitions of a route are complete; None without the block, and for units.

    Args:
        spec: A spec that the loader has checked.

    Raises:
        JobFileError: The spec was not made by the loader, and its columns do not fit.
    """
    ready, event_time = spec.ready, spec.event_time
    if ready is None or spec.source.mode == "recompute":
        return None
    parts = [{"name": each.name, "event_time": each.event_time} for each in spec.table.partition_by]
    columns = tuple(leading_times(parts))
    if event_time is None or not columns:
        raise JobFileError("ready: the partition columns do not begin with an event time")
    rule = ReadyRule(
        watermark=WatermarkRule(
            out_of_orderness_us=event_time.out_of_orderness_ms * 1000,
            idle_after_us=event_time.idle_after_ms * 1000,
            hold_when_idle=ready.on_all_idle == "hold",
        ),
        columns=columns,
        timezone=event_time.timezone,
        whole_key=len(columns) == len(parts),
        lateness_us=ready.lateness_ms * 1000,
        # A snapshot shows all its rows, and a lake table has no folders to put a file into.
        on_ready=ready.visible == "on_ready" and spec.table.iceberg is None,
        **_effects(spec, ready),
        reopen_every_s=event_time.reopen_every_ms / 1000,
        counts=None if ready.counts is None else _counts(spec, ready.counts),
    )
    try:
        rule.periods()
    except ValueError as error:
        raise JobFileError(f"ready: {error}") from error
    return rule


def unit_announcements(spec: RouteSpec) -> AnnounceRule | None:
    """What follows when a unit is computed; None without the block `ready`, and for other routes.

    Args:
        spec: A spec that the loader has checked.
    """
    ready = spec.ready
    if ready is None or spec.source.mode != "recompute":
        return None
    return AnnounceRule(**{**_effects(spec, ready), "table_property": False})


def _effects(spec: RouteSpec, ready: ReadySpec) -> dict[str, Any]:
    hook = ready.webhook
    return {
        "success_file": ready.success_file and spec.table.iceberg is None,
        "table_property": ready.table_property,
        "webhook": None if hook is None else http_receiver(hook, hook.accept),
        "webhook_body": None if hook is None else hook.body,
        "topic": None if ready.kafka is None else _topic(spec, "kafka", ready.kafka),
    }


def _counts(spec: RouteSpec, counts: CountsSpec) -> CountsRule:
    decide = CountRule(since_us=counts.since_us, alone=counts.complete_by == "count")
    topic = _topic(spec, "counts", counts)
    return CountsRule(topic, decide)


def _topic(spec: RouteSpec, key: str, topic: ReadyTopicSpec | CountsSpec) -> SideTopic:
    return side_topic(spec, f"ready.{key}", topic.topic, topic.connection)
