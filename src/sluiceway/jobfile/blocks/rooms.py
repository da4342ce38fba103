"""Block `rooms`: the places between which a job moves when one of them is lost."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, Field

from sluiceway.jobfile.blocks.block import Block
from sluiceway.jobfile.blocks.connections import ConnectionSpec
from sluiceway.jobfile.blocks.values import duration, not_yet, wrong


def _check_queue(text: str) -> str:
    if text in ("mirrored", "linked"):
        raise not_yet(f"`queue: {text}`", "use `stretched`: one cluster that spans the rooms")
    if text != "stretched":
        raise wrong("`stretched`", "one cluster that spans the rooms")
    return text


def _check_storage(text: str) -> str:
    if text == "copied":
        raise not_yet("`storage: copied`", "use `stretched`: one store that spans the rooms")
    if text != "stretched":
        raise wrong("`stretched`", "one store that spans the rooms")
    return text


class RoomSpec(Block):
    """A room: what is reached under another address from there.

    Attributes:
        connections: Name -> keys that differ from the file's connection of that name.
    """

    LATER = frozenset({"topics", "location"})
    connections: Mapping[str, ConnectionSpec] = Field(default_factory=dict)


class RoomsSpec(Block):
    """The rooms of a job. All other keys are names of rooms, each with its own connections.

    Attributes:
        home: Room where the job normally runs.
        switch: Whether a standby takes over from another room by itself (`auto`), or after an
            operator's `switch --now` (`ask`).
        queue: Where the queue is: `stretched` is one cluster that spans the rooms. Keys for other
            queues are not in this version: `mirror`, `writers`, `mirrored_first`, `after_loss`.
        storage: Where table and ledger are: `stretched` is one store that spans the rooms. The key
            `witness` is for other stores, and not in this version.
        after_ms: How long the lease must stand still before a standby takes over from another room.
        give_way_ms: How long a driver reads and commits nothing before it releases its route to a
            room where rows are read.
        check_blocks: What a driver does while blocks of HDFS are in one room only.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, RoomSpec]
    LATER = frozenset({"mirror", "writers", "witness", "mirrored_first", "after_loss"})
    NAMED: ClassVar[type[Block] | None] = RoomSpec
    home: str
    switch: Literal["ask", "auto"] = "ask"
    queue: Annotated[str, AfterValidator(_check_queue)] = "stretched"
    storage: Annotated[str, AfterValidator(_check_storage)] = "stretched"
    after_ms: Annotated[int, *duration("1s", "1h")] = Field(default=10_000, alias="after")
    give_way_ms: Annotated[int, *duration("1s", "1d")] = Field(default=30_000, alias="give_way")
    check_blocks: Literal["wait", "warn", "off"] = "warn"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the rooms, in order."""
        return tuple(sorted(self.__pydantic_extra__ or {}))
