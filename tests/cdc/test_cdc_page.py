"""The fifteen minutes of docs/guides/keyed-tables.md: each command works, on a real database."""

import importlib
import os
import re
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from sluiceway.lab.jars import default_cache_folder
from sluiceway.lab.lab import LabEndpoints
from tools.page_commands import PageShell, Step, blocks_of, steps_of

PAGE = "guides/keyed-tables.md"
TOPIC = "cdc.shop.orders"
FIRST, CHANGED = 3, 4
PATIENCE_S = 180.0


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    return importlib.import_module("bench.cdc_servers")


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that the database's own user may enter."""
    with tempfile.TemporaryDirectory(prefix="sluiceway-cdc-page-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture
def database(servers: Any, folder: Path) -> Iterator[Any]:
    database = servers.MariaDb(folder / "my")
    yield database
    database.stop()


class Reader:
    """Follows the page.

    Args:
        folder: Where the reader works.
        replaced: What stands on the page, and what it is here.
        database: Its client takes the place of the reader's.
    """

    def __init__(self, folder: Path, replaced: dict[str, str], database: Any) -> None:
        self._folder, self._replaced, self._database = folder, replaced, database
        self._shell = PageShell(folder, {}, self._as_tested)

    def write(self, name: str, text: str) -> None:
        """A file of the page, with the places of this machine."""
        for theirs, ours in self._replaced.items():
            text = text.replace(theirs, ours)
        (self._folder / name).write_text(text)

    def run(self, step: Step) -> None:
        """A command; it shows what the page shows, where that shows anything."""
        told = self._shell.run(step)
        if step.shown.strip():
            assert told == step.shown.rstrip("\n") + "\n", step.command

    def _as_tested(self, command: str) -> str | None:
        """A run that a reader ends by a key ends by itself here."""
        if command.startswith("connect-standalone.sh "):
            return None
        client = shlex.join(self._database.client())
        command = re.sub(r"^mariadb ", f"{client} ", command)
        return re.sub(r"^(sluiceway run \S+)$", r"\1 --until-caught-up", command)


def wait_for_records(brokers: str, count: int) -> None:
    """Until Debezium has told so many."""
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "page"})
    until_s = time.monotonic() + PATIENCE_S
    try:
        while True:
            topic = consumer.list_topics(TOPIC, 10).topics[TOPIC]
            parts = [TopicPartition(TOPIC, number) for number in topic.partitions]
            told = sum(consumer.get_watermark_offsets(part, 10)[1] for part in parts)
            if told >= count:
                assert told == count
                return
            assert time.monotonic() < until_s, f"Debezium has told {told} of {count}"
            time.sleep(0.5)
    finally:
        consumer.close()


def test_cdc_page_works_as_written(
    lab_endpoints: LabEndpoints, servers: Any, folder: Path, database: Any
) -> None:
    brokers = lab_endpoints.bootstrap_servers
    home = servers.fetch(default_cache_folder(os.environ))
    here = folder / "reader"
    here.mkdir()
    (here / "lake").mkdir()
    replaced = {
        "127.0.0.1:9092": brokers,
        "/srv/lake": str(here / "lake"),
        "/srv/plugins": str(home / "plugins"),
        "database.port=3306": f"database.port={database.port}",
        "database.user=debezium": "database.user=root",
        "database.password=secret": "database.password=",
    }
    reader = Reader(here, replaced, database)
    connector, worker, *_ = blocks_of(PAGE, "properties")
    reader.write("orders.sql", blocks_of(PAGE, "sql")[0])
    reader.write("shop.properties", connector)
    listener = f"listeners=http://127.0.0.1:{servers.free_port()}\n"
    reader.write("worker.properties", worker + listener)
    reader.write("orders.yaml", blocks_of(PAGE, "yaml")[0])
    reader.write("show.py", blocks_of(PAGE, "python")[0])
    steps = steps_of(PAGE)
    begin = next(n for n, step in enumerate(steps) if step.command.startswith("connect-standalone"))
    for step in steps[:begin]:
        reader.run(step)
    command = ["java", "-Xmx384m", "-XX:+UseSerialGC", "-cp", f"{home}/connect/*"]
    command += ["org.apache.kafka.connect.cli.ConnectStandalone"]
    with (
        (here / "connect.log").open("wb") as log,
        subprocess.Popen(
            [*command, "worker.properties", "shop.properties"], cwd=here, stdout=log, stderr=log
        ) as connect,
    ):
        try:
            # Its snapshot; later an update, a delete with its tombstone, an insert.
            wait_for_records(brokers, FIRST)
            for step in steps[begin:]:
                reader.run(step)
                if step.command.startswith("mariadb"):
                    wait_for_records(brokers, FIRST + CHANGED)
        finally:
            connect.kill()
