"""What the driver of a submitted job has written, read across the parts of its log."""

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
    """The end of it, and then what comes.

    A log of this machine may be long, so only what is asked for is read of it. Used in a `with`
    block, for it holds a file.

    Args:
        folder: Of the job.
        application: Its last submission.
    """

    def __init__(self, folder: ApplicationFolder, application: Application) -> None:
        self._path = folder.log
        self._application = application
        self._part: BinaryIO | None = None
        """What was read last; held, for the number of a file that is gone is soon another's."""
        self._end = 0
        """How far it was."""
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
            whole: Whether a last line that has not ended is left to `more`.

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
                    # One more, for the first of them is cut.
                    found = _with_lines_before(part, end, found, lines + 1)
        except OSError as error:
            raise self._unreadable(error) from error
        if whole:
            found = self._without_half(found, self._end)
        return found.decode(errors="replace").splitlines()[-lines:]

    def more(self) -> str:
        """What has come since the last call; empty when nothing has.

        Raises:
            SubmissionError: The log is gone, or the cluster does not answer.
        """
        if self._application.deploy == "cluster":
            before, self._observed = self._observed, self._of_cluster()
            # Another driver of the cluster has a log of its own.
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
            # It may have been cut by hand, to save space.
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
        """What was read up to `_end`, but for a line that has not ended: it is read again.

        So no character of several bytes is cut. What of it stands in a part before the newest one
        cannot be read again.
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
    """What was found behind a part, and so much of the part's end that there are enough lines."""
    at = end
    while at > 0 and found.count(b"\n") < lines:
        begin = max(0, at - max(_BLOCK_BYTES, len(found)))
        part.seek(begin)
        found, at = part.read(at - begin) + found, begin
    return found
