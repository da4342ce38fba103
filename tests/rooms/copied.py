"""Drills of a copied table: room a is killed under load, room b adopts what a copier brought."""

import os
import random
import shutil
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from rooms.judge import (
    PARTITIONS,
    CheckedTopic,
    DrillResults,
    Rows,
    committed_rows,
    is_announced,
)
from rooms.load import BY_MINUTE, EVENT_TIME, QUICK_STEP_MS, Load
from sluiceway.ledger.records import FenceRecord
from sluiceway.rooms import adopt_table
from tools.driver_process import DriverProcess
from tools.two_rooms import CONFIRMED, TwoRooms, two_rooms

_ROUND_S = 0.1
_QUIET_S = 2.0
_DELAYS_S = (0.5, 2.0, 5.0)


class Copier:
    """Brings each object of a table to another room, after a delay of its own, in any order.

    Args:
        source: The table.
        target: Its copy.
        rng: Says when.
        delay_s: How late an object is, on average.
    """

    def __init__(self, source: Path, target: Path, rng: random.Random, delay_s: float) -> None:
        self._source, self._target = source, target
        self._rng, self._delay_s = rng, delay_s
        self._due: dict[Path, float] = {}
        self._done: set[Path] = set()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Bring nothing more."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.is_set():
            for name in self._files():
                if name not in self._due:
                    late = self._rng.expovariate(1 / self._delay_s)
                    self._due[name] = time.monotonic() + late
            for name, due in self._due.items():
                if due <= time.monotonic() and name not in self._done:
                    self._bring(name)
            self._ending.wait(_ROUND_S)

    def _files(self) -> Iterator[Path]:
        # Unlike `rglob`, it passes over folders that are removed meanwhile.
        for folder, _, names in os.walk(self._source):
            paths = (Path(folder, name) for name in names)
            yield from (each.relative_to(self._source) for each in paths if not _is_temporary(each))

    def _bring(self, name: Path) -> None:
        self._done.add(name)
        target = self._target / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copyfile(self._source / name, target)
        except FileNotFoundError:
            # It was removed in room a, or has another name since.
            target.unlink(missing_ok=True)


def _is_temporary(path: Path) -> bool:
    return path.name.startswith(".") or path.suffix in (".tmp", ".inprogress")


class CopiedDrills:
    """A new job and table a drill; the queue spans both rooms.

    Args:
        servers: The broker.
        folder: For job files, tables and logs.
        seed: Of what happens when.
    """

    def __init__(self, servers: str, folder: Path, seed: int) -> None:
        self._servers = servers
        self._folder = folder
        self._rng = random.Random(seed)  # noqa: S311 - no secret
        self.results = DrillResults()

    def play(self, drills: int) -> DrillResults:
        """Run so many drills."""
        # A copier here is a thread that was joined: what it has brought does not change.
        adopt_table.QUIET_S = _QUIET_S  # type: ignore[misc]
        for number in range(drills):
            folder = self._folder / f"drill{number}"
            folder.mkdir()
            topic = f"copied-{uuid.uuid4().hex[:10]}"
            admin = AdminClient({"bootstrap.servers": self._servers, "log_level": 0})
            admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)
            rooms = two_rooms(
                folder,
                self._servers,
                topic,
                partition_by=BY_MINUTE,
                event_time=EVENT_TIME,
                ready="{}",
            )
            self._drill(rooms, _DELAYS_S[number % len(_DELAYS_S)])
        return self.results

    def _drill(self, rooms: TwoRooms, delay_s: float) -> None:
        load = Load(self._servers, rooms.topic, PARTITIONS, step_ms=QUICK_STEP_MS)
        copier = Copier(rooms.table("a"), rooms.table("b"), self._rng, delay_s)
        with self._driver(rooms, "a") as driver:
            driver.wait_for_event("fenced")
            load.start()
            copier.start()
            driver.wait_until(lambda: is_announced(rooms.a.records()), "an announced minute")
            time.sleep(self._rng.uniform(2.0, 8.0))
            driver.kill_group()
            copier.stop()
        began = time.monotonic()
        if rooms.adopt(*CONFIRMED) != 0:
            self.results.refused += 1
            load.close()
            return
        with self._driver(rooms, "b") as driver:
            driver.wait_for_event("committed")
            self.results.add(f"kill, copier {delay_s:.1f} s late", time.monotonic() - began)
            # The cut may have left the announcements of room a out.
            driver.wait_until(lambda: is_announced(rooms.b.records()), "an announced minute")
            load.close()
            checked = CheckedTopic(self._servers, rooms.topic)
            wanted = checked.wait_read(rooms.b.log().fold, load.acknowledged)
            driver.send(signal.SIGTERM)
            assert driver.wait().exit_code == 0, driver.stderr()[-2000:]
        self._compare(rooms, wanted)

    @contextmanager
    def _driver(self, rooms: TwoRooms, room: str) -> Iterator[DriverProcess]:
        options = ("--room", room, "--log-format", "json")
        with DriverProcess(
            rooms.a.job, rooms.root, *options, module="tools.inline_driver"
        ) as driver:
            yield driver

    def _compare(self, rooms: TwoRooms, wanted: Rows) -> None:
        results, records = self.results, rooms.b.records()
        results.compare(wanted, committed_rows(rooms.b.log()))
        results.check_order(records)
        for record in records:
            if isinstance(record.body, FenceRecord) and record.body.adopted is not None:
                results.cut += record.body.adopted.slots
        rooms.b.assert_verified()
