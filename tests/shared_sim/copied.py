"""Two rooms with a store each: a copier brings tables over, and is cut off anywhere.

It brings files in any order, and some of them in part. Room b adopts the copies of all routes,
while room a is lost, or is thought to be. A copier that goes on brings files of slots that are cut.
"""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from shared_sim.judge import ViolationError
from shared_sim.source import TOPIC, Topic
from shared_sim.world import HOSTS, World
from sluiceway.cli.commands.adopt import adopt_routes
from sluiceway.cli.options import OutputFormat
from sluiceway.errors import SluicewayError
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.loader import inspect_job
from sluiceway.ledger.generations import read_generations
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.rooms.adopt_table import CONFIRMATIONS, AdoptOrder
from sluiceway.sources.contract import SourcePartition
from sluiceway.storage.local import LocalStorage

if TYPE_CHECKING:
    from sim.scheduler import Process

_A, _B = HOSTS
_ACTIONS = 24
_TABLES = ("raw", "of_even")
_JOB = """\
version: 1
name: shared
connections:
  main: {kafka: {bootstrap_servers: "127.0.0.1:1"}}
  lake: {folder: {path: "ROOT/none"}}
format: {json: {}}
source: {connection: main, topics: [events], start: earliest}
run: {interval: INTERVAL, discover_interval: 1s, master: "local[2]"}
rooms:
  home: a
  storage: copied
  after: 6s
  a: {connections: {lake: {folder: {path: "ROOT/a"}}}}
  b: {connections: {lake: {folder: {path: "ROOT/b"}}}}
routes:
- table:
    hive: {connection: lake, name: ods.raw}
    columns: [{name: id, type: bigint, required: true}]
    partition_by: []
- where: "even"
  table:
    hive: {connection: lake, name: ods.of_even}
    columns: [{name: id, type: bigint, required: true}, {name: even, type: boolean}]
    partition_by: []
"""
_PLACED = frozenset({"OWNER", "lease.json"})


