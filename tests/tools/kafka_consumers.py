"""The consumers that a Kafka reader may use, as parameters of tests."""

import pytest

from sluiceway.host.native_module import SWITCH
from tools.json_engines import ENGINES

CONSUMERS = ENGINES


def choose_consumer(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let readers of this process use one: `library` is confluent-kafka's own."""
    monkeypatch.setenv(SWITCH, "0" if name == "library" else "1")
