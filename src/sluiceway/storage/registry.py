"""Which storage serves a location: this package's own, or a plug-in's by the URI's scheme."""

import re
from collections.abc import Callable, Mapping

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.plugins import PluginGroup, find_implementation, opened, plugin_names
from sluiceway.storage.contract import Storage
from sluiceway.storage.local import LocalStorage, local_path

OpenStorage = Callable[[str], tuple[Storage, str]]
"""What an entry point of `sluiceway.storage` names: a location -> its storage, and the location
as that storage names it: a URI of its scheme, without a trailing slash. Paths below it are made by
adding `/name`; the name opened again gives itself, because tasks open what the driver opened.
Called once per driver, task or tool; raises `UnhealthyEnvironmentError` for a wrong location."""

# Scheme and colon; a plain path has none. Nothing else of a location is looked at here.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


def _open_local(location: str) -> tuple[Storage, str]:
    return LocalStorage(), str(local_path(location))


_BUILT_IN: Mapping[str, OpenStorage] = {"file": _open_local}


def open_storage(location: str) -> tuple[Storage, str]:
    """Storage for a table's location, and the location as that storage names it.

    Called once per driver, task or tool.

    Args:
        location: Path or URI as the metastore holds it.

    Raises:
        UnhealthyEnvironmentError: Nothing installed here serves the scheme.
    """
    match = _SCHEME.match(location)
    scheme = match[1].lower() if match else "file"
    if scheme not in _BUILT_IN and scheme not in plugin_names(PluginGroup.STORAGE):
        served = ", ".join(sorted({*_BUILT_IN, *plugin_names(PluginGroup.STORAGE)}))
        raise UnhealthyEnvironmentError(
            f"expected a location whose scheme is one of {served}, got {location}",
            hint="give the table a location that begins with file:/, or install the storage "
            "plug-in for its scheme on the driver and on every worker",
        )
    open_it: OpenStorage = find_implementation(PluginGroup.STORAGE, scheme, _BUILT_IN)
    storage, named = opened(PluginGroup.STORAGE, scheme, tuple, lambda: open_it(location))
    if scheme not in _BUILT_IN and not named.startswith(f"{scheme}:"):
        # A task would take a plain path for one of its own machine.
        raise UnhealthyEnvironmentError(
            f"the storage plug-in {scheme!r} names {location} as {named}, which is not its scheme",
            hint="a fault of the plug-in; tell its author",
        )
    return storage, named
