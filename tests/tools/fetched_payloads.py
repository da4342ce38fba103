"""Payloads as the native module fetches them, and work with and without it."""

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from sluiceway.host.native_module import SWITCH, native_module
from sluiceway.types.payloads import JoinedPayloads

T = TypeVar("T")


def joined(payloads: Sequence[bytes | None]) -> Sequence[bytes | None]:
    """The payloads as two fetches of the native module; as they are without it."""
    module = native_module()
    if module is None:
        return payloads
    half = len(payloads) // 2
    return JoinedPayloads([module.Records(payloads[:half]), module.Records(payloads[half:])])


def switched(make: Callable[[], T], *, native: bool) -> T:
    """The result of work with the native module on or off, as the environment has it."""
    before = os.environ.get(SWITCH)
    os.environ[SWITCH] = "1" if native else "0"
    try:
        return make()
    finally:
        os.environ.pop(SWITCH)
        if before is not None:
            os.environ[SWITCH] = before
