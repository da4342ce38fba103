"""Open connections to metastores that nobody uses now, for the next who asks in this process.

A server builds much anew for each connection: some 40 ms of its CPU. Routes that start, commands
and checks ask it a question or two each.
"""

import os
import select
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from thrift.transport.TTransport import TBufferedTransport

_MOST_KEPT = 4
_LONGEST_REST_S = 30.0


@dataclass(frozen=True, slots=True)
class OpenConnection:
    """A connection whose last call was answered as a whole.

    Attributes:
        wire: Below the transport; read by nobody else.
        client: Calls through the transport.
        owner: The process that opened it; a fork has a copy that it must not use.
    """

    wire: socket.socket
    transport: TBufferedTransport
    client: Any
    owner: int = field(default_factory=os.getpid)

    def is_usable(self) -> bool:
        """Whether this process may use it, and the server has neither ended it nor said more."""
        if self.owner != os.getpid():
            return False
        poll = select.poll()
        poll.register(self.wire, select.POLLIN)
        return not poll.poll(0)


class IdleConnections:
    """Keeps a few of each server for a while. Safe for threads.

    Args:
        clock: Seconds, steady.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: defaultdict[Hashable, list[tuple[float, OpenConnection]]] = defaultdict(list)
        os.register_at_fork(after_in_child=self._begin_anew)

    def keep(self, server: Hashable, connection: OpenConnection) -> None:
        """Called when somebody is done with one; one too many is closed.

        Args:
            server: Where it leads and how it was opened.
            connection: Nobody else uses it.
        """
        with self._lock:
            kept = self._kept[server]
            kept.append((self._clock(), connection))
            dropped = self._outworn(kept)
        _close_all(dropped)

    def acquire(self, server: Hashable) -> OpenConnection | None:
        """One that is open still, the last kept first; None when there is none."""
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
"""Those of this process."""
