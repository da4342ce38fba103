"""The supervisor's end of the pipe through which a driver's output gets into a bounded log.

Driver, JVM and supervisor write to the pipe; a keeper process reads it. When the supervisor is
killed, the keeper goes on. When the keeper is killed, the supervisor starts another one. It has the
reading end too, so no writer meets a broken pipe or waits at a full one.
"""

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from sluiceway.host.bounded_log import PART_BYTES, BoundedLog

_KEPT_BLOCK_BYTES = 1 << 16


class LogKeeper:
    """Reads the pipe. Never raises and never stops: a full disk costs lines, not the driver.

    Args:
        log: The bounded log to write to.
    """

    def __init__(self, log: BoundedLog) -> None:
        self._log = log
        self._lost = 0

    def keep(self, block: bytes) -> None:
        """Write a block, and before it how much could not be written earlier."""
        try:
            if self._lost:
                told = {"event": "log_lost", "level": "warning", "bytes": self._lost}
                self._log.write(b"\n" + json.dumps(told).encode() + b"\n")
                self._lost = 0
            self._log.write(block)
        except OSError:
            self._lost += len(block)

    def keep_all(self, source: int) -> None:
        """Write all that comes from a descriptor, until its end."""
        while block := os.read(source, _KEPT_BLOCK_BYTES):
            self.keep(block)


def main() -> None:
    """Keep the log of the arguments."""
    # It ends with the last of its writers, not before them.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    path, part_bytes = sys.argv[1:]
    LogKeeper(BoundedLog(Path(path), part_bytes=int(part_bytes))).keep_all(sys.stdin.fileno())


if __name__ == "__main__":
    main()


_PIPE_BYTES = 1 << 20
"""Bytes that the pipe holds while the disk is slow, before a driver waits."""
_BLOCK_BYTES = 1 << 16
_PAUSE_S = 5.0
_END_S = 3.0


class LogPipe:
    """Standard output and error of this process and of all its children, from `begin` on.

    Args:
        path: Path of the log.
        part_bytes: Size of a part, as `BoundedLog` takes it.
    """

    def __init__(self, path: Path, *, part_bytes: int = PART_BYTES) -> None:
        self._path = path
        self._part_bytes = part_bytes
        self._source: int | None = None
        self._keeper: subprocess.Popen[bytes] | None = None
        self._began = 0.0

    def begin(self) -> None:
        """Called once, before anything else is started.

        Raises:
            OSError: No process or descriptor can be created; output stays where it was.
        """
        source, sink = os.pipe()
        # macOS has no such call, and a pipe of 64 KiB.
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            fcntl.fcntl(sink, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._source = source
        try:
            self._start_keeper()
        except OSError:
            os.close(source)
            os.close(sink)
            self._source = None
            raise
        _put_in_place(sink)
        os.close(sink)

    def check(self) -> None:
        """Start a new keeper where none runs. Called a few times a second; never raises."""
        if self._source is None or self._listens():
            return
        self._drain(self._source)
        if time.monotonic() - self._began >= _PAUSE_S:
            try:
                self._start_keeper()
            except OSError:
                # It is tried again; meanwhile this process writes what is in the pipe.
                self._began = time.monotonic()

    def end(self) -> None:
        """Stop writing, and let the keeper read to the end. Called once, as the last call."""
        if self._source is None:
            return
        nothing = os.open(os.devnull, os.O_WRONLY)
        _put_in_place(nothing)
        os.close(nothing)
        if not self._listens():
            self._drain(self._source)
        os.close(self._source)
        self._source = None
        if self._keeper is not None:
            try:
                # A process that the driver left running may hold the pipe open for longer.
                self._keeper.wait(_END_S)
            except subprocess.TimeoutExpired:
                return

    def _listens(self) -> bool:
        return self._keeper is not None and self._keeper.poll() is None

    def _start_keeper(self) -> None:
        self._began = time.monotonic()
        self._keeper = subprocess.Popen(  # noqa: S603
            [
                *(sys.executable, "-m", "sluiceway.cluster.log_pipe"),
                *(str(self._path), str(self._part_bytes)),
            ],
            stdin=self._source,
            # With the writing end it would never see the end of the pipe.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _drain(self, source: int) -> None:
        log = BoundedLog(self._path, part_bytes=self._part_bytes)
        keeper = LogKeeper(log)
        ready = select.poll()
        ready.register(source, select.POLLIN)
        # The watching process has more to do than to read from a driver that never stops.
        for _ in range(_PIPE_BYTES // _BLOCK_BYTES):
            if not any(event & select.POLLIN for _, event in ready.poll(0)):
                break
            keeper.keep(os.read(source, _BLOCK_BYTES))
        log.close()


def _put_in_place(descriptor: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    for number in (1, 2):
        os.dup2(descriptor, number)
