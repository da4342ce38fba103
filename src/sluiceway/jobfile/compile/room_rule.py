"""A route's rooms, as the driver gets them."""

from dataclasses import dataclass

from sluiceway.jobfile.blocks.models import RouteSpec


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
    """

    room: str
    home: str
    names: tuple[str, ...]
    auto: bool
    after_s: float
    give_way_s: float
    digest: str
    check_blocks: str = "warn"

    @property
    def others(self) -> tuple[str, ...]:
        """All rooms but this one."""
        return tuple(name for name in self.names if name != self.room)


def room_rule(spec: RouteSpec) -> RoomRule | None:
    """The rooms of a route; None for a job that has one place only."""
    rooms = spec.rooms
    if rooms is None:
        return None
    return RoomRule(
        room=spec.room or rooms.home,
        home=rooms.home,
        names=rooms.names,
        auto=rooms.switch == "auto",
        after_s=rooms.after_ms / 1000,
        give_way_s=rooms.give_way_ms / 1000,
        digest=spec.file_digest,
        check_blocks=rooms.check_blocks,
    )
