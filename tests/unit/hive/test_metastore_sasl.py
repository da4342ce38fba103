"""The metastore's login by SASL, against a server that is a few bytes."""

import struct
from io import BytesIO
from typing import Any

import pytest
from thrift.transport.TTransport import TTransportException

from sluiceway.catalog.kerberos import SaslRefusedError, log_into


class Wire:
    """Answers that are there already, and what was sent."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = BytesIO(b"".join(answers))
        self.sent = b""

    def readAll(self, size: int) -> bytes:  # noqa: N802 - thrift's name
        found = self.answers.read(size)
        if len(found) < size:
            raise TTransportException(message="the end")
        return found

    def write(self, data: bytes) -> None:
        self.sent += data

    def flush(self) -> None:
        """Nothing waits."""


class DamagedError(Exception):
    """What the session says of a frame without its mark."""


class Session:
    """Wraps by a mark, and is complete after the server's first token."""

    failure: type[Exception] = DamagedError

    def __init__(self) -> None:
        self.complete = False

    def step(self, token: bytes | None) -> bytes:
        self.complete = token is not None
        return b"" if self.complete else b"hello"

    def wrap(self, data: bytes, *, sealed: bool) -> bytes:
        return (b"!" if sealed else b"=") + data

    def unwrap(self, data: bytes) -> bytes:
        if data[:1] not in b"!=":
            raise DamagedError("a mark is missing")
        return data[1:]

    def most_bytes(self, wire_bytes: int, *, sealed: bool) -> int:
        del sealed
        return wire_bytes - 1


def said(status: int, payload: bytes) -> bytes:
    return struct.pack(">BI", status, len(payload)) + payload


def offer(layers: int, size: int = 0x00FFFF) -> bytes:
    return said(2, b"=" + bytes([layers]) + size.to_bytes(3, "big"))


def frame(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


TOKEN, DONE = said(2, b"token"), said(5, b"")


@pytest.mark.parametrize(
    ("layers", "layer", "takes", "mark"),
    [(7, 4, 0xFFFFFF, b"!"), (3, 2, 0xFFFFFF, b"="), (1, 1, 0, b"")],
)
def test_strongest_layer_of_the_offer_is_taken(
    layers: int, layer: int, takes: int, mark: bytes
) -> None:
    wire = Wire(TOKEN, offer(layers), DONE, frame(mark + b"answer"))
    transport = log_into(wire, Session())
    answer = said(5, b"=" + bytes([layer]) + takes.to_bytes(3, "big"))
    assert wire.sent == said(1, b"GSSAPI") + said(2, b"hello") + said(2, b"") + answer
    wire.sent = b""
    transport.write(b"question")
    assert wire.sent == frame(mark + b"question")
    assert transport.read(3) + transport.read(100) == b"answer"


def test_no_frame_is_longer_than_the_server_takes() -> None:
    wire = Wire(TOKEN, offer(4, size=5), DONE)
    transport = log_into(wire, Session())
    wire.sent = b""
    transport.write(b"question")
    assert wire.sent == frame(b"!ques") + frame(b"!tion")


@pytest.mark.parametrize(
    ("answers", "kind", "words"),
    [
        ([said(3, b"no such user")], SaslRefusedError, "no such user"),
        ([TOKEN, offer(7), said(4, b"broken")], SaslRefusedError, "broken"),
        ([b"HTTP/1.1 400"], TTransportException, "first byte is 72"),
        ([TOKEN, offer(0)], TTransportException, "no known protection"),
        ([TOKEN, said(2, b"=long offer")], TTransportException, "expected 4"),
        ([TOKEN, said(5, b"")], TTransportException, "expected 2"),
        ([struct.pack(">BI", 2, 1 << 31)], TTransportException, "at most"),
        ([], TTransportException, "the end"),
    ],
)
def test_other_answers_of_a_server_are_told(
    answers: list[bytes], kind: type[Exception], words: str
) -> None:
    wire: Any = Wire(*answers)
    with pytest.raises(kind, match=words):
        log_into(wire, Session())


def test_frame_that_is_damaged_after_the_login_is_a_connection_that_broke() -> None:
    transport = log_into(Wire(TOKEN, offer(4), DONE, frame(b"?answer")), Session())
    with pytest.raises(TTransportException, match="a mark is missing"):
        transport.read(100)


def test_frame_that_cannot_be_sealed_is_a_connection_that_broke() -> None:
    session = Session()
    transport = log_into(Wire(TOKEN, offer(4), DONE), session)

    def over(data: bytes, *, sealed: bool) -> bytes:
        raise DamagedError("the context has expired")

    session.wrap = over  # type: ignore[method-assign]
    with pytest.raises(TTransportException, match="has expired"):
        transport.write(b"question")
