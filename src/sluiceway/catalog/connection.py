"""One connection to a Hive Metastore: opened when needed, reopened after errors."""

import os
import re
import select
import socket
import ssl
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from pymetastore.hive_metastore import ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from sluiceway.catalog.kerberos import secured
from sluiceway.catalog.thrift_calls import MetastoreMethods
from sluiceway.errors import (
    JobFileError,
    MetastoreUnavailableError,
    SluicewayError,
    TableMismatchError,
    UnhealthyEnvironmentError,
)
from sluiceway.observe.failpoints import edge

_MOST_KEPT = 4
_LONGEST_REST_S = 30.0


@dataclass(frozen=True, slots=True)
class OpenConnection:
    """A connection whose last call was answered as a whole.

    Attributes:
        wire: The stream below the transport; only the transport reads it.
        client: The thrift client over the transport.
        owner: The process that opened it; a fork must not use its copy.
    """

    wire: socket.socket
    transport: TBufferedTransport
    client: Any
    owner: int = field(default_factory=os.getpid)

    def is_usable(self) -> bool:
        """Whether this process may use it, and the server has neither closed it nor sent more."""
        if self.owner != os.getpid():
            return False
        poll = select.poll()
        poll.register(self.wire, select.POLLIN)
        return not poll.poll(0)


class IdleConnections:
    """Keeps a few open connections of each server for a while. Safe for threads.

    Args:
        clock: Seconds, steady.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: defaultdict[Hashable, list[tuple[float, OpenConnection]]] = defaultdict(list)
        os.register_at_fork(after_in_child=self._begin_anew)

    def keep(self, server: Hashable, connection: OpenConnection) -> None:
        """Give back a connection that is no longer used; one too many is closed.

        Args:
            server: Address and options of the connection.
            connection: The connection; the caller does not use it again.
        """
        with self._lock:
            kept = self._kept[server]
            kept.append((self._clock(), connection))
            dropped = self._outworn(kept)
        _close_all(dropped)

    def acquire(self, server: Hashable) -> OpenConnection | None:
        """An open connection, the last kept first; None when there is none."""
        found: OpenConnection | None = None
        with self._lock:
            kept = self._kept[server]
            dropped = self._outworn(kept)
            while kept and found is None:
                _, connection = kept.pop()
                if connection.is_usable():
                    found = connection
                else:
                    dropped.append(connection)
        _close_all(dropped)
        return found

    def _outworn(self, kept: list[tuple[float, OpenConnection]]) -> list[OpenConnection]:
        oldest = self._clock() - _LONGEST_REST_S
        count = max(len(kept) - _MOST_KEPT, sum(since < oldest for since, _ in kept))
        dropped = [connection for _, connection in kept[:count]]
        del kept[:count]
        return dropped

    def _begin_anew(self) -> None:
        # The lock may be held by a thread that the fork does not have.
        self._lock = threading.Lock()


def _close_all(connections: list[OpenConnection]) -> None:
    for each in connections:
        each.transport.close()


PROCESS_CONNECTIONS = IdleConnections()
"""The connections of this process."""


def tls_context(options: Mapping[str, str]) -> ssl.SSLContext | None:
    """The TLS settings of a connection; None without TLS.

    Called for each new connection, so that renewed files count.

    Args:
        options: `tls`, `ca_file`, `cert_file`, `key_file`, as the job file's connection has them.

    Raises:
        UnhealthyEnvironmentError: A file is missing, or is no certificate or key.
    """
    if options.get("tls") != "true":
        return None
    cert_file = options.get("cert_file")
    try:
        context = ssl.create_default_context(cafile=options.get("ca_file"))
        if cert_file is not None:
            # Without a password here, an encrypted key would be asked for on the terminal.
            context.load_cert_chain(cert_file, options.get("key_file"), password="")
    except (OSError, ValueError) as error:
        named = ", ".join(options[name] for name in _FILES if name in options)
        raise UnhealthyEnvironmentError(
            f"a certificate for the metastore cannot be used: {error}",
            where=named,
            hint="check ca_file, cert_file and key_file of its connection on this machine",
        ) from error
    return context


_FILES = ("ca_file", "cert_file", "key_file")


Answer = TypeVar("Answer")

_CONNECT_TIMEOUT_S = 5.0
_SCHEME = "thrift://"
_PERHAPS_TLS = "a metastore that wants TLS answers like this; its connection needs `tls` then"
_NOT_THERE = "start it, or correct the `uri` of its connection; a firewall may be between"
NO_OPTIONS: Mapping[str, str] = MappingProxyType({})

# Semantic answers. MetaException is not among them: the server uses it for its own failures.
NoSuchObject = ttypes.NoSuchObjectException
AlreadyExists = ttypes.AlreadyExistsException
InvalidObject = ttypes.InvalidObjectException
ServerFailure = ttypes.MetaException
_REFUSALS = (
    NoSuchObject,
    AlreadyExists,
    InvalidObject,
    ttypes.InvalidOperationException,
    ttypes.InvalidInputException,
)
_DECLARED = (*_REFUSALS, ServerFailure)
# What a broken or foreign peer makes of the stream; the connection is unusable afterwards.
_BROKEN = (
    TTransportException,
    TProtocolException,
    TApplicationException,
    OSError,
    EOFError,
    UnicodeDecodeError,
)


class MethodMissingError(UnhealthyEnvironmentError):
    """The server's version lacks a method."""


