"""What a mapping is that names one kind of something, built in or from a plug-in."""

from collections.abc import Mapping

from pydantic import ConfigDict

from sluiceway.jobfile.blocks.block import Block
from sluiceway.jobfile.blocks.values import Option, Secret


class PluginBlock(Block):
    """A block that names a built-in kind or a plug-in; the first look at the file has the names."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Mapping[str, Option]]

    @property
    def plugin(self) -> tuple[str, Mapping[str, str | Secret]] | None:
        """The plug-in's name and its options as they are written; None for a built-in kind."""
        return next(iter((self.__pydantic_extra__ or {}).items()), None)
