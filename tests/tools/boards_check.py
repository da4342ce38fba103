"""Boards and alerts against a real Prometheus: `make proofs NAME=test-boards`.

A real job runs on the lab's servers, a real Prometheus scrapes it. Each panel's expressions have
to give data, the rule file has to pass promtool, each alert has to fire and clear in its
situation, and the counters have to be what the independent reader counts.
"""

import json
import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sluiceway.lab.lab import LabEndpoints
from sluiceway.service.board_files import ALERTS, RULES_FILE, export
from sluiceway.service.boards import BOARDS, WINDOW, Panel
from tools.alert_situations import write_test
from tools.driver_process import DriverProcess
from tools.job_files import JobFile, event, write_job
from tools.lab_fixture import shared_lab
from tools.metrics_truth import Place, differences, read_page, true_counters
from tools.row_oracle import BrokerRecord
from tools.topic_writer import TopicWriter

HOUR_MS = 3_600_000
NOON_MS = 1_795_176_000_000
PATIENCE_S = 90.0
NEEDED = ("prometheus", "promtool")
_BAD = (b"{", b"[1]", b'{"id":1.5,"ts":1}')


def missing() -> list[str]:
    """Programs that are needed and not installed."""
    return [name for name in NEEDED if shutil.which(name) is None]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> bool:
    """Whether it came true in time."""
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.5)
    return False


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - our own servers
        content: bytes = answer.read()
        return content


@contextmanager
def prometheus(folder: Path, target: int, rules: Path) -> Iterator[str]:
    """A Prometheus that scrapes one driver every second; its address."""
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [
            {"job_name": "sluiceway", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}
        ],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))
    port = free_port()
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def has_data(address: str, panel: Panel) -> bool:
    """Whether each of a panel's expressions gives a number."""
    return all(_numbers(address, query.expression) for query in panel.queries)


def _numbers(address: str, expression: str) -> list[float]:
    text = expression.replace(WINDOW, "1m").replace("$job_name", ".*").replace("$route", ".*")
    query = urllib.parse.urlencode({"query": text})
    try:
        answer: dict[str, Any] = json.loads(fetch(f"{address}/api/v1/query?{query}"))
    except OSError:
        return []
    found = [float(each["value"][1]) for each in answer["data"]["result"]]
    return [number for number in found if not math.isnan(number)]


def promtool(*arguments: str) -> bool:
    """Whether it is content."""
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
    return done.returncode == 0


def row(number: int, hours: float, city: str = "Berlin") -> bytes:
    return event(number, ts_ms=NOON_MS + int(hours * HOUR_MS) - number * 1000, city=city)


def is_filtered(record: BrokerRecord) -> bool:
    if record.value is None or record.value in _BAD:
        return False
    found: object = json.loads(record.value)["city"]
    return found == "nowhere"


def job_of(folder: Path, endpoints: LabEndpoints, topic: str) -> JobFile:
    job = write_job(
        folder,
        bootstrap_servers=endpoints.bootstrap_servers,
        metastore_uri=endpoints.metastore_uri,
        topic=topic,
        event_time="{field: ts, unit: ms, out_of_orderness: 0s, archive_window: 7d}",
        ready="{visible: on_commit}",
        files="{compact: never}",
    )
    job.path.write_text(f"{job.path.read_text()}where: \"city <> 'nowhere'\"\n")
    return job


def feed(writer: TopicWriter, topic: str) -> None:
    """Rows of three hours, in waves, so that hours are closed and announced while it runs."""
    for hour in range(3):
        writer.write(topic, [row(n, hour) for n in range(200)])
        writer.write(topic, [row(n, hour, "nowhere") for n in range(20)])
        writer.write(topic, _BAD)
        writer.write_keyed(topic, [(b"k", None)] * 2)
        # The first hour was announced meanwhile: its rows come late.
        writer.write(topic, [row(n, -24 * 9) for n in range(hour)])
        time.sleep(7)


