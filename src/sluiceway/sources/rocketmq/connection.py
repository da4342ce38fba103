"""One connection to a name server or broker: many requests under way, answers in any order."""

import contextlib
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sluiceway.errors import JobFileError, SourceUnavailableError, UnhealthyEnvironmentError
from sluiceway.observe.failpoints import edge
from sluiceway.sources.rocketmq.codes import Ask, ResponseCode
from sluiceway.sources.rocketmq.frames import (
    Credentials,
    Reply,
    WireError,
    read_frame,
    read_reply,
    request_frame,
)

_RECEIVE_BYTES: Final = 256 << 10
_SEND_TIMEOUT_S: Final = 10.0
_EDGES: Final[Mapping[Ask, str]] = {
    Ask.PULL: "rocketmq.pull",
    Ask.QUERY_OFFSET: "rocketmq.committed",
    Ask.UPDATE_OFFSET: "rocketmq.report",
    Ask.SEARCH_BY_TIME: "rocketmq.search",
    Ask.MAX_OFFSET: "rocketmq.bounds",
    Ask.MIN_OFFSET: "rocketmq.bounds",
    Ask.ROUTE: "rocketmq.route",
    Ask.CLUSTER: "rocketmq.cluster",
    Ask.TOPICS: "rocketmq.topics",
}


@dataclass(frozen=True, slots=True)
class Tls:
    """How connections are encrypted.

    Attributes:
        ca_file: PEM file of the authorities to trust; empty takes the machine's.
        cert_file: PEM file of a certificate of our own, with `key_file`; empty without.
        verify: Whether a server's certificate is checked. Brokers come with a certificate that no
            authority has signed; there it has to be False.
    """

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    verify: bool = True

    def context(self) -> ssl.SSLContext:
        """What the standard library takes.

        Raises:
            JobFileError: A file cannot be read, or is no PEM file.
        """
        context = ssl.create_default_context()
        # Brokers are found by addresses that no certificate names.
        context.check_hostname = False
        if not self.verify:
            context.verify_mode = ssl.CERT_NONE
        try:
            if self.ca_file:
                context.load_verify_locations(self.ca_file)
            if self.cert_file:
                context.load_cert_chain(self.cert_file, self.key_file or None)
        except OSError as error:
            where = self.ca_file or self.cert_file
            raise JobFileError(
                f"a PEM file of the connection cannot be read: {error}",
                where=str(Path(where)),
                hint="correct `tls` of the connection; the files have to be on every worker",
            ) from error
        return context


class Connection:
    """Requests and answers over one socket. Used by one thread.

    Args:
        address: `host:port`.
        credentials: Login; None without.
        tls: Encryption; None without.
        timeout_s: Longest time that connecting takes.

    Raises:
        SourceUnavailableError: No server listens there.
        UnhealthyEnvironmentError: Its certificate is not to be trusted.
    """

    def __init__(
        self,
        address: str,
        *,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
        timeout_s: float,
    ) -> None:
        self.address = address
        self._credentials = credentials
        self._opaque = 0
        self._buffer = bytearray()
        self._replies: deque[Reply] = deque()
        host, _, port = address.rpartition(":")
        try:
            with edge("rocketmq.connect", address):
                plain = socket.create_connection((host.strip("[]"), int(port)), timeout_s)
        except (OSError, ValueError, OverflowError) as error:
            raise SourceUnavailableError(f"no connection: {error}", where=address) from error
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = plain if tls is None else tls.context().wrap_socket(plain)
            self._socket.settimeout(0)
        except ssl.SSLCertVerificationError as error:
            plain.close()
            raise UnhealthyEnvironmentError(
                f"the server's certificate is not trusted: {error.verify_message}",
                where=address,
                hint="name the authority that has signed it in `tls.ca_file` of the connection, "
                "or write `verify: false` there",
            ) from error
        except (OSError, JobFileError) as error:
            plain.close()
            if isinstance(error, JobFileError):
                raise
            raise SourceUnavailableError(f"no TLS connection: {error}", where=address) from error

    def fileno(self) -> int:
        """For `select`."""
        return self._socket.fileno()

    def send(self, code: Ask, fields: Mapping[str, object]) -> int:
        """Send a request; it is answered some time.

        Returns:
            The request's number, which its answer has too.

        Raises:
            SourceUnavailableError: The connection is lost.
        """
        self._opaque += 1
        left = memoryview(request_frame(self._opaque, code, fields, self._credentials))
        try:
            with edge(_EDGES[code], self.address):
                self._send_all(left)
        except OSError as error:
            raise self._lost(str(error)) from error
        return self._opaque

    def receive(self, timeout_s: float) -> Reply | None:
        """The next answer to any request; None when none comes in time.

        Raises:
            SourceUnavailableError: The connection is lost.
            WireError: What came is no answer.
        """
        deadline_s = time.monotonic() + timeout_s
        while not self._replies:
            if self._fill():
                self._parse()
                continue
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return None
            wait_for_any([self], left_s)
        return self._replies.popleft()

    def call(self, code: Ask, fields: Mapping[str, object], timeout_s: float) -> Reply:
        """Send a request and wait for its answer; answers to others are dropped.

        Raises:
            SourceUnavailableError: The connection is lost, or no answer came in time.
        """
        wanted = self.send(code, fields)
        deadline_s = time.monotonic() + timeout_s
        while True:
            reply = self.receive(max(0.0, deadline_s - time.monotonic()))
            if reply is None:
                raise self._lost(f"no answer within {timeout_s:.0f} s")
            if reply.opaque == wanted:
                return reply

    def close(self) -> None:
        """End the connection. Safe to repeat."""
        with contextlib.suppress(OSError):
            self._socket.close()

    def _send_all(self, left: memoryview) -> None:
        deadline_s = time.monotonic() + _SEND_TIMEOUT_S
        while left:
            try:
                left = left[self._socket.send(left) :]
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                if time.monotonic() > deadline_s:
                    raise self._lost("it takes no requests") from None
                wait_for_any([self], 0.1, writable=True)

    def _fill(self) -> bool:
        """Read what has come; False when there is nothing now."""
        try:
            with edge("rocketmq.receive", self.address):
                part = self._socket.recv(_RECEIVE_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except (OSError, ValueError) as error:
            raise self._lost(str(error)) from error
        if not part:
            raise self._lost("the server closed it")
        self._buffer += part
        return True

    def _parse(self) -> None:
        try:
            while (frame := read_frame(self._buffer)) is not None:
                reply = read_reply(frame)
                if reply is not None and reply.code == ResponseCode.GO_AWAY:
                    raise self._lost("the server asks to go")
                if reply is not None:
                    self._replies.append(reply)
        except WireError as error:
            error.where = error.where or self.address
            raise

    def _lost(self, why: str) -> SourceUnavailableError:
        return SourceUnavailableError(f"the connection is lost: {why}", where=self.address)


def wait_for_any(
    connections: Sequence[Connection], timeout_s: float, *, writable: bool = False
) -> None:
    """Wait until one of the connections can be read, or written; without any, the whole time."""
    poll = select.poll()
    for each in connections:
        # A closed one is read next, and says so.
        if each.fileno() >= 0:
            poll.register(each.fileno(), select.POLLOUT if writable else select.POLLIN)
    poll.poll(max(0.0, timeout_s) * 1000)
