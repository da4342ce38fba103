"""The base of every mapping of a job file."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from sluiceway.jobfile.blocks.values import Option, Secret
from sluiceway.plugins import PluginGroup


class Block(BaseModel):
    """A mapping of the job file.

    Attributes:
        LATER: Keys of the design that this version does not have.
        ONE_OF: Keys of which exactly one is given.
        PLUGINS: Plug-ins whose names are allowed as well as `ONE_OF`, with their options.
        NAMED: Block of each mapping under another key, which is a name; None allows no other key.
        NULL_WORDS: Keys for which a plain `null` is a word, as the name of their effect.
    """

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        arbitrary_types_allowed=True,
        # Most jobs use few of the blocks; a class is built when the first job uses it.
        defer_build=True,
    )
    LATER: ClassVar[frozenset[str]] = frozenset()
    ONE_OF: ClassVar[tuple[str, ...]] = ()
    PLUGINS: ClassVar[tuple[PluginGroup, ...]] = ()
    NAMED: "ClassVar[type[Block] | None]" = None
    NULL_WORDS: ClassVar[frozenset[str]] = frozenset()


class PluginBlock(Block):
    """A block that names a built-in kind or a plug-in; the check of the keys finds the names."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Mapping[str, Option]]

    @property
    def plugin(self) -> tuple[str, Mapping[str, str | Secret]] | None:
        """The plug-in's name and its options as they are written; None for a built-in kind."""
        return next(iter((self.__pydantic_extra__ or {}).items()), None)


def mapping(found: object, *path: str) -> Mapping[str, Any]:
    """The mapping at `path`; empty where there is none."""
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}