def check_alerts(folder: Path, rules: Path) -> tuple[int, int]:
    """How many alerts fire in their situation, and how many clear after it."""
    fired = cleared = 0
    for alert in ALERTS:
        path = write_test(folder, rules, alert.name, fires=True)
        fired += promtool("test", "rules", str(path))
        path = write_test(folder, rules, alert.name, fires=False)
        cleared += promtool("test", "rules", str(path))
    return fired, cleared


def check_live(folder: Path, rules: Path) -> dict[str, int]:
    """Panels and counters of a live job."""
    panels = [panel for board in BOARDS for panel in board.panels]
    with shared_lab(folder / "lab") as lab:
        endpoints = lab.endpoints()
        topic = f"boards_{os.getpid()}"
        _create(endpoints.bootstrap_servers, topic)
        job = job_of(folder, endpoints, topic)
        port = free_port()
        options = ("--health-port", str(port))
        with (
            DriverProcess(job, folder, *options, module="tools.inline_driver") as driver,
            prometheus(folder, port, rules) as address,
        ):
            driver.wait_for_event("health_listening")
            feed(TopicWriter(endpoints.bootstrap_servers), topic)
            without = list(panels)

            def all_have_data() -> bool:
                without[:] = [panel for panel in without if not has_data(address, panel)]
                return not without

            wait_until(all_have_data)
            for panel in without:
                sys.stderr.write(f"no data: {panel.title}: {panel.queries}\n")
            truth, wrong = _compare(endpoints, job, topic, port)
            for name, (told, so) in wrong.items():
                sys.stderr.write(f"counter {name} says {told}, but it is {so}\n")
    return {
        "panels": len(panels),
        "panels_with_data": len(panels) - len(without),
        "counters": len(truth),
        "counters_equal_to_truth": len(truth) - len(wrong),
    }


def _compare(
    endpoints: LabEndpoints, job: JobFile, topic: str, port: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Counters as they have to be, and the wrong ones."""
    (root,) = Path(endpoints.warehouse).glob(f"**/{job.table.partition('.')[2]}")
    place = Place(
        *(endpoints.bootstrap_servers, endpoints.metastore_uri, job.table, topic),
        root=root,
        is_filtered=is_filtered,
    )
    truth: dict[str, Any] = {}
    wrong: dict[str, Any] = {}

    def equal() -> bool:
        truth.clear()
        wrong.clear()
        truth.update(true_counters(place))
        page = read_page(fetch(f"http://127.0.0.1:{port}/metrics").decode())
        wrong.update(differences(page, truth))
        return not wrong

    wait_until(equal, 30.0)
    return truth, wrong


def _create(bootstrap_servers: str, topic: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic  # noqa: PLC0415

    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)


def main() -> int:
    """Check all; the exit code."""
    absent = missing()
    if absent:
        sys.stderr.write(
            f"not run: {', '.join(absent)} missing; on Debian and Ubuntu: apt-get install "
            "--no-install-recommends prometheus\n"
        )
        return 1
    with tempfile.TemporaryDirectory(prefix="sluiceway-boards-") as scratch:
        folder = Path(scratch)
        rules = next(path for path in export(folder / "boards") if path.name == RULES_FILE)
        well_formed = promtool("check", "rules", str(rules))
        fired, cleared = check_alerts(folder, rules)
        live = check_live(folder, rules)
    found = {
        "panels": live["panels"],
        "panels_with_data": live["panels_with_data"],
        "rules": len(ALERTS),
        "rules_fired": fired,
        "rules_cleared": cleared,
        "counters": live["counters"],
        "counters_equal_to_truth": live["counters_equal_to_truth"],
    }
    print(json.dumps(found))
    pairs = (("panels", "panels_with_data"), ("rules", "rules_fired"), ("rules", "rules_cleared"))
    equal = all(found[one] == found[other] for one, other in pairs)
    right = found["counters"] == found["counters_equal_to_truth"] > 0
    return 0 if well_formed and equal and right else 1


if __name__ == "__main__":
    sys.exit(main())
