"""The Kerberos side of a metastore's login, through the package `gssapi`."""

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

from thrift.transport.TTransport import TTransportBase, TTransportException

from sluiceway.errors import KerberosRefusedError, KerberosUnavailableError, SluicewayError
from sluiceway.host.kerberos import log_in, login_of, may_come_back, what_to_do

if TYPE_CHECKING:
    from types import ModuleType


MECHANISM: Final = b"GSSAPI"
_START, _OK, _BAD, _ERROR, _COMPLETE = 1, 2, 3, 4, 5
_SAID = {_BAD: "refused the login", _ERROR: "failed at the login"}
# Security layers, as bits of the server's offer.
_PLAIN, _SIGNED, _SEALED = 1, 2, 4
_MAX_SEND_BYTES = 1 << 20
_MAX_FRAME_BYTES = 256 << 20
_OFFER_BYTES = 4


class GssSession(Protocol):
    """One side of a GSSAPI security context; foreign exceptions are its user's.

    Attributes:
        failure: The exception that its calls raise.
    """

    failure: type[Exception]

    @property
    def complete(self) -> bool:
        """Whether both sides are authenticated."""

    def step(self, token: bytes | None) -> bytes:
        """Take the peer's token, and give the next; empty when there is none."""

    def wrap(self, data: bytes, *, sealed: bool) -> bytes:
        """Sign, and where asked encrypt."""

    def unwrap(self, data: bytes) -> bytes:
        """Undo `wrap`."""

    def most_bytes(self, wire_bytes: int, *, sealed: bool) -> int:
        """Most bytes that fit into `wire_bytes` once wrapped."""


class SaslRefusedError(Exception):
    """The server refuses the login; holds its words."""


class SaslWire(TTransportBase):  # type: ignore[misc]
    """A transport over a logged-in connection. `log_into` makes it.

    Args:
        wire: The transport below it.
        session: The security context of the login.
        layer: The security layer that was negotiated.
        send_bytes: Most bytes that the peer accepts at once.
    """

    def __init__(self, wire: Any, session: GssSession, layer: int, send_bytes: int) -> None:
        self._wire = wire
        self._session = session
        self._layer = layer
        self._sealed = layer == _SEALED
        # Without a layer the peer bounds nothing.
        self._at_once = _MAX_SEND_BYTES
        if layer != _PLAIN:
            limit = min(send_bytes, _MAX_SEND_BYTES)
            self._at_once = max(1, session.most_bytes(limit, sealed=self._sealed))
        self._buffer = memoryview(b"")

    def isOpen(self) -> bool:  # noqa: N802 - thrift's name
        """Whether the wire is open."""
        return bool(self._wire.isOpen())

    def close(self) -> None:
        """Close the wire."""
        self._wire.close()

    def read(self, sz: int) -> bytes:
        """Up to `sz` bytes of the current frame; waits for a frame."""
        if not self._buffer:
            data = _read_frame(self._wire)
            if self._layer != _PLAIN:
                with self._as_broken():
                    data = self._session.unwrap(data)
            self._buffer = memoryview(data)
        found, self._buffer = bytes(self._buffer[:sz]), self._buffer[sz:]
        return found

    def write(self, buf: bytes) -> None:
        """Send, as frames."""
        for start in range(0, len(buf), self._at_once):
            data = bytes(buf[start : start + self._at_once])
            if self._layer != _PLAIN:
                with self._as_broken():
                    data = self._session.wrap(data, sealed=self._sealed)
            self._wire.write(struct.pack(">I", len(data)) + data)

    def flush(self) -> None:
        """Flush the wire."""
        self._wire.flush()

    @contextmanager
    def _as_broken(self) -> Iterator[None]:
        """Report a damaged frame, or an expired context, as a broken connection."""
        try:
            yield
        except self._session.failure as error:
            raise TTransportException(message=f"the connection's protection: {error}") from error


def log_into(wire: Any, session: GssSession) -> SaslWire:
    """Log in over a wire that was just opened.

    Raises:
        SaslRefusedError: The server says no.
        TTransportException: The server ends the connection, or does not speak SASL.
    """
    _send(wire, _START, MECHANISM)
    _send(wire, _OK, session.step(None))
    while not session.complete:
        _send(wire, _OK, session.step(_receive(wire, _OK)))
    offer = session.unwrap(_receive(wire, _OK))
    if len(offer) != _OFFER_BYTES:
        raise TTransportException(message=f"the login's offer has {len(offer)} bytes, expected 4")
    send_bytes = int.from_bytes(offer[1:], "big")
    layer = _strongest(offer[0])
    # The size is what we accept at once; without a layer it has to be 0.
    takes = 0 if layer == _PLAIN else min(_MAX_FRAME_BYTES, 0xFFFFFF)
    answer = bytes([layer]) + takes.to_bytes(3, "big")
    _send(wire, _COMPLETE, session.wrap(answer, sealed=False))
    _receive(wire, _COMPLETE)
    return SaslWire(wire, session, layer, send_bytes)


