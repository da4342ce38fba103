"""Topics that a route uses beside those that it takes in, which have to be others."""

from collections.abc import Iterator, Mapping
from typing import Any

from sluiceway.spec.plain_data import mapping
from sluiceway.spec.positions import Positions
from sluiceway.spec.problems import Problem, quoted
from sluiceway.spec.topic_pattern import pattern_of

_TOPICS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("dirty", "store", "topic"), "dirty rows would be read again, and be dirty again, for ever"),
    (("ready", "kafka", "topic"), "announcements would be read as rows"),
    (("ready", "counts", "topic"), "counts would be read as rows"),
)


def check_side_topics(data: Mapping[str, Any], positions: Positions) -> Iterator[Problem]:
    """Refuse to feed, or to take counts from, a topic that the route takes in.

    Args:
        data: The file as plain data; may be of the wrong shape.
        positions: Where things stand.
    """
    source = mapping(data, "source")
    yield from _without_kafka(data, source, positions)
    topics = source.get("topics")
    pattern = pattern_of(topics)
    listed = topics if isinstance(topics, tuple) else ()
    for path, why in _TOPICS:
        block = mapping(data, *path[:-1])
        topic = block.get(path[-1])
        if block.get("connection") not in (None, source.get("connection")):
            continue
        if not isinstance(topic, str):
            continue
        if topic in listed or (pattern is not None and pattern.fullmatch(topic)):
            text = f"expected a topic that the route does not take in, got {quoted(topic)}: {why}"
            todo = "name another topic, or leave this one out of the route's `topics`"
            yield Problem(positions.value(path), text, todo)


def _without_kafka(
    data: Mapping[str, Any], source: Mapping[str, Any], positions: Positions
) -> Iterator[Problem]:
    """What is fed to the source's own Kafka cluster, where the source is RocketMQ."""
    name = source.get("connection")
    found = mapping(data, "connections", name) if isinstance(name, str) else {}
    if "rocketmq" not in found:
        return
    for key in mapping(data, "dirty", "store"):
        path = ("dirty", "store", key)
        text = "`dirty.store` of a topic or a table beside RocketMQ is not in this version"
        todo = "remove it: dirty rows are kept beside the table"
        yield Problem(positions.key(path), text, todo, not_yet=True)
    for key in ("kafka", "counts"):
        block = mapping(data, "ready", key)
        if isinstance(block.get("topic"), str) and "connection" not in block:
            text = "expected the key `connection` beside a RocketMQ source, got none"
            todo = "name a Kafka connection: announcements and counts go through Kafka"
            yield Problem(positions.key(("ready", key)), text, todo)
