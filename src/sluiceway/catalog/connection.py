"""One connection to a Hive Metastore: opened when needed, reopened after errors."""

import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from pymetastore.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from sluiceway.catalog.idle_connections import (
    PROCESS_CONNECTIONS,
    IdleConnections,
    OpenConnection,
)
from sluiceway.catalog.kerberos import secured
from sluiceway.catalog.tls import tls_context
from sluiceway.errors import (
    JobFileError,
    MetastoreUnavailableError,
    SluicewayError,
    TableMismatchError,
    UnhealthyEnvironmentError,
)
from sluiceway.observe.failpoints import edge

Answer = TypeVar("Answer")

_CONNECT_TIMEOUT_S = 5.0
_SCHEME = "thrift://"
_PERHAPS_TLS = "one that wants TLS answers like this; its connection needs `tls` then"
_NOT_THERE = "start it, or correct the `uri` of its connection; a firewall may be between"
NO_OPTIONS: Mapping[str, str] = MappingProxyType({})

# Semantic answers; MetaException is apart: the server uses it for its own failures too.
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
# What a broken or foreign peer makes of the stream; the connection is of no use afterwards.
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
        options: How it is reached besides, see `tls_context` and `kerberos.secured`.
        idle: Gives an open connection, where there is one, and gets it back.
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

        An idle connection that the server had closed is opened again once; a call that timed
        out is not repeated.

        Args:
            what: For messages, as `read table a.b`.
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
        """The error of our own tree for a foreign one."""
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
            client = ThriftHiveMetastore.Client(TBinaryProtocolAccelerated(transport))
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
        """Let others of the process use the connection. Safe to repeat."""
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
    """The edge of a call: `metastore.read_table` of `read table a.b`."""
    return f"metastore.{'_'.join(what.split()[:2])}"


def _may_repeat(cause: BaseException | None) -> bool:
    if isinstance(cause, TTransportException):
        return not _is_silence(cause)
    return isinstance(cause, OSError) and not isinstance(cause, TimeoutError)
