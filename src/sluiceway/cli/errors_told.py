"""Errors become words and exit codes."""

import os
import select
import sys
import tempfile
import traceback

from sluiceway.cli.environment import outside_error
from sluiceway.errors import SluicewayError

EXIT_FAILED = 1
# What a shell shows of a tool that SIGPIPE ended.
EXIT_BROKEN_PIPE = 141

_STDOUT = 1


def tell_error(error: Exception) -> int:
    """Tell the user of an error, on standard error, and choose the exit code.

    A reader of standard output that is gone is no error to tell: the command ends quietly, as
    other tools do. What the operating system refuses is told from a bug.
    """
    if isinstance(error, SluicewayError):
        _show(error)
        return error.exit_code
    if isinstance(error, BrokenPipeError) and _reader_is_gone():
        drop_output()
        return EXIT_BROKEN_PIPE
    outside = outside_error(error)
    if outside is None:
        _show_unexpected(error)
        return EXIT_FAILED
    if not outside.where:
        drop_output()
    _show(outside)
    return outside.exit_code


def _reader_is_gone() -> bool:
    poll = select.poll()
    poll.register(_STDOUT, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def drop_output() -> None:
    """Let what is left in the buffer go nowhere, or the interpreter complains as it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _STDOUT)
    os.close(nowhere)


def _show(error: SluicewayError) -> None:
    place = f" {error.where}" if error.where else ""
    print(f"{paint(f'error[{error.code}]')}{place}: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"hint: {error.hint}", file=sys.stderr)
    for command in error.commands:
        print(f"  $ {command}", file=sys.stderr)
    if _wants_traceback():
        traceback.print_exception(error)


def _show_unexpected(error: Exception) -> None:
    summary = " ".join(str(error).split())
    print(f"{paint('error[SW000]')}: {type(error).__name__}: {summary}", file=sys.stderr)
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
