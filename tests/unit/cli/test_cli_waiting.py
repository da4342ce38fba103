"""A command that waits for a server says so on a terminal, and only there."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from sluiceway.cli.views import waiting
from sluiceway.cli.views.waiting import printed_while_waiting, servers_of
from sluiceway.jobfile.loader import load_job

EXAMPLE = Path(__file__).parents[3] / "examples" / "orders.yaml"


@dataclass
class Timer:
    """Of `threading`; the test says when its time is over."""

    seconds: float
    act: Callable[[], None]
    daemon: bool = False
    over: bool = False

    def start(self) -> None:
        assert self.daemon

    def cancel(self) -> None:
        self.over = True


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("err", "is_long", "told"),
    [
        (_Terminal(), True, "waiting for brokers k1:9092 ...\n"),
        (_Terminal(), False, ""),
        (io.StringIO(), True, ""),
    ],
    ids=["slow", "quick", "piped"],
)
def test_wait_is_told_on_a_terminal_when_it_is_long(
    err: io.StringIO,
    is_long: bool,  # noqa: FBT001
    told: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timers: list[Timer] = []

    def timer(seconds: float, act: Callable[[], None]) -> Timer:
        timers.append(Timer(seconds, act))
        return timers[-1]

    monkeypatch.setattr(waiting, "threading", SimpleNamespace(Timer=timer))
    monkeypatch.setattr("sys.stderr", err)
    with printed_while_waiting("brokers k1:9092"):
        for each in timers if is_long else ():
            each.act()
    assert err.getvalue() == told
    assert [(each.seconds, each.over) for each in timers] == (
        [(waiting.PRINT_AFTER_S, True)] if err.isatty() else []
    )


def test_servers_are_named_with_their_addresses() -> None:
    environ = {"SLUICEWAY_KAFKA": "k1:9092", "SLUICEWAY_METASTORE": "thrift://hms:9083"}
    shown = servers_of(load_job(EXAMPLE, environ=environ).spec)
    assert "(k1:9092)" in shown
    assert "(thrift://hms:9083)" in shown