class CopiedWorld(World):
    """Everything of one seed: how much the copier brings, and what room a does meanwhile."""

    def __init__(self, seed: int, folder: Path, *, traced: bool = False) -> None:
        super().__init__(seed, folder, traced=traced)
        self.topic = Topic({SourcePartition(TOPIC, n): [] for n in range(1 + seed % 2)})
        self._brings = self.rng.choice((0.1, 0.4, 0.9))
        self._tears = self.rng.choice((0.0, 0.4))
        self._brought: dict[Path, tuple[int, int]] = {}
        self._adopters: list[Process] = []
        self._answers: list[str] = []
        self._b_began = False

    def routes_of(self, room: str, *, bounded: bool) -> list[RouteConfig]:
        del bounded
        text = _JOB.replace("ROOT", str(self.folder)).replace("INTERVAL", self._interval)
        found = inspect_job(text.encode(), Path("job.yaml"), {}, room=room)
        assert found.job is not None, found.problems
        return list(compile_routes(found.job.spec).routes)

    # What happens

    def append(self) -> None:
        """Producers write."""
        for _ in range(self.rng.randint(1, 8)):
            number, self._written = self._written, self._written + 1
            even = "true" if number % 2 == 0 else "false"
            row = f'{{"id": {number}, "even": {even}}}'.encode()
            self.rng.choice(list(self.topic.logs.values())).append(row)

    def copy(self) -> None:
        """The copier brings some files of room a, in any order; of some only a part."""
        source, target = self.folder / "a/ods.db", self.folder / "b/ods.db"
        for path in sorted(source.rglob("*")):
            if not path.is_file() or self.rng.random() >= self._brings:
                continue
            raw, name = path.read_bytes(), path.relative_to(source)
            known = (path.stat().st_mtime_ns, len(raw))
            if self._brought.get(name) == known or name.name.endswith((".tmp", ".inprogress")):
                continue
            if self._b_began and name.name in _PLACED:
                # It copies new versions, and these are what room b has written.
                continue
            # A file in part must not take the place of a whole one that was adopted.
            if not self._b_began and self.rng.random() < self._tears:
                raw = raw[: len(raw) // 2]
            else:
                self._brought[name] = known
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes(raw)
            self.seen["late_files"] += self._b_began

    def lose_a(self) -> None:
        """All that runs in room a dies."""
        self.seen["rooms_lost"] += 1
        self.note("room a is lost")
        for life in self.running():
            if life.process.host == _A:
                self.scheduler.kill(life.process)
                for process in life.runner.processes:
                    if not process.dead:
                        self.scheduler.kill(process)

    def adopt(self) -> None:
        """An operator in room b adopts all routes; the command may die anywhere."""
        if not (self.folder / "b/ods.db").exists():
            return
        process = self.scheduler.process(f"adopt{len(self._adopters)}", _B)
        if not self.topic.well and self.rng.random() < 0.5:
            process.crash_in = int(600 ** self.rng.random())
        self._adopters.append(process)
        self.scheduler.spawn(process, lambda: self._adopt(process), "main")

    def _adopt(self, process: "Process") -> None:
        order = AdoptOrder("o@h", "a test", CONFIRMATIONS)
        routes = self.routes_of(_B, bounded=False)
        answers = adopt_routes(routes, None, order, OutputFormat.JSON)
        self._answers = [str(each) for each in answers if isinstance(each, SluicewayError)]
        for each in answers:
            what = each.code if isinstance(each, SluicewayError) else "adopted"
            self.seen[f"adopt_{what}"] += 1
        self.note(f"{process.name}: {self._answers or 'all are adopted'}")
        self._b_began = self._b_began or len(self._answers) < len(answers)
        self.scheduler.kill_soon(process)

    def copy_back(self) -> None:
        """The claims of room b come to room a, whose drivers are fenced by them for ever."""
        source, target = self.folder / "b/ods.db", self.folder / "a/ods.db"
        for path in sorted(source.glob("*/_sluiceway/*/generations/*.json")):
            name = path.relative_to(source)
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / name)
            self.seen["claims_back"] += 1

    def trouble(self) -> None:
        """Actions until their number is up."""
        self.append()
        self.start_driver(host=_A)
        actions = (
            (8, self.append),
            (9, self.copy),
            (4, lambda: self._start_in(_A)),
            (2, lambda: self._start_in(_B)),
            (2, self._crash),
            (1, self._pause),
            (1, self.lose_a),
            (2, self.adopt),
            (1, self.copy_back),
        )
        weights, calls = zip(*actions, strict=True)
        for _ in range(self.rng.randint(8, _ACTIONS)):
            self._go_on(int(3000 ** self.rng.random()))
            (call,) = self.rng.choices(calls, weights)
            call()

    def _start_in(self, room: str) -> None:
        if not any(life.process.host == room for life in self.running()):
            self.start_driver(host=room)

    # What has to be so

    def heal(self) -> None:
        """The copier is stopped for good, room b adopts the copies and has each row once."""
        self.note("the world is well from here on")
        if self.rng.random() < 0.5:
            self.lose_a()
        self.topic.well = self.hive.well = True
        for life in self.running():
            life.stop.ask()
            life.process.crash_in = None
            self.scheduler.pause(life.process, paused=False)
        self._until_ended([*self._adopters, *(life.process for life in self.running())])
        for _ in range(8):
            self.adopt()
            self._until_ended(self._adopters)
            if self._adopters and not self._answers:
                break
            self._refuse_only_little()
            # Of what was never copied there is nothing to adopt.
            self.copy()
        else:
            self.seen["never_adopted"] += 1
            return
        last = self.start_driver(host=_B)
        late = self.rng.choice((0, 3))
        for turn in range(30):
            if turn < late:
                self.copy()
            self._go_on_for(15.0)
            if turn >= late and (self._differs() == "" or last.halts):
                break
        last.stop.ask()
        self._until_ended([last.process])
        if self._differs():
            raise ViolationError(f"{self._differs()}: {last.halts} {last.error} {last.waits[-1:]}")
        self._check_room_a()

    def _refuse_only_little(self) -> None:
        """An adopt is refused where the copy has no whole slot yet, and for nothing else."""
        expected = ("no slot of the copy has all its files", "name no source partition yet")
        other = [each for each in self._answers if not any(text in each for text in expected)]
        if other:
            raise ViolationError(f"not adopted: {other}")

    def _differs(self) -> str:
        """How the tables of room b differ from the topic; empty when they do not."""
        rows = [json.loads(value) for log in self.topic.logs.values() for value in log]
        for name in _TABLES:
            wanted = Counter(row["id"] for row in rows if name == "raw" or row["even"])
            files = sorted((self.folder / "b/ods.db" / name).glob("*.parquet"))
            found: Counter[int] = Counter()
            for file in files:
                try:
                    found.update(pq.read_table(file, partitioning=None).column("id").to_pylist())
                except (OSError, ValueError) as error:
                    return f"{name}: readers find {file.name}, which is torn: {error}"
            if found != wanted:
                lost, more = sorted(wanted - found), sorted(found - wanted)
                return f"{name}: lacks {lost[:9]}, has in addition {more[:9]}"
        return ""

    def _check_room_a(self) -> None:
        """No driver of room a begins once it sees the claim."""
        self.copy_back()
        last = self.start_driver(host=_A)
        self._go_on_for(60.0)
        for name in _TABLES:
            layout = LedgerLayout(
                str(self.folder / "a/ods.db" / name), f"ods-{name}".replace("_", "-")
            )
            if Path(layout.root).exists():
                assert read_generations(LocalStorage(), layout), layout.root
        if not last.process.dead or "SW451" not in last.error:
            raise ViolationError(f"a driver of room a goes on: {last.error} {last.halts}")
