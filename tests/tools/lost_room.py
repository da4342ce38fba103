"""A table of room a whose rows are lines `partition offset`, and a copier that is stopped anywhere.

No server and no tasks: the rows of an epoch are written here, and the product's own ledger holds
them. Room b adopts what the copier has brought.
"""

import shutil
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from uuid import uuid4

from sluiceway.jobfile.compile.room_rule import RoomRule
from sluiceway.ledger.driver_term import Owner
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.live_files import LiveFiles, removed_files
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import (
    COMPACT,
    AbandonRecord,
    IntentRecord,
    ReplaceRecord,
)
from sluiceway.ledger.places import intent_folder, moved_folder
from sluiceway.ledger.placing import all_files, placed
from sluiceway.ledger.records import (
    DataRecord,
    FilesRecord,
    RowCounts,
    TableIdentityRecord,
)
from sluiceway.ledger.snapshot import write_hint, write_side_file
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.rooms.adopt_table import (
    AdoptOrder,
    AdoptPlan,
    CopiedPlace,
    adopt_table,
    plan_adopt,
)
from sluiceway.sources.contract import LogBounds, SourceClient, SourcePartition
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt, encode
from tools.ledger_records import LEDGER, data, fence, sources, span
from tools.session_on_disk import DiskTable, SmallSource

if TYPE_CHECKING:
    from sluiceway.jobfile.compile.config import RouteConfig

PARTITIONS = (0, 1)
FOLDERS = ("dt=1", "dt=2", "dt=3")
Rows = Counter[tuple[int, int]]


def dice(seed: int) -> Random:
    """What comes when; the same for the same seed."""
    return Random(seed)  # noqa: S311 - no secret


def refuse_to_wait(attempts: int, error: Exception) -> None:
    raise AssertionError((attempts, error))


