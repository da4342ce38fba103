"""The consumers that a Kafka reader may use, as parameters of tests; reports of offsets."""

from collections.abc import Mapping

import pytest

from sluiceway.errors import SourceUnavailableError
from sluiceway.host.native_module import SWITCH, native_module
from sluiceway.sources.contract import SourcePartition
from sluiceway.sources.kafka.client import KafkaSourceClient
from tools.json_engines import ENGINES
from tools.route_faults import wait_until
from tools.test_plan import slow_after

CONSUMERS = ENGINES
USUAL_CONSUMER = ENGINES if native_module() is None else slow_after(1, ["native", "library"])
"""In `make test` only the one that jobs use here; the other one is slow."""


def choose_consumer(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let readers of this process use one: `library` is confluent-kafka's own."""
    monkeypatch.setenv(SWITCH, "0" if name == "library" else "1")


def report_until_taken(
    client: KafkaSourceClient, group: str, ends: Mapping[SourcePartition, int]
) -> None:
    """Report as a driver does: a broker that still loads its groups refuses the first try."""

    def is_taken() -> bool:
        try:
            client.report(group, ends)
        except SourceUnavailableError:
            return False
        return True

    wait_until(is_taken)
