"""A route's rooms, as the driver gets them."""

from dataclasses import dataclass

from sluiceway.jobfile.blocks.models import RouteSpec
from sluiceway.jobfile.blocks.rooms import RoomsSpec
from sluiceway.types.log_key import LogKey


@dataclass(frozen=True, slots=True)
class MirrorRule:
    """How the logs of one room come to the other.

    Attributes:
        linked: Whether copies have the offsets of their rows.
        exactly_once: Whether each row is copied once.
        origin: Header with a row's offset in the other room; None where there is none.
        own_writers: Whether nothing but the mirror ever writes to the copied topics.
        transactional_ids: Ids of the mirror's transactions.
        names_there: Topics whose name in the other room is another one, and that name.
        first: Whether rows are read only once the other room has copies of them.
        first_s: How long a room that is silent or not ready is waited for; None for ever.
        holds: Whether times from before the loss of a room wait for its rows.
    """

    linked: bool
    exactly_once: bool
    origin: str | None
    own_writers: bool
    transactional_ids: tuple[str, ...] = ()
    names_there: tuple[tuple[str, str], ...] = ()
    first: bool = False
    first_s: float | None = None
    holds: bool = True

    def origin_name(self, cluster_id: str, topic: str, partition: LogKey) -> str:
        """How a copied row's header names its log.

        Args:
            cluster_id: Id of the other room's cluster.
            topic: Topic of the job.
            partition: Key of the log in it.
        """
        return f"{cluster_id}/{dict(self.names_there).get(topic, topic)}/{partition}"

    @property
    def keeps_tails(self) -> bool:
        """Whether records keep the last rows before each committed end."""
        return self.origin is None


@dataclass(frozen=True, slots=True)
class RoomRule:
    """The room of this process, and how it takes over from another room.

    Attributes:
        room: Room of this process.
        home: Room where the job normally runs.
        names: All rooms.
        auto: Whether a standby takes over from another room without an operator.
        after_s: How long a lease must stand still before that.
        give_way_s: How long a driver reads and commits nothing before it gives way.
        digest: Digest of the job file without `rooms` and secrets.
        check_blocks: See `RoomsSpec`.
        mirror: How logs are copied between the rooms; None where one cluster spans them.
        topics: Topics whose name in this room is another one, and that name.
        copied: Whether each room has a copy of the table, which it must adopt.
    """

    room: str
    home: str
    names: tuple[str, ...]
    auto: bool
    after_s: float
    give_way_s: float
    digest: str
    check_blocks: str = "warn"
    mirror: MirrorRule | None = None
    topics: tuple[tuple[str, str], ...] = ()
    copied: bool = False

    @property
    def others(self) -> tuple[str, ...]:
        """All rooms but this one."""
        return tuple(name for name in self.names if name != self.room)

    @property
    def waits_for_copies(self) -> bool:
        """Whether this room reads a row only once the others have its copy.

        After the home's loss the other room would wait for copies in the lost one.
        """
        return self.mirror is not None and self.mirror.first and self.room == self.home


def room_rule(spec: RouteSpec) -> RoomRule | None:
    """The rooms of a route; None for a job that has one place only."""
    rooms = spec.rooms
    if rooms is None:
        return None
    room = spec.room or rooms.home
    own = rooms.named_rooms.get(room)
    return RoomRule(
        room=room,
        home=rooms.home,
        names=rooms.names,
        auto=rooms.switch == "auto",
        after_s=rooms.after_ms / 1000,
        give_way_s=rooms.give_way_ms / 1000,
        digest=spec.file_digest,
        check_blocks=rooms.check_blocks,
        mirror=_mirror_rule(rooms, room),
        topics=() if own is None else tuple(sorted(own.topics.items())),
        copied=rooms.storage == "copied",
    )


def _mirror_rule(rooms: RoomsSpec, room: str) -> MirrorRule | None:
    if rooms.queue == "stretched":
        return None
    mirror, first = rooms.mirror, rooms.mirrored_first
    return MirrorRule(
        linked=mirror is None,
        exactly_once=mirror is None or mirror.copies == "exactly_once",
        origin=None if mirror is None else mirror.origin,
        own_writers=mirror is None or rooms.writers == "own",
        transactional_ids=() if mirror is None else mirror.transactional_ids,
        names_there=_names_in_other(rooms, room),
        first=bool(first),
        first_s=None if isinstance(first, bool) else first / 1000,
        holds=rooms.after_loss == "hold",
    )


def _names_in_other(rooms: RoomsSpec, room: str) -> tuple[tuple[str, str], ...]:
    """Names of topics in the one other room; with several others, none has names of its own."""
    found = [each for name, each in rooms.named_rooms.items() if name != room]
    return tuple(sorted(found[0].topics.items())) if len(found) == 1 else ()
