"""Which source serves a connection: this package's own, or a plug-in's by its name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.plugins import PluginGroup, find_implementation, opening
from sluiceway.sources.contract import Source, SourceClient, Split, SplitReader
from sluiceway.sources.kafka.source import KafkaSource

_BUILT_IN: Mapping[str, Callable[[], Source]] = {"kafka": KafkaSource}


@dataclass(frozen=True, slots=True)
class SourceAccess:
    """How a driver or a task reaches a source; a value, so that it reaches the workers.

    Attributes:
        kind: The source's name, as the job file's connection has it.
        options: Names and values as text, in order. May hold secrets: never logged.
    """

    kind: str
    options: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        return f"SourceAccess({self.kind!r}, <{len(self.options)} options>)"


def check_access(access: SourceAccess) -> None:
    """Refuse options that the source cannot have. Called when a job is compiled; without I/O.

    Raises:
        ValueError: Says which and why.
        JobFileError: The same, with a hint.
        UnhealthyEnvironmentError: Nothing installed here has the name, or it does not work.
    """
    with opening(PluginGroup.SOURCES, access.kind):
        _source(access).check(dict(access.options))


def open_client(access: SourceAccess, request_timeout_s: float) -> SourceClient:
    """The driver's view of a source. Called once per driver, tool and connection."""
    with opening(PluginGroup.SOURCES, access.kind):
        options = dict(access.options)
        return _source(access).open_client(options, request_timeout_s=request_timeout_s)


def open_reader(access: SourceAccess, splits: list[Split], *, owner: str) -> SplitReader:
    """A task's reader of splits of one source. Called once per task and connection."""
    with opening(PluginGroup.SOURCES, access.kind):
        return _source(access).open_reader(splits, dict(access.options), owner=owner)


def _source(access: SourceAccess) -> Source:
    source = find_implementation(PluginGroup.SOURCES, access.kind, _BUILT_IN)()
    if not isinstance(source, Source):
        raise UnhealthyEnvironmentError(
            f"the plug-in {access.kind!r} of {PluginGroup.SOURCES} is no Source but a "
            f"{type(source).__name__}",
            hint="a fault of the plug-in; tell its author",
        )
    return source
