"""The log of a submitted job's driver, read across its parts."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import BinaryIO, Self

from sluiceway.cluster.applications import Application, ApplicationFolder
from sluiceway.cluster.yarn import YarnUser, yarn_log
from sluiceway.errors import SubmissionError
from sluiceway.host.bounded_log import opened_parts

_BLOCK_BYTES = 1 << 16


class DriverLog:
    """The end of the log, and then new lines.

    A log of this machine may be long, so only its end is read. Used in a `with` block, because it
    holds a file open.

    Args:
        folder: Folder of the job.
        application: Its last submission.
    """

    def __init__(self, folder: ApplicationFolder, application: Application) -> None:
        self._path = folder.log
        self._application = application
        self._part: BinaryIO | None = None
        """The file that was read last; held open, because its inode number may be used again."""
        self._end = 0
        """Offset up to which it was read."""
        self._observed = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._part is not None:
            self._part.close()

    def last(self, lines: int, *, whole: bool = False) -> list[str]:
        """The last lines so far. Called once, before `more`.

        Args:
            lines: How many at most.
            whole: Whether an unfinished last line is left to `more`.

        Raises:
            SubmissionError: There is no log, or not yet.
        """
        if self._application.deploy == "cluster":
            self._observed = self._of_cluster()
            if whole:
                self._observed = "".join(self._observed.rpartition("\n")[:2])
            return self._observed.splitlines()[-lines:]
        found = b""
        try:
            with ExitStack() as opened:
                parts = opened_parts(self._path, opened)
                newest = next(iter(parts.values()))
                self._end = newest.seek(0, os.SEEK_END)
                self._hold(newest)
                for part in parts.values():
                    end = self._end if part is newest else part.seek(0, os.SEEK_END)
                    # One more line, because the first one is cut.
                    found = _with_lines_before(part, end, found, lines + 1)
        except OSError as error:
            raise self._unreadable(error) from error
        if whole:
            found = self._without_half(found, self._end)
        return found.decode(errors="replace").splitlines()[-lines:]

    def more(self) -> str:
        """New text since the last call; empty when there is none.

        Raises:
            SubmissionError: The log is gone, or the cluster does not answer.
        """
        if self._application.deploy == "cluster":
            before, self._observed = self._observed, self._of_cluster()
            # Each new driver of the cluster has its own log.
            return (
                self._observed[len(before) :]
                if self._observed.startswith(before)
                else self._observed
            )
        try:
            with ExitStack() as opened:
                come = self._come(opened_parts(self._path, opened))
        except OSError as error:
            raise self._unreadable(error) from error
        return come.decode(errors="replace")

    def _come(self, parts: Mapping[int, BinaryIO]) -> bytes:
        unread: list[BinaryIO] = []
        begun = None if self._part is None else os.fstat(self._part.fileno()).st_ino
        for inode, part in parts.items():
            if inode == begun:
                break
            unread.insert(0, part)
        if self._part is not None:
            # An operator may have cut it, to save space.
            size = self._part.seek(0, os.SEEK_END)
            self._part.seek(self._end if size >= self._end else 0)
            unread.insert(0, self._part)
        newest = unread[-1]
        begins_at = newest.tell()
        blocks = [part.read() for part in unread]
        self._end = begins_at + len(blocks[-1])
        self._hold(newest)
        return self._without_half(b"".join(blocks), len(blocks[-1]))

    def _without_half(self, read: bytes, of_newest: int) -> bytes:
        """The text that was read up to `_end`, without an unfinished line: it is read again.

        So no multi-byte character is cut. The part of such a line in an older file cannot be read
        again.
        """
        kept_back = min(len(read) - read.rfind(b"\n") - 1, of_newest)
        self._end -= kept_back
        return read[: len(read) - kept_back]

    def _hold(self, part: BinaryIO) -> None:
        if part is not self._part:
            held = os.fdopen(os.dup(part.fileno()), "rb")
            if self._part is not None:
                self._part.close()
            self._part = held

    def _of_cluster(self) -> str:
        application = self._application
        user = YarnUser(application.hadoop_conf, application.login)
        return yarn_log(application.cluster_id, user)

    def _unreadable(self, error: OSError) -> SubmissionError:
        return SubmissionError(f"the log cannot be read: {error}", where=str(self._path))


def _with_lines_before(part: BinaryIO, end: int, found: bytes, lines: int) -> bytes:
    """Lines at a part's end, before the lines in `found`, until there are enough."""
    at = end
    while at > 0 and found.count(b"\n") < lines:
        begin = max(0, at - max(_BLOCK_BYTES, len(found)))
        part.seek(begin)
        found, at = part.read(at - begin) + found, begin
    return found
