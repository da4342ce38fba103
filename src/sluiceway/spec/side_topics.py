"""Topics that a route uses beside those that it takes in, which have to be others."""

from collections.abc import Iterator, Mapping
from typing import Any

from sluiceway.spec.plain_data import mapping
from sluiceway.spec.positions import Positions
from sluiceway.spec.problems import JobFileProblem, quoted
from sluiceway.spec.topic_pattern import pattern_of

_TOPICS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("dirty", "store", "topic"), "dirty rows would be read again, and be dirty again, for ever"),
    (("ready", "kafka", "topic"), "announcements would be read as rows"),
    (("ready", "counts", "topic"), "counts would be read as rows"),
)


def check_side_topics(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Refuse to feed, or to take counts from, a topic that the route takes in.

    Args:
        data: The file as plain data; may be of the wrong shape.
        positions: Where things stand.
    """
    source = mapping(data, "source")
    yield from _connections(data, source, positions)
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
            yield JobFileProblem(positions.value(path), text, todo)


def _connections(
    data: Mapping[str, Any], source: Mapping[str, Any], positions: Positions
) -> Iterator[JobFileProblem]:
    """What goes through Kafka names a Kafka connection, if the source's is none."""
    known = mapping(data, "connections")
    named = source.get("connection")
    own = mapping(known, named) if isinstance(named, str) else {}
    for path, _ in _TOPICS:
        block = mapping(data, *path[:-1])
        name = block.get("connection")
        if isinstance(name, str):
            if known and "kafka" not in mapping(known, name):
                text = f"expected the name of a Kafka connection, got {quoted(name)}"
                at = positions.value((*path[:-1], "connection"))
                yield JobFileProblem(at, text, "declare it under `connections`")
        elif own and "kafka" not in own and isinstance(block.get(path[-1]), str):
            text = "expected the key `connection` beside a source that is not Kafka, got none"
            todo = "name a Kafka connection: dirty rows, announcements and counts go through Kafka"
            yield JobFileProblem(positions.key(path), text, todo)
