"""Receivers of announcements that are away: what waits is told, then told once and in order."""

import json
from typing import Any

import pytest

from sluiceway.cli.app import run_command
from sluiceway.followers import runner
from sluiceway.ledger.partition_records import ReadyRecord
from sluiceway.sources.kafka import message_sender
from tools.job_files import event
from tools.lab_fixture import TopicFactory
from tools.receiving import BrokerGate, HookServer, broker_gate, hook_server, told_keys
from tools.route_faults import NewRun, live
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter
from tools.waiting import wait_for

EIGHT_MS = 1_795_161_600_000
HOUR_MS = 3_600_000
TIMES = "{field: ts, unit: ms, out_of_orderness: 0s, idle_after: 30d}"
# Long enough for a broker that answers, short for one that cannot be reached.
FLUSH_S = 5.0


class Told:
    """A route with both receivers, and what can be asked of it."""

    def __init__(self, run: RouteRun, gate: BrokerGate, capsys: pytest.CaptureFixture[str]) -> None:
        self.run = run
        self._capsys = capsys
        known = run.job.path.read_text()
        other = f'connections:\n  told: {{kafka: {{bootstrap_servers: "{gate.address}"}}}}\n'
        run.job.path.write_text(known.replace("connections:\n", other))

    def announced(self) -> list[str]:
        """Hours with a READY."""
        bodies = [each.body for each in self.run.records()]
        return [body.prefix[-2:] for body in bodies if isinstance(body, ReadyRecord)]

    def untold(self) -> list[str]:
        """What `status` says of receivers that wait."""
        (route,) = self._asked("status")["routes"]
        told = {each["name"]: each["waits_for"] for each in route["followers"]}
        return [
            f"{name}: {told[name]}"
            for name in ("tell-webhook", "tell-kafka")
            if "wait: " in told.get(name, "")
        ]

    def why(self, hour: int) -> dict[str, Any]:
        """What `partitions why` says of an hour."""
        return self._asked("partitions", "why", prefix(hour))

    def _asked(self, *words: str) -> dict[str, Any]:
        *verb, last = words
        command = [*verb, str(self.run.job.path), last] if verb else [last, str(self.run.job.path)]
        self._capsys.readouterr()
        run_command([*command, "-o", "json"])
        found: dict[str, Any] = json.loads(self._capsys.readouterr().out)
        return found


def prefix(hour: int) -> str:
    return f"dt=20261120/hr={hour:02d}"


def hours(keys: list[str]) -> list[str]:
    """Hour and version of each key."""
    return [key.rpartition("=")[2] for key in keys]


def write(writer: TopicWriter, topic: str, hour: int) -> None:
    """A row of an hour; it closes all before."""
    writer.write(topic, [event(0, ts_ms=EIGHT_MS + (hour - 8) * HOUR_MS)])


def test_receivers_that_are_down_are_told_all_once_in_order_when_they_are_back(
    new_run: NewRun,
    new_topic: TopicFactory,
    writer: TopicWriter,
    bootstrap_servers: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "LONGEST_PAUSE_S", 1.0)
    monkeypatch.setattr(message_sender, "_FLUSH_S", FLUSH_S)
    told_topic = new_topic()
    with hook_server() as hook, broker_gate(bootstrap_servers) as gate:
        ready = (
            f'{{webhook: {{url: "{hook.url}"}}, kafka: {{connection: told, topic: {told_topic}}}}}'
        )
        run, topic = new_run(event_time=TIMES, ready=ready)
        told = Told(run, gate, capsys)
        write(writer, topic, 8)
        run.catch_up()
        for hour in (9, 10, 11):
            write(writer, topic, hour)
        with live(run) as driver:
            driver.wait_for(lambda: told.announced() == ["08", "09", "10"])
            wait_for(lambda: len(told.untold()) == 2)
            _see_both_wait(told, hook, 3)
            # Nothing else waits for them: rows come, hours are announced and shown.
            write(writer, topic, 12)
            driver.wait_for(lambda: told.announced()[3:] == ["11"])
            driver.wait_for(lambda: len(run.partitions()) == 4)
        # The next driver knows from the ledger what they were not told of.
        with live(run) as driver:
            wait_for(lambda: len(told.untold()) == 2)
            _see_both_wait(told, hook, 4)
            hook.come_up()
            wait_for(lambda: len(hook.told) >= 4)
            wait_for(lambda: told.why(11)["announced_to"] == {"webhook": True, "kafka": False})
            wait_for(lambda: [each.split(":")[0] for each in told.untold()] == ["tell-kafka"])
            assert "Not announced yet to: kafka" in told.why(8)["text"]
            gate.open()
            wait_for(lambda: told.why(11)["announced_to"] == {"webhook": True, "kafka": True})
            wait_for(lambda: told.untold() == [])
            write(writer, topic, 13)
            messages = told_keys(bootstrap_servers, told_topic, 5)
            wait_for(lambda: len(hook.told) >= 5)
    assert hours(hook.heard()) == ["08:1", "09:1", "10:1", "11:1", "12:1"]
    assert messages == hook.heard()
    run.assert_verified()


def _see_both_wait(told: Told, hook: HookServer, count: int) -> None:
    webhook, kafka = told.untold()
    assert webhook.startswith(f"tell-webhook: {count} announcements wait: ")
    assert "does not answer" in webhook
    assert kafka.startswith(f"tell-kafka: {count} announcements wait: ")
    found = told.why(8)
    assert (found["reason"], found["announced_to"]) == ("ready", {"webhook": False, "kafka": False})
    assert "Not announced yet to: webhook, kafka" in found["text"]
    assert hook.told == []
