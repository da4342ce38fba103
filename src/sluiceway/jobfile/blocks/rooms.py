"""Block `rooms`: the places between which a job moves when one of them is lost."""

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from sluiceway.jobfile.blocks.block import Block
from sluiceway.jobfile.blocks.connections import ConnectionSpec
from sluiceway.jobfile.blocks.values import Location, duration, parse_duration_ms, wrong, wrong_key

_PAIR = 2
_LEAST_WAIT_MS, _LONGEST_WAIT_MS = 10_000, 86_400_000
_QUEUES = {
    "stretched": "one cluster spans the rooms",
    "linked": "copies have the offsets of their rows",
}
_HEADER = re.compile(r"[A-Za-z0-9._-]{1,100}")


def _check_origin(text: str | None) -> str | None:
    if text is not None and _HEADER.fullmatch(text) is None:
        raise wrong("1 to 100 of a-z, A-Z, 0-9, `.`, `_`, `-`", "name a header")
    return text


def _check_first(value: object) -> bool | int:
    if isinstance(value, bool):
        return value
    found_ms = parse_duration_ms(value)
    if not _LEAST_WAIT_MS <= found_ms <= _LONGEST_WAIT_MS:
        raise wrong("`true`, `false` or a duration from 10s to 1d", "choose one")
    return found_ms


def _check_storage(text: str) -> str:
    if text not in ("stretched", "copied"):
        raise wrong("`stretched` or `copied`", "one store that spans the rooms, or a copy in each")
    return text


class RoomSpec(Block):
    """A room: what is reached under another address from there.

    Attributes:
        connections: Name -> keys that differ from the file's connection of that name.
        topics: Topic of the job -> its name in this room, where that differs.
        location: Folder of the table in this room; given with `storage: copied` for a job without
            routes, None otherwise.
    """

    connections: Mapping[str, ConnectionSpec] = Field(default_factory=dict)
    topics: Mapping[str, str] = Field(default_factory=dict)
    location: Location | None = None


class MirrorSpec(Block):
    """What copies the topics from one room to the other.

    Attributes:
        origin: Header in which the mirror gives a row's offset; None where it adds none.
        copies: Whether it copies each row once, or may repeat rows after a failure.
        transactional_ids: Ids of its transactions, which a driver takes over after its fence.
    """

    origin: Annotated[str | None, AfterValidator(_check_origin)] = None
    copies: Literal["exactly_once", "at_least_once"] = "at_least_once"
    transactional_ids: tuple[str, ...] = ()


class RoomsSpec(Block):
    """The rooms of a job. All other keys are names of rooms, each with its own connections.

    Attributes:
        home: Room where the job normally runs.
        switch: Whether a standby takes over by itself (`auto`), or after an operator's
            `switch --now` (`ask`).
        queue: Where the queue is: `stretched` is one cluster that spans the rooms. With `linked`
            and `mirrored` each room has its own, with the same or other offsets.
        storage: Where table and ledger are: `stretched` is one store that spans the rooms;
            `copied` has a copy in each room, which `adopt` takes over. No `witness` in this
            version.
        after_ms: How long the lease must stand still before a standby takes over.
        give_way_ms: How long a driver reads and commits nothing before it releases its route to a
            room that reads.
        check_blocks: What a driver does while blocks of HDFS are in one room only.
        mirror: What copies the topics, with `mirrored`; None with other queues.
        writers: Who writes to the copied topics: with `own` only the mirror ever does.
        mirrored_first: Whether the home room reads only rows that another room has. After a
            duration it does not wait for a room that is silent or not ready.
        after_loss: Whether times from before a room's loss wait for `switch --drain` or `--give-up`
            (`hold`), or are announced without its rows.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, RoomSpec]
    LATER = frozenset({"witness"})
    NAMED: ClassVar[type[Block] | None] = RoomSpec
    home: str
    switch: Literal["ask", "auto"] = "ask"
    queue: Literal["stretched", "linked", "mirrored"] = "stretched"
    storage: Annotated[str, AfterValidator(_check_storage)] = "stretched"
    after_ms: Annotated[int, *duration("1s", "1h")] = Field(default=10_000, alias="after")
    give_way_ms: Annotated[int, *duration("1s", "1d")] = Field(default=30_000, alias="give_way")
    check_blocks: Literal["wait", "warn", "off"] = "warn"
    mirror: MirrorSpec | None = None
    writers: Literal["own", "shared"] = "shared"
    mirrored_first: Annotated[bool | int, BeforeValidator(_check_first)] = False
    after_loss: Literal["hold", "announce"] = "hold"

    @model_validator(mode="after")
    def _keys_go_together(self) -> Self:
        error = self._wrong_mirror() or self._wrong_first() or self._wrong_names()
        if error is not None:
            raise error
        return self

    def _wrong_mirror(self) -> PydanticCustomError | None:
        mirror, queue = self.mirror, self.queue
        if queue == "mirrored" and mirror is None:
            todo = "add `mirror: {copies: exactly_once}` or `mirror: {origin: sw-origin}`"
            return wrong_key(("queue",), "expected `mirror` with `queue: mirrored`, got none", todo)
        if mirror is not None and queue != "mirrored":
            if "queue" not in self.model_fields_set:
                text, todo = "expected `queue: mirrored` with `mirror`, got no `queue`", "add it"
                return wrong_key(("mirror",), text, f"{todo}, or remove `mirror`")
            text = f"expected no `mirror` with `queue: {queue}`: {_QUEUES[queue]}"
            return wrong_key(("mirror",), text, "remove it, or write `queue: mirrored`")
        if mirror is not None and mirror.origin is None and mirror.copies == "at_least_once":
            text = "expected `origin` or `copies: exactly_once`: else no offset may be right"
            todo = "add what the mirror does: an origin header, or each row once"
            return wrong_key(("mirror", "copies"), text, todo)
        return None

    def _wrong_first(self) -> PydanticCustomError | None:
        if not self.mirrored_first or self.queue == "linked":
            return None
        if self.mirror is None:
            text = f"expected no `mirrored_first` with `queue: {self.queue}`: {_QUEUES[self.queue]}"
            return wrong_key(("mirrored_first",), text, "remove it")
        if self.mirror.origin is None:
            text = "expected `mirror.origin` with `mirrored_first`, got none"
            todo = "add it and the transform of `sluiceway mirror-jar`, or remove this"
            return wrong_key(("mirrored_first",), text, todo)
        return None

    def _wrong_names(self) -> PydanticCustomError | None:
        room = next((name for name, each in self.named_rooms.items() if each.topics), None)
        if room is None:
            return None
        if self.queue == "stretched":
            text = "expected no `topics` of a room with `queue: stretched`"
            todo = "remove it, or write `queue: mirrored` or `linked`"
            return wrong_key((room, "topics"), f"{text}: {_QUEUES[self.queue]}", todo)
        if self.mirror is not None and self.mirror.origin and len(self.names) != _PAIR:
            text = f"expected two rooms, where topics have other names, got {len(self.names)}"
            return wrong_key((room, "topics"), text, "give the topics the same names")
        return None

    @property
    def named_rooms(self) -> Mapping[str, RoomSpec]:
        """The rooms by name."""
        return self.__pydantic_extra__ or {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the rooms, in order."""
        return tuple(sorted(self.named_rooms))
