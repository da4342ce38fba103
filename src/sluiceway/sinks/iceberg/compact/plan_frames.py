"""How plans and answers go to a process that works on files, and back: length, then a pickle."""

import os
import pickle
import select
import struct
import time
from typing import Any

_LENGTH = struct.Struct(">Q")
_CHUNK = 1 << 16


def framed(what: object) -> bytes:
    """What goes through the pipe."""
    raw = pickle.dumps(what)
    return _LENGTH.pack(len(raw)) + raw


def read_frame(source: int, until_s: float | None = None) -> Any | None:
    """The next plan or answer; None where the other side has closed before one.

    Args:
        source: Descriptor.
        until_s: Of the steady clock; None waits for ever.

    Raises:
        TimeoutError: It has not come until then.
        EOFError: The other side ended in the midst of one.
    """
    head = _read(source, _LENGTH.size, until_s)
    if not head:
        return None
    (length,) = _LENGTH.unpack(head)
    return pickle.loads(_read(source, length, until_s))  # noqa: S301 - our own process


def write_frame(target: int, frame: bytes, until_s: float) -> None:
    """Write a frame.

    Raises:
        TimeoutError: The other side has not taken it until then.
        OSError: The other side is gone.
    """
    os.set_blocking(target, False)
    left = memoryview(frame)
    while left:
        _, free, _ = select.select([], [target], [], max(0.0, until_s - time.monotonic()))
        if not free:
            raise TimeoutError
        left = left[os.write(target, left[:_CHUNK]) :]


def _read(source: int, length: int, until_s: float | None) -> bytes:
    """So many bytes; none at all where the other side has closed before the first."""
    parts: list[bytes] = []
    held = 0
    while held < length:
        wait_s = None if until_s is None else max(0.0, until_s - time.monotonic())
        ready, _, _ = select.select([source], [], [], wait_s)
        if not ready:
            raise TimeoutError
        part = os.read(source, min(length - held, 1 << 20))
        if not part:
            if held:
                raise EOFError
            return b""
        parts.append(part)
        held += len(part)
    return b"".join(parts)
