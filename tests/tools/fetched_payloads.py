"""Payloads as the native module fetches them."""

from collections.abc import Sequence

from sluiceway.host.native_module import native_module
from sluiceway.types.payloads import JoinedPayloads


def joined(payloads: Sequence[bytes | None]) -> Sequence[bytes | None]:
    """The payloads as two fetches of the native module; as they are without it."""
    module = native_module()
    if module is None:
        return payloads
    half = len(payloads) // 2
    return JoinedPayloads([module.Records(payloads[:half]), module.Records(payloads[half:])])
