"""How requests and answers go to a process and back: length, then a pickle."""

import os
import pickle
import struct
import time
from collections.abc import Callable
from select import POLLIN, POLLOUT, poll
from typing import Any

_LENGTH = struct.Struct(">Q")
_CHUNK = 1 << 16
_LOOK_S = 0.2

Check = Callable[[], None]
"""Called again and again while the other side is waited for; raises to give up."""


def until(end_s: float) -> Check:
    """A check that gives up at a time of the steady clock.

    Raises:
        TimeoutError: By the check.
    """

    def check() -> None:
        if time.monotonic() >= end_s:
            raise TimeoutError

    return check


def framed(what: object) -> bytes:
    """What goes through the pipe."""
    raw = pickle.dumps(what)
    return _LENGTH.pack(len(raw)) + raw


def read_frame(source: int, check: Check | None = None) -> Any | None:
    """The next request or answer; None where the other side has closed before one.

    Args:
        source: Descriptor.
        check: See `Check`; None waits for ever.

    Raises:
        EOFError: The other side ended in the midst of one.
        Exception: What the check raises.
    """
    raw = read_raw(source, check)
    return None if raw is None else pickle.loads(raw)  # noqa: S301 - from our own process


def read_raw(source: int, check: Check | None = None) -> bytes | None:
    """A frame's pickle, not read yet; as `read_frame`."""
    head = _read(source, _LENGTH.size, check)
    if not head:
        return None
    (length,) = _LENGTH.unpack(head)
    raw = _read(source, length, check)
    if length and not raw:
        raise EOFError
    return raw


def write_frame(target: int, frame: bytes, check: Check) -> None:
    """Write a frame.

    Raises:
        OSError: The other side is gone.
        Exception: What the check raises.
    """
    os.set_blocking(target, False)
    left = memoryview(frame)
    while left:
        check()
        if _is_ready(target, POLLOUT):
            left = left[os.write(target, left[:_CHUNK]) :]


def _read(source: int, length: int, check: Check | None) -> bytes:
    """So many bytes; none at all where the other side has closed before the first."""
    parts: list[bytes] = []
    held = 0
    while held < length:
        if check is not None:
            check()
            if not _is_ready(source, POLLIN):
                continue
        part = os.read(source, min(length - held, 1 << 20))
        if not part:
            if held:
                raise EOFError
            return b""
        parts.append(part)
        held += len(part)
    return b"".join(parts)


def _is_ready(descriptor: int, event: int) -> bool:
    # Not `select`, which takes no handle above 1,023: drivers of many routes have more.
    ready = poll()
    ready.register(descriptor, event)
    return bool(ready.poll(_LOOK_S * 1000))
