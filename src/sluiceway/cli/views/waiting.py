"""Shows on a terminal what a command waits for, when an answer takes long."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluiceway.jobfile.blocks.models import JobSpec

PRINT_AFTER_S = 1.5


@contextmanager
def printed_while_waiting(servers: str) -> Iterator[None]:
    """Print once on stderr that `servers` are waited for, if that takes longer than a moment.

    Called around calls to servers, after the imports that they need. Standard error that is no
    terminal gets nothing: logs of scripts do not change.

    Args:
        servers: In words; see `servers_of`.
    """
    err = sys.stderr
    if not err.isatty():
        yield
        return
    timer = threading.Timer(PRINT_AFTER_S, lambda: print(f"waiting for {servers} ...", file=err))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def servers_of(spec: "JobSpec") -> str:
    """Names of a job's connections, with the addresses of brokers and metastores; no secrets."""
    shown: dict[str, str] = {}
    for route in spec.routes:
        for name, one in route.connections.items():
            address = one.kafka.bootstrap_servers if one.kafka is not None else ""
            if one.metastore is not None:
                address = one.metastore.uri
            shown[name] = f"{name} ({address})" if address else name
    return ", ".join(shown.values())


class ProgressLine:
    """One line about work that another process may do; shown on a terminal, nowhere else.

    Attributes:
        by_driver: Whether a running driver does the work.
    """

    def __init__(self) -> None:
        self.by_driver = False
        self._shown = ""

    def show(self, start: str, far: str | None, *, elsewhere: bool) -> None:
        """Show the line in place of the last one.

        Args:
            start: What the line begins with.
            far: How far the work is; None while it has not begun.
            elsewhere: Whether a running driver does it.
        """
        self.by_driver = elsewhere
        who = "the running driver" if elsewhere else "this process"
        text = start + (f"waiting for {who}" if far is None else f"{far}, by {who}")
        if sys.stderr.isatty() and text != self._shown:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            self._shown = text

    def end(self) -> None:
        """Erase the line."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            self._shown = ""
