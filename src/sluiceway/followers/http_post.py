"""A POST to a URL of the job file, within its time, and to nobody else."""

import http.client
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from email.message import Message
from functools import partial
from typing import IO, Any

from sluiceway.errors import Retriable
from sluiceway.jobfile.compile.http_receiver import HttpReceiver

_LOOK_S = 0.5


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """An answer that sends elsewhere is a failure: the job file says who is told."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Message,
        newurl: str,
    ) -> None:
        del req, fp, code, msg, headers, newurl


class _Connections:
    """Those of one call, which is cut off when its time is over.

    A timeout of a socket begins anew with each byte that comes.
    """

    def __init__(self) -> None:
        self._made: list[http.client.HTTPConnection] = []
        self._cut = False

    def make(self, kind: Any, *args: Any, **options: Any) -> http.client.HTTPConnection:
        """A connection of this class, not opened yet."""
        made: http.client.HTTPConnection = kind(*args, **options)
        self._made.append(made)
        return made

    @contextmanager
    def cut_off(self, timeout_s: float) -> Iterator[None]:
        """Let what is done within take so long.

        Raises:
            TimeoutError: It took longer.
        """
        done, until = threading.Event(), time.monotonic() + timeout_s
        thread = threading.Thread(target=self._watch, args=(done, until), name="cut_off")
        thread.daemon = True
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        if self._cut:
            # What came before may look like a whole answer.
            raise TimeoutError

    def _watch(self, done: threading.Event, until: float) -> None:
        while not done.wait(max(_LOOK_S, until - time.monotonic())):
            self._cut = True
            for made in list(self._made):
                opened = made.sock
                if opened is not None:
                    with suppress(OSError):
                        opened.shutdown(socket.SHUT_RDWR)


class _Known(urllib.request.AbstractHTTPHandler):
    """Opens connections that can be cut off."""

    def __init__(self, connections: _Connections) -> None:
        super().__init__()
        self._connections = connections

    def do_open(self, http_class: Any, *args: Any, **options: Any) -> Any:
        return super().do_open(partial(self._connections.make, http_class), *args, **options)


class _Http(_Known, urllib.request.HTTPHandler):
    pass


class _Https(_Known, urllib.request.HTTPSHandler):
    pass


def post_json(receiver: HttpReceiver, body: bytes, headers: Mapping[str, str]) -> None:
    """Send a body of JSON; returns when the answer was 2xx, or one that the receiver may give.

    Args:
        receiver: Who gets it.
        body: Canonical JSON.
        headers: Beside those of the receiver, which they win over.

    Raises:
        Retriable: It was not, or nobody knows. Holds no secret.
    """
    named = {"Content-Type": "application/json", **dict(receiver.headers), **headers}
    request = urllib.request.Request(  # noqa: S310 - http or https, as the job file was checked
        receiver.url, data=body, headers=named, method="POST"
    )
    made, timeout_s = _Connections(), receiver.timeout_s
    # Whoever is told is told by the job file, not by http_proxy in the environment.
    direct = urllib.request.ProxyHandler({})
    opener = urllib.request.build_opener(direct, _NoRedirects(), _Http(made), _Https(made))
    try:
        # What it says behind its status is not asked for.
        with made.cut_off(timeout_s), opener.open(request, timeout=timeout_s):
            pass
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in receiver.accept:
            return
        raise Retriable(f"answers {error.code}", where=receiver.host) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        # Its words may hold the URL, and that a secret.
        what = type(getattr(error, "reason", error)).__name__
        raise Retriable(f"does not answer: {what}", where=receiver.host) from None
