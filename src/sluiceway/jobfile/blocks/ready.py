"""The block `ready` of a job file: when partitions are complete, and who gets announcements."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from sluiceway.jobfile.blocks.block import Block, mapping
from sluiceway.jobfile.blocks.event_time import parse_instant_us
from sluiceway.jobfile.blocks.http_receiver import HttpReceiverSpec, check_body, url_host
from sluiceway.jobfile.blocks.values import (
    Secret,
    TopicName,
    duration,
    wrong,
)
from sluiceway.jobfile.positions import Path, Positions
from sluiceway.jobfile.problems import JobFileProblem

_PIECE = re.compile(r"yyyy|MM|dd|HH|mm")
_ORDER = ("yyyy", "MM", "dd", "HH", "mm")
_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:]{2,45}\]")


def _check_hosts(hosts: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if hosts is None:
        return None
    if not hosts or not all(_HOST.fullmatch(host) for host in hosts):
        raise wrong("a list of host names", "list at least one, without scheme and port")
    return tuple(host.lower().strip("[]") for host in hosts)


class WebhookSpec(HttpReceiverSpec):
    """HTTP receiver of announcements.

    Attributes:
        hosts: Hosts that may be called; None allows the host of `url` alone.
        body: JSON with names of an announcement in braces; None sends the announcement itself.
        accept: HTTP status codes, besides 2xx, that mean that the receiver has the announcement.
    """

    hosts: Annotated[tuple[str, ...] | None, AfterValidator(_check_hosts)] = None
    body: Annotated[str, AfterValidator(check_body)] | None = None
    accept: tuple[Annotated[int, Field(ge=400, le=499)], ...] = ()


class ReadyTopicSpec(Block):
    """Kafka topic for announcements.

    Attributes:
        topic: Kafka topic that gets one message for each announcement.
        connection: Name of the Kafka connection of the topic; None is that of the source.
    """

    topic: TopicName
    connection: str | None = None


class CountsSpec(Block):
    """The source of audited row counts.

    Attributes:
        topic: Kafka topic whose messages have the number of rows of an hour.
        connection: Name of the Kafka connection of the topic; None is that of the source.
        complete_by: Whether an hour needs its count and the watermark, or its count alone.
        since_us: Hours that begin before this time need no count; None means that all need one.
    """

    topic: TopicName
    connection: str | None = None
    complete_by: Literal["watermark_and_count", "count"] = "watermark_and_count"
    since_us: Annotated[int | None, BeforeValidator(parse_instant_us)] = Field(
        default=None, alias="since"
    )


class ReadySpec(Block):
    """When partitions are complete.

    Attributes:
        lateness_ms: How long after its end, in event time, a partition accepts rows.
        visible: When readers see a partition: once it is complete, or with its first file.
        success_file: Whether the driver writes a file `_SUCCESS` into announced folders.
        table_property: Whether a table property says up to which time the table is complete.
        tag_ms: How long an Iceberg table keeps a tag of the snapshot with a complete partition;
            None makes none.
        on_all_idle: Whether the watermark rises when no source partition has anything to read.
        webhook: HTTP receiver of announcements; None sends none.
        kafka: Kafka topic for announcements; None sends none.
        counts: Topic with audited counts that hours wait for; None waits for no count.
    """

    lateness_ms: Annotated[int, *duration("0s", "365d")] = Field(
        default=0, alias="allowed_lateness"
    )
    visible: Literal["on_ready", "on_commit"] = "on_ready"
    success_file: bool = False
    table_property: bool = Field(default=True, alias="property")
    tag_ms: Annotated[int, *duration("1h", "365d")] | None = Field(default=None, alias="tag")
    on_all_idle: Literal["advance", "hold"] = "advance"
    webhook: WebhookSpec | None = None
    kafka: ReadyTopicSpec | None = None
    counts: CountsSpec | None = None


def leading_times(partition_by: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Name and pattern of the leading partition columns by event time, in path order."""
    found = []
    for part in partition_by:
        pattern = part.get("event_time")
        if not isinstance(pattern, str):
            break
        found.append((str(part.get("name")), pattern))
    return found


def check_ready(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Refuse readiness for a table whose leading folders are not consecutive times.

    Args:
        data: The file as plain data; may be of the wrong shape.
        positions: Positions in the file.
    """
    table = data.get("table")
    parts = table.get("partition_by") if isinstance(table, Mapping) else None
    if "ready" not in data or not isinstance(parts, tuple):
        return
    if not all(isinstance(part, Mapping) for part in parts):
        return
    yield from _check_webhook(data, positions)
    yield from _check_counts(data, positions)
    if mapping(data, "source").get("mode") == "recompute":
        # Its units are what the table that is read announces.
        return
    times = leading_times(parts)
    path: Path = ("table", "partition_by")
    if not times:
        text = "expected partition columns that begin with an `event_time`, for the block `ready`"
        todo = "put the columns of the event time first, or remove `ready`"
        yield JobFileProblem(positions.value(path), text, todo)
        return
    for index, part in enumerate(parts[len(times) :], len(times)):
        if "event_time" in part:
            text = "expected all columns of the event time before the others, for the block `ready`"
            yield JobFileProblem(
                positions.key((*path, index, "event_time")), text, "move it to the front"
            )
            return
    said = {piece for _, pattern in times for piece in _PIECE.findall(pattern)}
    named = [piece for piece in _ORDER if piece in said]
    if tuple(named) != _ORDER[: len(named)]:
        text = (
            "expected leading columns that say a time of its own, with the year first, for the "
            f"block `ready`, got {' '.join(named)}"
        )
        yield JobFileProblem(positions.value(path), text, "add what is missing: yyyy MM dd HH mm")


def _check_webhook(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    ready = data["ready"]
    hook = ready.get("webhook") if isinstance(ready, Mapping) else None
    if not isinstance(hook, Mapping):
        return
    url, hosts = hook.get("url"), hook.get("hosts")
    text = url.reveal() if isinstance(url, Secret) else url
    if not isinstance(text, str) or not isinstance(hosts, tuple) or not hosts:
        return
    host = url_host(text)
    allowed = {str(each).lower().strip("[]") for each in hosts}
    if host and host not in allowed:
        say = f"expected one of the hosts {', '.join(sorted(allowed))} in the URL"
        yield JobFileProblem(
            positions.value(("ready", "webhook", "url")), say, "correct `url` or `hosts`"
        )


def _check_counts(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Refuse `late: redirect` where counts alone decide: the other hour may be closed."""
    ready, block = data["ready"], data.get("event_time")
    counts = ready.get("counts") if isinstance(ready, Mapping) else None
    if not isinstance(counts, Mapping) or not isinstance(block, Mapping):
        return
    if counts.get("complete_by") == "count" and block.get("late") == "redirect":
        text = "expected no `late: redirect` with `complete_by: count`"
        path = ("ready", "counts", "complete_by")
        yield JobFileProblem(
            positions.value(path),
            text,
            "write late: side_output, or complete_by: watermark_and_count",
        )
