"""A cluster in whose own eyes no broker is alive, as just after a pause of the only one."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from sluiceway.errors import SourceUnavailableError
from sluiceway.sources.kafka.client import KafkaSourceClient
from tools.lab_fixture import running_lab
from tools.route_faults import wait_until
from tools.second_broker import lone_broker

_TIMEOUT_S = 120.0
# The controller fences a broker that is silent for three seconds.
_PAUSE_S = 8.0


@pytest.mark.slow
def test_a_client_lives_through_a_pause_of_the_only_broker(tmp_path: Path) -> None:
    with (
        running_lab(tmp_path / "lab", metastore=False) as lab,
        lone_broker(lab, tmp_path / "own") as (broker, servers),
    ):
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        wait_until(lambda: bool(admin.list_topics(timeout=10).brokers))
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(_TIMEOUT_S)
        # A process of its own: where the library's assertion fails, it ends at once.
        words = [sys.executable, "-m", "integration.test_no_live_broker", servers, str(broker.pid)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout.split()) == (0, ["fenced", "back"]), done.stderr


def main(servers: str, broker: int) -> None:
    """Stop the broker, ask without a pause once it runs, and print what the client sees."""
    client = KafkaSourceClient(servers, {}, 10.0)
    before = client.discover(["orders"])
    os.kill(broker, signal.SIGSTOP)
    time.sleep(_PAUSE_S)
    os.kill(broker, signal.SIGCONT)
    fenced, until = False, time.monotonic() + _TIMEOUT_S
    while time.monotonic() < until:
        try:
            found = client.discover(["orders"])
        except SourceUnavailableError as error:
            if not fenced and "no live broker" in error.message:
                fenced = True
                print("fenced", flush=True)
            continue
        if fenced:
            assert found == before
            print("back", flush=True)
            return


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
