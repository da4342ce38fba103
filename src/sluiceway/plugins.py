"""Finds implementations that other packages declare as entry points.

A plug-in is found by its name in every process that needs it, driver and worker alike: plans
carry names and options, never objects. Only what is used is imported.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from sluiceway.errors import SluicewayError, UnhealthyEnvironmentError

T = TypeVar("T")


class PluginGroup(StrEnum):
    """Entry point groups, one a contract."""

    SOURCES = "sluiceway.sources"
    FORMATS = "sluiceway.formats"
    SINKS = "sluiceway.sinks"
    STORAGE = "sluiceway.storage"
    PARTITIONERS = "sluiceway.partitioners"


def plugin_names(group: PluginGroup) -> tuple[str, ...]:
    """Names that installed packages declare, in order. Imports none of them.

    Called when a job file has a key that is no built-in's, and for messages.
    """
    return tuple(sorted(declared_plugins(group)))


def find_implementation(group: PluginGroup, name: str, built_in: Mapping[str, Any]) -> Any:
    """The object that a name stands for: a built-in's or an entry point's. Called once per use.

    Args:
        group: Which contract.
        name: Name as the job file or a location's scheme has it.
        built_in: Name -> object of this package, or where it is, as `module:name`.

    Raises:
        UnhealthyEnvironmentError: No one has the name, several have it, or it fails on import;
            names the packages.
    """
    declared = declared_plugins(group).get(name, ())
    if len(declared) + (name in built_in) > 1:
        owners = [*(["sluiceway"] if name in built_in else []), *map(_package, declared)]
        raise UnhealthyEnvironmentError(
            f"{len(owners)} packages declare the name {name!r} in {group}: {', '.join(owners)}",
            hint="uninstall all but one, or ask an author for another name",
        )
    if name in built_in:
        return _own(built_in[name])
    if not declared:
        there = ", ".join(sorted({*built_in, *declared_plugins(group)}))
        raise UnhealthyEnvironmentError(
            f"nothing installed here has the name {name!r} in {group}; there is: {there}",
            hint="install the package that has it on the driver and on every worker",
        )
    return _loaded(declared[0])


def opened(
    group: PluginGroup,
    name: str,
    wanted: type[T],
    make: Callable[[], object],
    *,
    allowed_errors: tuple[type[Exception], ...] = (),
) -> T:
    """What `make` opens; a plug-in's own faults become errors of ours.

    Args:
        group: Which contract.
        name: Name as the job file or a location's scheme has it.
        wanted: What has to come back.
        make: Calls what `find_implementation` found.
        allowed_errors: What the contract lets it raise in addition to our own errors.

    Raises:
        UnhealthyEnvironmentError: It raised what its contract does not have, or made another thing.
    """
    expected: tuple[type[Exception], ...] = (SluicewayError, *allowed_errors)
    try:
        found = make()
    except expected:
        raise
    except Exception as error:
        raise UnhealthyEnvironmentError(
            f"{name!r} of {group} fails when it is opened: "
            f"{type(error).__name__}: {str(error)[:300]}",
            hint="a fault of the plug-in; tell its author",
        ) from error
    if not isinstance(found, wanted):
        raise UnhealthyEnvironmentError(
            f"{name!r} of {group} opens a {type(found).__name__}, not a {wanted.__name__}",
            hint="a fault of the plug-in; tell its author",
        )
    return found


def declared_plugins(group: PluginGroup) -> dict[str, tuple[EntryPoint, ...]]:
    """Entry points by name; several where packages have taken the same one."""
    return installed_plugins()[group]


@cache
def installed_plugins() -> dict[PluginGroup, dict[str, tuple[EntryPoint, ...]]]:
    """Plug-ins of all groups, found once a process: the scan reads every package's metadata."""
    installed = entry_points()
    return {group: _by_name(installed.select(group=group)) for group in PluginGroup}


def _by_name(points: Iterable[EntryPoint]) -> dict[str, tuple[EntryPoint, ...]]:
    found: dict[str, dict[str, EntryPoint]] = {}
    for point in points:
        # A package that is on the path twice is still one package.
        found.setdefault(point.name, {}).setdefault(_package(point), point)
    return {name: tuple(by[package] for package in sorted(by)) for name, by in found.items()}


def _own(found: Any) -> Any:
    """An object of this package; what is named is imported now, and the rest is not."""
    if not isinstance(found, str):
        return found
    module, _, name = found.partition(":")
    return getattr(import_module(module), name)


def _loaded(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:
        raise UnhealthyEnvironmentError(
            f"the plug-in {point.name!r} of {_package(point)} fails on import: "
            f"{type(error).__name__}: {str(error)[:300]}",
            where=f"{point.group} {point.name} = {point.value}",
            hint="mend or uninstall that package",
        ) from error


def _package(point: EntryPoint) -> str:
    """Name and version of the package that declares an entry point."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unnamed package"
