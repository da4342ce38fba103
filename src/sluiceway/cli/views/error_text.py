"""Errors become words and exit codes."""

import errno
import os
import select
import sys
import tempfile
import traceback
from contextlib import suppress

from sluiceway.cli.views.typed_commands import JOB_FILE, typed, typed_text
from sluiceway.errors import SluicewayError, UnhealthyEnvironmentError

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
    """The error to show to the user; None when it does not come from the environment.

    Called at the boundary of the process, for errors that no lower layer foresaw.

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


EXIT_FAILED = 1
# What a shell shows of a tool that SIGPIPE ended.
EXIT_BROKEN_PIPE = 141

_STDOUT = 1


def print_error(error: Exception, *, answer_as: str = "") -> int:
    """Print an error on standard error, and choose the exit code.

    When the reader of standard output is gone, the command ends quietly, as other tools do. A
    refusal of the operating system is no bug of ours and reads differently.

    Args:
        error: As it was raised.
        answer_as: `json` or `yaml` also writes it to standard output, as the answer's document.
    """
    if isinstance(error, BrokenPipeError) and _reader_is_gone():
        drop_output()
        return EXIT_BROKEN_PIPE
    outside = error if isinstance(error, SluicewayError) else outside_error(error)
    if outside is not None and isinstance(error, OSError) and not outside.where:
        drop_output()
    elif answer_as:
        _answer(outside or SluicewayError(_summary(error)), answer_as)
    # Whoever closed standard error wants no message; the exit code stays.
    with suppress(BrokenPipeError):
        if outside is None:
            _show_unexpected(error)
        else:
            _show(outside)
    return EXIT_FAILED if outside is None else outside.exit_code


def _answer(error: SluicewayError, answer_as: str) -> None:
    from sluiceway.cli.options import OutputFormat  # noqa: PLC0415
    from sluiceway.cli.views.answers import error_fields, print_document  # noqa: PLC0415 - seldom needed

    with suppress(OSError):
        print_document({"ok": False, "error": error_fields(error)}, OutputFormat(answer_as))
        sys.stdout.flush()


def _summary(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _reader_is_gone() -> bool:
    poll = select.poll()
    poll.register(_STDOUT, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def drop_output() -> None:
    """Discard the rest of the buffer, or the interpreter complains as it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _STDOUT)
    os.close(nowhere)


def _show(error: SluicewayError) -> None:
    job = JOB_FILE.get()
    place = f" {error.where}" if error.where else ""
    message = typed_text(error.message, job)
    print(f"{paint(f'error[{error.code}]')}{place}: {message}", file=sys.stderr)
    if error.hint:
        print(f"hint: {typed_text(error.hint, job)}", file=sys.stderr)
    for command in error.commands:
        print(f"  $ {typed(command, job)}", file=sys.stderr)
    if _wants_traceback():
        traceback.print_exception(error)


def _show_unexpected(error: Exception) -> None:
    print(f"{paint('error[SW000]')}: {_summary(error)}", file=sys.stderr)
    if _wants_traceback():
        traceback.print_exception(error)
        return
    try:
        handle, path = tempfile.mkstemp(prefix="sluiceway-", suffix=".traceback")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            traceback.print_exception(error, file=file)
    except OSError:
        traceback.print_exception(error)
        return
    print(f"hint: this is a bug; its traceback is in {path}", file=sys.stderr)


def _wants_traceback() -> bool:
    return os.environ.get("SLUICEWAY_DEBUG") == "1"


def paint(text: str) -> str:
    """Text in the colour of errors, where standard error is a terminal that shows colours."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain or not sys.stderr.isatty() else f"\033[1;31m{text}\033[0m"
