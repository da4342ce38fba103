"""What the operating system refuses, in words: such an error is no bug of the product."""

import errno
import os

from sluiceway.errors import UnhealthyEnvironmentError

_TODO = {
    errno.EACCES: "check its permissions and who runs the command, or take another place",
    errno.EPERM: "check its permissions and who runs the command, or take another place",
    errno.EROFS: "take a place that can be written",
    errno.ENOSPC: "make room and try again",
    errno.EDQUOT: "make room and try again",
    errno.ENOTDIR: "a part of the path is a file; take another place",
    errno.EISDIR: "it is a folder; name a file",
    errno.ENAMETOOLONG: "take a shorter path",
    errno.EMFILE: "raise the limit of open files: ulimit -n",
    errno.ENFILE: "the machine has too many open files; end programs",
    errno.ENOMEM: "the machine is out of memory; end programs",
}


def outside_error(error: BaseException) -> UnhealthyEnvironmentError | None:
    """The error as the user is told it; None when it does not come from the environment.

    Called at the boundary of the process, for errors that nobody below foresaw.

    Args:
        error: As it was raised. Without a file name it came from writing to a stream.
    """
    if not isinstance(error, OSError) or error.errno not in _TODO:
        return None
    reason = os.strerror(error.errno).lower()
    hint = _TODO[error.errno]
    if error.filename is None:
        return UnhealthyEnvironmentError(f"the output cannot be written: {reason}", hint=hint)
    return UnhealthyEnvironmentError(reason, where=os.fsdecode(error.filename), hint=hint)
