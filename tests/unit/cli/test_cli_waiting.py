"""A command that waits for a server says so on a terminal, and only there."""

import io
import time
from pathlib import Path

import pytest

from sluiceway.cli import waiting
from sluiceway.cli.waiting import servers_of, told_while_waiting
from sluiceway.spec.loader import load_job

EXAMPLE = Path(__file__).parents[3] / "examples" / "orders.yaml"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("err", "wait_s", "told"),
    [
        (_Terminal(), 0.3, "waiting for brokers k1:9092 ...\n"),
        (_Terminal(), 0.0, ""),
        (io.StringIO(), 0.3, ""),
    ],
    ids=["slow", "quick", "piped"],
)
def test_wait_is_told_on_a_terminal_when_it_is_long(
    err: io.StringIO, wait_s: float, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_S", 0.05)
    monkeypatch.setattr("sys.stderr", err)
    with told_while_waiting("brokers k1:9092"):
        time.sleep(wait_s)
    assert err.getvalue() == told


def test_servers_are_named_with_their_addresses() -> None:
    environ = {"SLUICEWAY_KAFKA": "k1:9092", "SLUICEWAY_METASTORE": "thrift://hms:9083"}
    shown = servers_of(load_job(EXAMPLE, environ=environ).spec)
    assert "(k1:9092)" in shown
    assert "(thrift://hms:9083)" in shown
