"""The progress line, on a terminal of its own."""

import io
import os
import pty
import termios
from collections.abc import Iterator

import pytest

from sluiceway.observe import progress as module
from sluiceway.observe.progress import EpochRows, Progress, cut_to_columns


class Terminal:
    """Keeps what was written; has the size of a real terminal."""

    def __init__(self) -> None:
        self._master, self._slave = pty.openpty()
        self.stream = io.StringIO()
        self.stream.fileno = lambda: self._slave  # type: ignore[method-assign]

    def resize(self, columns: int) -> None:
        termios.tcsetwinsize(self._slave, (24, columns))

    def last(self) -> str:
        return self.stream.getvalue().rpartition("\r\033[K")[2]

    def close(self) -> None:
        os.close(self._slave)
        os.close(self._master)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_progress_line_is_as_wide_as_the_terminal_is_now(terminal: Terminal, columns: int) -> None:
    progress = Progress(terminal.stream)
    terminal.resize(columns)
    progress.waiting("x" * 300)
    assert len(terminal.last()) == columns - 1
    terminal.resize(columns // 2)
    progress.lag(1)
    assert len(terminal.last()) <= columns // 2 - 1


def test_progress_shows_the_wait_of_a_route_until_it_commits(terminal: Terminal) -> None:
    terminal.resize(120)
    progress = Progress(terminal.stream)
    progress.waiting("the metastore does not answer", route="orders", for_s=2.0)
    progress.lag(10)
    assert "waiting: the metastore does not answer" in terminal.last()
    progress.epoch(1, EpochRows(5), 1.0, route="users")
    assert "waiting: the metastore does not answer · seq 1" in terminal.last()
    progress.epoch(1, EpochRows(5), 1.0, route="orders")
    assert "waiting" not in terminal.last()
    assert progress.rows == 10


def test_progress_shows_no_rate_of_a_while_ago_when_nothing_comes_any_more(
    terminal: Terminal,
) -> None:
    terminal.resize(120)
    progress = Progress(terminal.stream)
    progress.lag(500)
    progress.epoch(3, EpochRows(500), 2.0)
    assert "seq 3 · 500 rows · 250/s · lag 0" in terminal.last()
    progress.lag(40)
    # More has come: the last epoch's rate is the newest there is.
    assert "250/s · lag 40" in terminal.last()
    progress.lag(0)
    assert "seq 3 · 500 rows · 0/s · lag 0" in terminal.last()


def test_progress_forgets_a_wait_that_is_not_told_again(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal.resize(120)
    progress = Progress(terminal.stream)
    monkeypatch.setattr(module, "_ATTEMPT_S", -1.0)
    progress.waiting("no answer", route="orders")
    progress.lag(0)
    assert terminal.last().endswith("no rows yet")


def test_progress_line_holds_no_control_characters_of_others(terminal: Terminal) -> None:
    terminal.resize(120)
    Progress(terminal.stream).waiting("topic \033[2J\n\rgone")
    assert terminal.last().endswith("waiting: topic [2J gone")


def test_progress_without_a_terminal_counts_in_silence(capfd: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    progress.epoch(1, EpochRows(7, 2), 1.0)
    progress.clear()
    assert (progress.commits, progress.rows, progress.dirty) == (1, 7, 2)
    assert capfd.readouterr() == ("", "")


def test_closing_line_counts_in_words_and_names_filtered_rows_when_there_are_any() -> None:
    progress = Progress()
    assert progress.closing() == "0 rows in 0 commits, 0 dirty"
    progress.epoch(1, EpochRows(1), 1.0)
    assert progress.closing() == "1 row in 1 commit, 0 dirty"
    progress.epoch(2, EpochRows(1999, 2, 1200), 1.0)
    assert progress.closing() == "2,000 rows in 2 commits, 2 dirty, 1,200 filtered"


@pytest.mark.parametrize(
    ("text", "columns", "cut"),
    [("abc", 3, "abc"), ("abc", 2, "ab"), ("北京", 3, "北"), ("e\u0301e", 1, "e\u0301")],
)
def test_text_is_cut_to_columns_of_the_terminal(text: str, columns: int, cut: str) -> None:
    assert cut_to_columns(text, columns) == cut


def test_records_are_told_while_the_first_epoch_reads(terminal: Terminal) -> None:
    progress = Progress(terminal.stream)
    progress.lag(5000)
    assert terminal.last().endswith("reading the first epoch")
    progress.reading({"a": 1200, "b": 34})
    assert terminal.last().endswith("reading the first epoch: 1,234 records so far")
    progress.lag(5000)
    assert progress.lead() == "reading the first epoch: 1,234 records so far"
