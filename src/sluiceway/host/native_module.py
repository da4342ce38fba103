"""The optional native module: found where it is installed, used when this version can call it."""

import os
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Final

MODULE = "sluiceway_native"
# The interface that this version calls; see `INTERFACE` in native/src/lib.rs.
INTERFACE: Final = 8
SWITCH: Final = "SLUICEWAY_NATIVE"


def native_module(environ: Mapping[str, str] | None = None) -> ModuleType | None:
    """The native module, when this process can use one.

    Called when a decoder or a consumer is made; cheap after the first time.

    Args:
        environ: Variables to use; None for the process's own.

    Returns:
        None when it is not installed, was built for another version of this package, or is
        switched off by `SLUICEWAY_NATIVE=0`.
    """
    if (os.environ if environ is None else environ).get(SWITCH) == "0" or find_spec(MODULE) is None:
        return None
    module = import_module(MODULE)
    return module if module.INTERFACE == INTERFACE else None