def parse_metastore_uris(text: str) -> tuple[tuple[str, int], ...]:
    """Hosts and ports of `thrift://h:p[,thrift://h:p]`.

    Raises:
        JobFileError: Not such a list.
    """
    found = []
    for part in text.split(","):
        address = part.strip().rstrip("/")
        host, colon, port = address.removeprefix(_SCHEME).rpartition(":")
        if not (address.startswith(_SCHEME) and host and colon and port.isdecimal()):
            raise JobFileError(
                f"expected thrift://host:port, got {part.strip()!r}",
                hint="several are separated by commas",
            )
        found.append((host.strip("[]"), int(port)))
    return tuple(found)


class MetastoreCalls:
    """Calls the metastore; safe for several threads, one call at a time.

    Args:
        uris: `thrift://host:port`, several separated by commas, tried in turn.
        timeout_s: Longest wait for bytes of an answer.
        options: How to connect, see `tls_context` and `kerberos.secured`.
        idle: Lends an open connection, where there is one, and gets it back.
    """

    def __init__(
        self,
        uris: str,
        timeout_s: float,
        options: Mapping[str, str] = NO_OPTIONS,
        idle: IdleConnections = PROCESS_CONNECTIONS,
    ) -> None:
        self._uris = uris
        self._options = options
        self._addresses = parse_metastore_uris(uris)
        self._timeout_s = timeout_s
        self._lock = threading.RLock()
        self._idle = idle
        self._server = (uris, timeout_s, *sorted(options.items()))
        self._opened: OpenConnection | None = None
        self._has_answered = False

    def call(
        self,
        what: str,
        ask: Callable[[Any], Answer],
        *,
        expected: Sequence[type[Exception]] = (),
    ) -> Answer:
        """Ask the metastore. `ask` may run twice and must be safe to repeat.

        An idle connection that the server had closed is opened again once. A call that timed out is
        not repeated.

        Args:
            what: For messages, such as `read table a.b`.
            ask: Gets the thrift client, returns the answer.
            expected: Thrift exceptions that the caller handles itself.

        Raises:
            MetastoreUnavailableError: No answer, a broken one, or a failure of the server.
            TableMismatchError: The server refuses.
            MethodMissingError: The server's version lacks the method.
        """
        with self._lock:
            if self._opened is None:
                self._opened = self._idle.acquire(self._server)
            reused = self._opened is not None
            self._has_answered |= reused
            try:
                return self._ask(what, ask, tuple(expected))
            except MetastoreUnavailableError as error:
                if not reused or not _may_repeat(error.__cause__):
                    raise
            return self._ask(what, ask, tuple(expected))

    def _ask(
        self, what: str, ask: Callable[[Any], Answer], expected: tuple[type[Exception], ...]
    ) -> Answer:
        client = self._opened.client if self._opened else self._open()
        answered = False
        try:
            with edge(failpoint_of(what), what):
                answer = ask(client)
            answered = self._has_answered = True
        except expected:
            answered = True
            raise
        except (*_DECLARED, *_BROKEN) as error:
            answered = isinstance(error, _DECLARED)
            raise self._translate(what, error) from error
        finally:
            # Without a whole answer the stream may still bring the rest of one.
            if not answered:
                self._drop()
        return answer

    def _translate(self, what: str, error: Exception) -> SluicewayError:
        """Our own error for a foreign one."""
        said = getattr(error, "message", None) or str(error) or type(error).__name__
        unknown = TApplicationException.UNKNOWN_METHOD
        if isinstance(error, TApplicationException) and error.type == unknown:
            return MethodMissingError(
                f"{what}: the metastore lacks the method: {said}",
                where=self._uris,
                hint="Hive Metastore 2.3 to 4.0 is expected",
            )
        if isinstance(error, _REFUSALS):
            return TableMismatchError(f"{what}: the metastore refuses: {said}")
        if isinstance(error, ServerFailure):
            return self._unavailable(f"{what}: the metastore failed: {said}")
        foreign = isinstance(error, TTransportException | TProtocolException)
        unknown = foreign and not self._has_answered and not self._options
        hint = _PERHAPS_TLS if unknown and not _is_silence(error) else ""
        return self._unavailable(f"{what}: no answer from the metastore: {said}", hint)

    def _unavailable(self, message: str, hint: str = "") -> SluicewayError:
        return MetastoreUnavailableError(message, where=self._uris, hint=hint)

    def _open(self) -> Any:
        failures: list[str] = []
        cause: OSError | None = None
        context = tls_context(self._options)
        for host, port in self._addresses:
            try:
                with edge("metastore.connect", f"{host}:{port}"):
                    handle = _connect(host, port, min(self._timeout_s, _CONNECT_TIMEOUT_S), context)
            except OSError as error:
                failures.append(f"{host}:{port}: {error}")
                cause = error
                continue
            handle.settimeout(self._timeout_s)
            # Opened here and not by thrift, which would log each failure as an error.
            wire = TSocket(host, port)
            wire.setTimeout(self._timeout_s * 1000)
            wire.setHandle(handle)
            transport = TBufferedTransport(self._logged_in(wire, host))
            client = MetastoreMethods(TBinaryProtocolAccelerated(transport))
            self._opened = OpenConnection(handle, transport, client)
            return client
        raise self._unavailable(f"cannot connect: {'; '.join(failures)}", _hint(cause)) from cause

    def _logged_in(self, wire: TSocket, host: str) -> Any:
        try:
            return secured(wire, host, self._options)
        except _BROKEN as error:
            wire.close()
            raise self._translate("log in", error) from error
        except SluicewayError:
            wire.close()
            raise

    def close(self) -> None:
        """Let other threads of the process use the connection. Safe to repeat."""
        with self._lock:
            if self._opened is not None:
                self._idle.keep(self._server, self._opened)
            self._opened = None

    def _drop(self) -> None:
        if self._opened is not None:
            self._opened.transport.close()
        self._opened = None


