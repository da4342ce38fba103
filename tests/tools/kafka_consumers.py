"""The consumers that a Kafka reader may use, as parameters of tests."""

import pytest

from sluiceway.host.native_module import SWITCH, native_module
from tools.json_engines import ENGINES
from tools.test_plan import slow_after

CONSUMERS = ENGINES
USUAL_CONSUMER = ENGINES if native_module() is None else slow_after(1, ["native", "library"])
"""In `make test` only the one that jobs use here; the other one is slow."""


def choose_consumer(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let readers of this process use one: `library` is confluent-kafka's own."""
    monkeypatch.setenv(SWITCH, "0" if name == "library" else "1")
