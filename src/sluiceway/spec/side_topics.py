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