def _strongest(offered: int) -> int:
    """The strongest layer of the offer; a server offers what `hadoop.rpc.protection` lists."""
    for layer in (_SEALED, _SIGNED, _PLAIN):
        if offered & layer:
            return layer
    raise TTransportException(message=f"the login offers no known protection: {offered}")


def _send(wire: Any, status: int, payload: bytes) -> None:
    wire.write(struct.pack(">BI", status, len(payload)) + payload)
    wire.flush()


def _receive(wire: Any, expected: int) -> bytes:
    status = wire.readAll(1)[0]
    if status not in (_OK, _BAD, _ERROR, _COMPLETE):
        raise TTransportException(message=f"no answer of a login: its first byte is {status}")
    payload = _read_frame(wire)
    if status in _SAID:
        words = payload.decode(errors="replace")
        raise SaslRefusedError(f"the metastore {_SAID[status]}: {words}")
    if status != expected:
        raise TTransportException(message=f"step {status} of a login came, expected {expected}")
    return payload


def _read_frame(wire: Any) -> bytes:
    size = int.from_bytes(wire.readAll(4), "big")
    if size > _MAX_FRAME_BYTES:
        raise TTransportException(message=f"a frame of {size} bytes, at most {_MAX_FRAME_BYTES}")
    return bytes(wire.readAll(size))


SERVICE = "service_principal"
"""Option that asks for Kerberos on a connection."""

_HOST = "_HOST"


def secured(wire: Any, host: str, options: Mapping[str, str]) -> Any:
    """The wire itself, or a logged-in one where the options ask for it.

    Called for each new connection, on the driver.

    Args:
        wire: The transport, just opened.
        host: Host of the server.
        options: Options of the connection.

    Raises:
        KerberosRefusedError: The realm or the metastore refuses, or a package is missing.
        KerberosUnavailableError: No KDC answers.
        TTransportException: The connection broke, or the peer is no metastore.
    """
    service = options.get(SERVICE)
    if service is None:
        return wire
    gssapi = _gssapi()
    login = login_of(options)
    if login is not None:
        log_in(login)
    principal = service.replace(_HOST, host.lower())
    try:
        return _log_into(wire, _Session(gssapi, principal))
    except gssapi.exceptions.GSSError as error:
        raise _refusal(principal, str(error)) from error
    except SaslRefusedError as error:
        raise KerberosRefusedError(
            f"{principal}: {error}",
            hint=what_to_do(str(error))
            or "is service_principal the one that the metastore runs as? Its log says more",
        ) from error


def _log_into(wire: Any, session: "_Session") -> SaslWire:
    try:
        return log_into(wire, session)
    except (TTransportException, EOFError) as error:
        raise TTransportException(
            message=f"{error}; one without SASL answers like this: its connection has no "
            "`kerberos` then"
        ) from error


def _refusal(principal: str, said: str) -> SluicewayError:
    kind = KerberosUnavailableError if may_come_back(said) else KerberosRefusedError
    return kind(f"no login at the metastore's principal {principal}: {said}", hint=what_to_do(said))


class _Session:
    def __init__(self, gssapi: "ModuleType", principal: str) -> None:
        self.failure: type[Exception] = gssapi.exceptions.GSSError
        name = gssapi.Name(principal, name_type=gssapi.NameType.kerberos_principal)
        flag = gssapi.RequirementFlag
        self._context = gssapi.SecurityContext(
            name=name,
            mech=gssapi.MechType.kerberos,
            usage="initiate",
            flags=flag.mutual_authentication | flag.integrity | flag.confidentiality,
        )

    @property
    def complete(self) -> bool:
        return bool(self._context.complete)

    def step(self, token: bytes | None) -> bytes:
        return self._context.step(token) or b""

    def wrap(self, data: bytes, *, sealed: bool) -> bytes:
        return bytes(self._context.wrap(data, sealed).message)

    def unwrap(self, data: bytes) -> bytes:
        return bytes(self._context.unwrap(data).message)

    def most_bytes(self, wire_bytes: int, *, sealed: bool) -> int:
        return int(self._context.get_wrap_size_limit(wire_bytes, encrypted=sealed))


def _gssapi() -> "ModuleType":
    try:
        # An extra, since it is built against the system's Kerberos.
        return import_module("gssapi")
    except ImportError as error:
        raise KerberosRefusedError(
            "the Python package gssapi is needed for a metastore with Kerberos, and is not here",
            hint="pip install 'sluiceway[kerberos]'; on Debian and Ubuntu before it: apt-get "
            "install gcc python3-dev libkrb5-dev",
        ) from error