def _connect(
    host: str, port: int, timeout_s: float, context: ssl.SSLContext | None
) -> socket.socket:
    handle = socket.create_connection((host, port), timeout=timeout_s)
    if context is None:
        return handle
    try:
        return context.wrap_socket(handle, server_hostname=host)
    except BaseException:
        handle.close()
        raise


def _hint(cause: OSError | None) -> str:
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "name the authorities that signed its certificate in `tls.ca_file` of its connection"
    if isinstance(cause, ssl.SSLError | ConnectionResetError):
        return "a metastore without TLS wants a connection without `tls`"
    return _NOT_THERE


def _is_silence(error: Exception) -> bool:
    return isinstance(error, TTransportException) and error.type == error.TIMED_OUT


def failpoint_of(what: str) -> str:
    """The failpoint of a call: `metastore.read_table` of `read table a.b`."""
    return f"metastore.{'_'.join(what.split()[:2])}"


def _may_repeat(cause: BaseException | None) -> bool:
    if isinstance(cause, TTransportException):
        return not _is_silence(cause)
    return isinstance(cause, OSError) and not isinstance(cause, TimeoutError)


_MAJOR = re.compile(r"(\d+)\.")


def major_version(text: str) -> int:
    """The first number of a version; 0 when there is none. A server before 4 answers `3.0`."""
    found = _MAJOR.match(text)
    return int(found[1]) if found else 0
