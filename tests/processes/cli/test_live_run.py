"""The screen on a pseudo-terminal: keys, size, and that the terminal is given back."""

import signal
import termios

from sluiceway.cli.views.live_run import _farewell
from sluiceway.cli.views.live_screen import Message
from tools.terminals import plain, terminal

_PROGRAM = """
import sys, time
from sluiceway.cli.views.live_run import LiveRun, shows_screen
from sluiceway.driver.status_board import StatusBoard
from sluiceway.driver.stop import StopSignal
assert shows_screen(plain=False) and not shows_screen(plain=True)
stop, board = StopSignal(), StatusBoard()
stop.listen()
screen = LiveRun("orders")
log = screen.log()
with screen.watching(board, stop, "the-address"):
    screen.progress.waiting("starting Spark")
    log.warning("route_waits", route="a", code="SW101", error="no broker answers", retry_in_s=2.0)
    log.info("not_for_the_screen")
    screen.progress.print_lines("the profile")
    while not stop.requested():
        time.sleep(0.05)
    if "linger" in sys.argv:
        time.sleep(60)
stop.unlisten()
print("ended well", flush=True)
"""


def test_q_stops_as_ctrl_c_does_and_the_terminal_comes_back() -> None:
    for key in ("q", "\x03"):
        with terminal("-c", _PROGRAM) as seen:
            shown = seen.read_until("no broker answers")
            assert "starting Spark" in shown
            assert "the-address" in seen.read_until("the-address") or "the-address" in shown
            assert "\x1b[?1049h" in seen.text
            seen.type(key)
            left = seen.read_until("ended well")
            assert seen.process.wait(30) == 0
            # What was told stays to be read, behind the screen.
            tail = plain(seen.text.rpartition("\x1b[?1049l")[2])
            assert "warning a: Route waits [SW101]: no broker answers; tries again in 2 s" in tail
            assert "the profile" in tail
            assert "not_for_the_screen" not in left
            assert termios.tcgetattr(seen.slave) == seen.before


def test_second_signal_ends_at_once_and_gives_the_terminal_back() -> None:
    with terminal("-c", _PROGRAM, "linger") as seen:
        seen.read_until("no broker answers")
        seen.type("q")
        seen.read_until("stopping: the epoch ends early")
        seen.type("q")
        seen.read_until("stopped at once: the next start goes on from the ledger")
        assert seen.process.wait(30) == 128 + signal.SIGINT
        assert "\x1b[?1049l" in seen.text
        assert termios.tcgetattr(seen.slave) == seen.before


def test_screen_follows_the_size_of_the_terminal() -> None:
    with terminal("-c", _PROGRAM) as seen:
        seen.read_until("no broker answers")
        seen.resize(10, 60)
        for _ in range(100):
            seen.text = ""
            seen.read_until("q stops")
            # Each drawing begins at the top; what was drawn before the change comes first.
            drawn = seen.text.replace("\x1b[H", "\n").replace("\r", "").split("\n")
            widest = max(len(plain(line)) for line in drawn)
            if widest <= 60:
                break
        assert 0 < widest <= 60


def test_message_that_stays_is_broken_between_words_and_no_command_is() -> None:
    text = "Rows dirty: not_integral took_ms 50; `sluiceway dirty show /a/long-name/job.yaml` shows"
    lines = _farewell(Message("04:37:28", "warning", text), 50).splitlines()
    assert lines[0] == "04:37:28 warning Rows dirty: not_integral took_ms"
    assert max(map(len, lines)) <= 50
    assert [word for line in lines for word in line.split()][2:] == text.split()
    assert all(line.startswith(" " * 17) for line in lines[1:])
