"""What makes the copies of a room's topics exact, as far as it can be asked from that room."""

from collections.abc import Iterator
from typing import Final

from sluiceway.audit.health_checks import Finding, Health
from sluiceway.errors import SluicewayError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.room_rule import MirrorRule
from sluiceway.route.clients import open_source
from sluiceway.sources.contract import SourceClient, Split
from sluiceway.sources.topic_sample import read_splits

_MIRROR: Final = "mirror"
_SAMPLE: Final = 100
_UNSEEN = (
    "`isolation.level=read_committed` for its reading, `transaction.timeout.ms=10000` for its "
    "writing{once}; in its dedicated mode MirrorMaker 2 goes by a worker's key only after "
    "`<cluster>.`, as in `b.exactly.once.source.support`"
)


def check_mirror(config: RouteConfig) -> Iterator[Finding]:
    """Check the copies of a route's topics. Called in the room that has them.

    Args:
        config: The route; without copies, and in its home room, nothing is checked.
    """
    rooms = config.rooms
    if rooms is None or rooms.mirror is None or rooms.room == rooms.home:
        return
    source = open_source(config)
    try:
        yield from _topics(source, config, rooms.mirror)
    except SluicewayError as error:
        yield Finding(_MIRROR, config.route, Health.BAD, f"[{error.code}] {error.message}")
    finally:
        source.close()
    yield from _transactions(rooms.mirror, config.route)


def _topics(source: SourceClient, config: RouteConfig, mirror: MirrorRule) -> Iterator[Finding]:
    for topic, traits in sorted(source.copy_traits(config.topics).items()):
        if traits.append_time:
            found = "`message.timestamp.type` is LogAppendTime: copies lose their record times"
            fix = "set CreateTime for the topic, and have it copied again"
            yield Finding(_MIRROR, topic, Health.BAD, found, fix)
        elif traits.compacted and mirror.origin is None:
            found = "it is compacted: rows that the position is found by may be removed"
            fix = "have the mirror add an origin header: `sluiceway mirror-jar`"
            yield Finding(_MIRROR, topic, Health.WARNING, found, fix)
        else:
            yield Finding(_MIRROR, topic, Health.OK, "copies keep their record times")
    if mirror.origin is not None:
        yield from _headers(source, config, mirror.origin)
    if mirror.own_writers and not mirror.linked:
        yield from _writers(source, config)


def _headers(source: SourceClient, config: RouteConfig, header: str) -> Iterator[Finding]:
    """Whether the newest rows have the header; producers of the room itself add none."""
    described = source.discover(config.topics)
    bounds = source.bounds([each.partition for each in described])
    for topic in config.topics:
        splits = [
            Split(one, max(each.start_offset, each.end_offset - _SAMPLE), each.end_offset)
            for one, each in bounds.items()
            if one.topic == topic and each.start_offset < each.end_offset
        ]
        rows = [row for batch in read_splits(config.source, splits) for row in batch.headers()]
        named = sum(any(name == header for name, _ in row) for row in rows)
        found = f"{named:,} of its {len(rows):,} newest records have the header `{header}`"
        if named or not rows:
            yield Finding(_MIRROR, topic, Health.OK, found)
        else:
            fix = "add the transform of `sluiceway mirror-jar` to the mirror, and copy again"
            yield Finding(_MIRROR, topic, Health.BAD, found, fix)


def _writers(source: SourceClient, config: RouteConfig) -> Iterator[Finding]:
    fix = "allow WRITE to the mirror alone, or say `writers: shared`"
    for topic in config.topics:
        names = source.writers(topic)
        if names is None:
            found = "no access rule of it can be read, so `writers: own` is not checked"
            may_read = f"allow Describe on the cluster to this login; {fix}"
            yield Finding(_MIRROR, topic, Health.WARNING, found, may_read)
        elif len(names) > 1:
            found = f"`writers: own`, and these may write: {', '.join(names)}"
            yield Finding(_MIRROR, topic, Health.BAD, found, fix)
        elif not names:
            found = "no rule names a writer; `allow.everyone.if.no.acl.found` would let all write"
            yield Finding(_MIRROR, topic, Health.WARNING, found, fix)
        else:
            yield Finding(_MIRROR, topic, Health.OK, f"only {names[0]} may write")


def _transactions(mirror: MirrorRule, route: str) -> Iterator[Finding]:
    if mirror.exactly_once and not mirror.linked and not mirror.transactional_ids:
        found = "a mirror that dies in a transaction hides newer rows for up to a minute"
        fix = "name its ids in `rooms.mirror.transactional_ids`"
        yield Finding(_MIRROR, route, Health.WARNING, found, fix)
    once = ", `exactly.once.source.support=enabled`" if mirror.exactly_once else ""
    if not mirror.linked:
        found = "its own settings cannot be seen from here"
        yield Finding(_MIRROR, route, Health.SKIPPED, found, _UNSEEN.format(once=once))
