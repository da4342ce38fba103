"""Shows an answer again and again on a terminal, in place, until `q` or Ctrl-C."""

import os
import select
import sys
import time
from collections.abc import Callable
from textwrap import wrap

from sluiceway.cli.views.live_run import take_keys, terminal_size
from sluiceway.observe.progress import cut_to_columns

EVERY_S = 2.0
_ENTER, _LEAVE = "\033[?1049h\033[?25l", "\033[?25h\033[?1049l"
_BELOW_A_ROW = "  "
_HOME, _END_OF_LINE, _BELOW = "\033[H", "\033[K", "\033[J"


def watch(look: Callable[[], str], *, every_s: float = EVERY_S) -> None:
    """Show the answer of `look` until the user ends it. Called by a command, in the main thread.

    On a terminal it stays in one place, in the terminal's current size; elsewhere each answer
    follows the one before.

    Args:
        look: Returns the current answer, as lines.
        every_s: Seconds from the end of a look to the next one.
    """
    on_terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    give_back = take_keys() if on_terminal else None
    try:
        if on_terminal:
            sys.stdout.write(_ENTER)
        while True:
            _show(look(), on_terminal=on_terminal)
            if _ends(every_s, has_keys=give_back is not None):
                return
    except KeyboardInterrupt:
        # This is how a watch ends; it is no failure.
        return
    finally:
        if on_terminal:
            sys.stdout.write(_LEAVE)
            sys.stdout.flush()
        if give_back is not None:
            give_back()


def _show(text: str, *, on_terminal: bool) -> None:
    if not on_terminal:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    columns, lines = terminal_size(sys.stdout.fileno())
    told = [part for line in text.splitlines() for part in _fitted(line, columns - 1)]
    shown = [f"{time.strftime('%H:%M:%S')}  q ends", *told][: lines - 1]
    # Each line overwrites the one before without clearing, so nothing flickers.
    rows = [cut_to_columns(line, columns - 1) + _END_OF_LINE for line in shown]
    sys.stdout.write(_HOME + "\n".join(rows) + "\n" + _BELOW)
    sys.stdout.flush()


def _fitted(line: str, columns: int) -> list[str]:
    """A table line as it is; a sentence, which begins with blanks, is broken at words.

    Half of a reason would be useless.
    """
    if not line.startswith(_BELOW_A_ROW) or len(line) <= columns:
        return [line]
    more = _BELOW_A_ROW * 2
    return wrap(line.strip(), columns, initial_indent=_BELOW_A_ROW, subsequent_indent=more)


def _ends(seconds: float, *, has_keys: bool) -> bool:
    """Wait until the next look; return whether `q` came instead."""
    if not has_keys:
        time.sleep(seconds)
        return False
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select([0], [], [], left)
        if ready and os.read(0, 1) in (b"q", b"Q", b""):
            return True
    return False