@dataclass
class RoomTable:
    """The table in one room, as a driver of that room fills it.

    Attributes:
        published: Whether files get their final names; room a may be lost before that.
    """

    root: Path
    writer: LedgerWriter
    rng: Random
    published: bool = True

    @property
    def fold(self) -> Fold:
        return self.writer.fold

    def run_epoch(self, most: int, ends: dict[int, int] | None = None) -> None:
        """Read the next rows of each source partition, up to `ends`, into files of some hours."""
        fold, lines, ranges = self.fold, dict[str, list[str]](), []
        for number in PARTITIONS:
            start = fold.sources["orders", number].end
            end = start + self.rng.randint(0, most) if ends is None else ends[number]
            if end > start:
                ranges.append(span(number, start, end))
            for offset in range(start, end):
                lines.setdefault(FOLDERS[offset // 10 % 3], []).append(f"{number} {offset}\n")
        if not ranges:
            return
        epoch = fold.last_epoch + 1
        attempt = f"{fold.term}-{epoch}-{uuid4().hex}"
        files = tuple(self._stage(attempt, folder, rows, epoch) for folder, rows in lines.items())
        rows, no = BigInt(sum(map(len, lines.values()))), BigInt(0)
        base = data(fold.term, epoch, *ranges)
        body = replace(base, files=files, counts=RowCounts(rows, rows, no, no, no, no))
        self.writer.commit(lambda now: placed(body, now))
        self._publish()

    def _stage(
        self, attempt: str, folder: str, lines: list[str], epoch: int, final: str = ""
    ) -> FileRecord:
        name = f"orders-{self.fold.term}-{epoch}-0-{uuid4().hex}.parquet"
        storage, layout = self.writer.log.storage, self.writer.log.layout
        storage.make_folders(layout.attempt(attempt))
        staged = storage.create_staged(f"{layout.attempt(attempt)}/{name}")
        staged.handle().write("".join(lines).encode())
        seal = staged.seal()
        return FileRecord(
            f"{attempt}/{name}",
            f"{final or folder}/{name}",
            (folder.partition("=")[2],),
            BigInt(len(lines)),
            BigInt(seal.size_bytes),
            seal.crc32c,
            {},
        )

    def _publish(self) -> None:
        if not self.published:
            return
        layout = self.writer.log.layout
        for record in list(self.fold.unpublished.values()):
            for file in all_files(record):
                self.writer.log.storage.publish(
                    layout.attempt(file.staged),
                    layout.final(file.final),
                    size_bytes=int(file.size_bytes),
                    crc32c=file.crc32c,
                )
        self.writer.set_published()

    def compact(self, partition: str) -> None:
        """Merge the files of a partition into one, in another folder; the old ones go."""
        state = self.fold.partitions.get(partition)
        if state is None or state.files < 2 or self.fold.unpublished:
            return
        uuid = uuid4().hex
        intent = self.writer.commit(IntentRecord(partition, state.version, uuid, COMPACT)).seq
        state = self.fold.partitions[partition]
        live = LiveFiles(self.writer.log, [state]).of(state)
        old = [self.root / each.final for each in live]
        lines = [line for path in old for line in path.read_text().splitlines(keepends=True)]
        folder = moved_folder(partition, intent, uuid)
        epoch = max(self.fold.last_epoch, 0)
        merged = self._stage(intent_folder(intent, uuid), partition, lines, epoch, folder)
        self.writer.commit(
            ReplaceRecord(
                intent, partition, state.version + 1, folder, removed_files(live), (merged,)
            )
        )
        self._publish()
        if self.rng.random() < 0.5:
            for path in old:
                path.unlink()

    def snapshot(self) -> None:
        """As upkeep takes one."""
        log = self.writer.log
        if not self.fold.unpublished:
            committed = self.writer.commit(write_side_file(log.storage, log.layout, self.fold))
            write_hint(log.storage, log.layout, committed.seq)

    def rows(self) -> Rows:
        """Rows that readers of the catalog's folders find, whoever has written their files."""
        folders = [self.root / each.location for each in self.fold.partitions.values()]
        found: Rows = Counter()
        for path in (path for folder in folders for path in folder.glob("*.parquet")):
            found.update(_parsed(line) for line in path.read_text().splitlines())
        return found


def _parsed(line: str) -> tuple[int, int]:
    number, _, offset = line.partition(" ")
    return int(number), int(offset)


def rows_up_to(ends: dict[int, int]) -> Rows:
    """Each row of the queue once."""
    return Counter((number, offset) for number, end in ends.items() for offset in range(end))


def room_a(root: Path, rng: Random, epochs: int) -> RoomTable:
    """A table that a driver of room a has filled, with fences, compactions and snapshots."""
    log = LedgerLog(LocalStorage(), LedgerLayout(str(root), "orders"))
    for place in (log.layout.log, log.layout.stage):
        log.storage.make_folders(place)
    owner = Owner(LEDGER, "orders", "orders", str(root))
    log.storage.put_if_absent(log.layout.owner, encode(owner), tmp_folder=log.layout.stage)
    table = RoomTable(root, LedgerWriter(log, log.fold(), refuse_to_wait), rng)
    table.writer.fence(replace(fence(), site="a"), lambda: None)
    table.writer.commit(sources(*PARTITIONS))
    for number in range(epochs):
        table.published = number < epochs - 1 or rng.random() < 0.5
        table.run_epoch(15)
        chance = rng.random()
        if chance < 0.3:
            table.compact(rng.choice(FOLDERS))
        elif chance < 0.4:
            table.writer.fence(replace(fence(driver=uuid4().hex), site="a"), lambda: None)
        elif chance < 0.5:
            table.snapshot()
    return table


def copy_some(table: RoomTable, target: Path, rng: Random) -> None:
    """Bring objects in any order until room a is lost: late slots are the likeliest to be missing.

    A file that is published was staged before: the copier may have brought it under either name,
    or both.
    """
    layout, last = table.writer.log.layout, table.fold.next_seq
    reach = rng.uniform(0.2, 1.0) * last
    delay = rng.choice((0.5, 2.0, 6.0))

    def bring(source: Path, name: str, at: float) -> None:
        if source.is_file() and at + rng.expovariate(1 / delay) <= reach:
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, path)

    for record, _ in table.writer.log.records():
        at = record.seq
        source = Path(layout.record(at))
        bring(source, str(source.relative_to(table.root)), at)
        files = all_files(record.body) if isinstance(record.body, FilesRecord) else ()
        for file in files:
            staged = f"_sluiceway/orders/stage/{file.staged}"
            final = table.root / file.final
            bring(final if final.is_file() else table.root / staged, staged, at - 0.2)
            bring(final, file.final, at + 0.2)
    for name in ("OWNER", "orders/hint.json"):
        bring(table.root / "_sluiceway" / name, f"_sluiceway/{name}", 0.0)
    for source in (table.root / "_sluiceway/orders/stage/snapshots").glob("*"):
        bring(source, str(source.relative_to(table.root)), int(source.name.partition("-")[0]))


@dataclass
class RoomB:
    """What room b has: a copy, a catalog and the queue.

    Attributes:
        table: Its catalog's entry.
    """

    root: Path
    table: DiskTable = field(init=False)

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        (self.root / "_sluiceway/orders/stage").mkdir(parents=True, exist_ok=True)
        self.table = DiskTable(self.root)

    def place(self, *, room: str = "b") -> CopiedPlace:
        """Where the copy is."""
        state = self.table.open()
        identity = TableIdentityRecord("c:b", "ods", "orders", BigInt(7), str(self.root))
        config = cast("RouteConfig", SimpleNamespace(job="orders", route="orders"))
        rule = RoomRule(room, "a", ("a", "b"), False, 10.0, 30.0, "", copied=True)  # noqa: FBT003
        layout = LedgerLayout(str(self.root), "orders")
        return CopiedPlace(config, rule, LocalStorage(), layout, identity, state)

    def driver(self, rng: Random) -> RoomTable:
        """A driver of room b, fenced, which has published what is owed."""
        log = LedgerLog(LocalStorage(), LedgerLayout(str(self.root), "orders"))
        writer = LedgerWriter(log, log.fold(), refuse_to_wait)
        writer.fence(replace(fence(driver=uuid4().hex), site="b"), lambda: None)
        table = RoomTable(self.root, writer, rng)
        table._publish()
        for intent in list(table.fold.intents):
            writer.commit(AbandonRecord(intent, "its driver is gone"))
        return table


class Queue(SmallSource):
    """Both source partitions of the topic, as room b sees them."""

    def __init__(self, ends: dict[int, int], starts: dict[int, int] | None = None) -> None:
        starts = starts or {}
        logs = {n: LogBounds(starts.get(n, 0), end, end) for n, end in ends.items()}
        super().__init__(logs[0], rest={SourcePartition("orders", 1): logs[1]})


ORDER = AdoptOrder("ann@host", "room a burns", ("copier_stopped", "room_down"))


def ends_of(table: RoomTable, more: int = 0) -> dict[int, int]:
    """Ends of the queue's logs: as far as the table has read, and some rows more."""
    return {number: table.fold.sources["orders", number].end + more for number in PARTITIONS}


def adopted(room: RoomB, source: SourceClient, order: AdoptOrder = ORDER) -> AdoptPlan:
    """Adopt what has come, as the command does after the copier was seen to be stopped."""
    plan = plan_adopt(room.place(), source)
    plan.refuse_gaps(accepted=order.accept_gap)
    adopt_table(plan, order, room.table)
    return plan


def lose_a_file(table: RoomTable, room: RoomB) -> str:
    """One file of the last slot has not come; its final name."""
    last = table.writer.log.read_slot(table.fold.next_seq - 1)
    assert last is not None
    assert isinstance(last[0].body, DataRecord)
    final = last[0].body.files[0].final
    (room.root / final).unlink()
    return final
