"""Serves the page until a signal stops it."""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from sluiceway.console.access import PageAccess
from sluiceway.errors import UnhealthyEnvironmentError

MAX_CONNECTIONS = 64
_BACKLOG = 64
_KEEP_ALIVE_S = 5
_LAST_ANSWERS_S = 3
_REQUEST_S = 5.0
_ANSWER_S = 120.0


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Certificate chain and private key, as PEM files."""

    certificate: Path
    key: Path


class _Connection(H11Protocol):
    """Closes connections of clients that are slow to ask, or do not read the answer.

    uvicorn waits for as long as a client likes, and `MAX_CONNECTIONS` such clients keep others out.
    """

    _timer: asyncio.TimerHandle | None = None
    _answered: object = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Called by the event loop."""
        super().connection_made(transport)
        self._expect_within(_REQUEST_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Called once for each answer."""
        super().on_response_complete()
        self._answered = self.cycle
        self._expect_within(_REQUEST_S)

    def _expect_within(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self._is_due)

    def _is_due(self) -> None:
        if self.cycle is self._answered:
            self.transport.abort()
            return
        # A request has come. Its answer may wait for brokers, and must then be read in time.
        self._answered = self.cycle
        self._expect_within(_ANSWER_S)


class _Server(uvicorn.Server):
    """Ends gracefully on SIGINT and SIGTERM; uvicorn would raise them once more at the end."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {
            number: signal.signal(number, self.handle_exit)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(
    app: Starlette,
    access: PageAccess,
    port: int,
    tls: TlsFiles | None,
    ready: Callable[[str], None],
) -> None:
    """Serve in the main thread until SIGINT or SIGTERM.

    Args:
        app: The page.
        access: The address to listen on.
        port: Port to listen on; 0 takes a free one.
        tls: Certificate and key; None serves plain HTTP, on loopback only.
        ready: Called with the page's address once it listens.

    Raises:
        UnhealthyEnvironmentError: The port is not free, or the TLS files cannot be used.
    """
    # uvicorn prints warnings about requests, and errors about our own faults.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(
        app,
        http=_Connection,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_LAST_ANSWERS_S,
        ssl_certfile=None if tls is None else tls.certificate,
        ssl_keyfile=None if tls is None else tls.key,
    )
    try:
        config.load()
    except OSError as error:
        where = "" if tls is None else f"{tls.certificate}, {tls.key}"
        raise UnhealthyEnvironmentError(
            f"the TLS files cannot be used: {error.strerror or error}",
            where=where,
            hint="both are PEM files, and the key belongs to the certificate",
        ) from error
    with _listening(access.address, port) as listener:
        host = f"[{access.address}]" if ":" in access.address else access.address
        scheme = "http" if tls is None else "https"
        ready(f"{scheme}://{host}:{listener.getsockname()[1]}/")
        _Server(config).run(sockets=[listener])


@contextmanager
def _listening(address: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address, port))
            listener.listen(_BACKLOG)
        except OSError as error:
            raise UnhealthyEnvironmentError(
                f"the page cannot be served: {error.strerror or error}",
                where=f"{address}:{port}",
                hint="another program may have the port, or the address may be none of this "
                "machine; choose another --port or --address",
            ) from error
        yield listener
