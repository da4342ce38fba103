"""Background work of a driver: partitions are rewritten, closed, announced and let go.

The requests go the product's own way (`upkeep.record_queue`, `upkeep.replacing`,
`upkeep.compactor`); what a
compaction does to the rows is simulated: all of them into one file.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sim.counting import audited
from sim.tasks import RowsFile
from sluiceway.errors import SluicewayError, StorageUnavailableError, TaskFailedError
from sluiceway.ledger.counts_records import CountsRecord
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.live_files import LiveFiles
from sluiceway.ledger.partition_records import ExpireRecord, ReadyRecord, SwapCounts
from sluiceway.storage.contract import Storage
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.partition_bodies import counts_body, expire_body, ready_body
from sluiceway.upkeep.record_queue import RecordQueue
from sluiceway.upkeep.replacing import Staging, move_partitions
from sluiceway.upkeep.rewriting import Rewritten
from sluiceway.upkeep.swapping import SwapContent, SwapOrder, SwapStaging, swap

if TYPE_CHECKING:
    from sim.world import World
    from sluiceway.ledger.folding.fold_state import PartitionState

_PAUSE_S = 6.0
BACKGROUND = "background"
"""What happens often in a world where drivers hardly rest between works."""


class SimBackground:
    """Of one route of one driver, in a thread of its process."""

    def __init__(self, world: "World", record_queue: RecordQueue, topic: str) -> None:
        self._world = world
        self._queue = record_queue
        self._rng = world.scheduler.rng
        self._topic = topic
        self._closed = False
        self._process = world.scheduler.alive().process
        world.scheduler.spawn(self._process, self._run, "background")

    def close(self) -> None:
        """Let the thread end; it may be in the middle of something."""
        self._closed = True

    def _run(self) -> None:
        doings = (self._move, self._swap, self._announce, self._expire, self._count)
        # With readiness the product's own planner closes and announces.
        timed = self._world.timed
        counts = timed is not None and bool(timed.counts)
        # Rows that come to a place after it was let go are published in a new folder, and no
        # commit waits for that: of these there are to be enough where folders take no files.
        let_go = 8 if self._world.doubts.naming else 1
        weights = (12, 4, 0 if self._world.is_timed else 6, let_go, 24 if counts else 0)
        pause_s = _PAUSE_S / 10 if BACKGROUND in self._world.often else _PAUSE_S
        while True:
            self._world.scheduler.wait(None, self._rng.random() * pause_s)
            if self._closed:
                return
            if self._process.lulled:
                continue
            (act,) = self._rng.choices(doings, weights)
            try:
                act()
            except SluicewayError as error:
                self._world.note(f"background: {act.__name__} ends with {error.code} {error}")
                if error.code.startswith("SW45"):
                    return

    def _choose(self, fold: Fold) -> str | None:
        names = sorted(name for name, each in fold.partitions.items() if each.files)
        return self._rng.choice(names) if names else None

    def _move(self) -> None:
        """Some partitions together; one may be gone, or worked on, by the time it is begun."""
        chosen: list[str] = []

        def choose(fold: Fold) -> None:
            names = sorted(name for name, each in fold.partitions.items() if each.files)
            chosen.extend(self._rng.sample(names, min(len(names), self._rng.randint(1, 4))))

        self._queue.ask(choose).result()
        moved = move_partitions(self._queue, chosen, lambda *_: "", self._rewrite)
        slots = [each.slot for each in moved if each.slot is not None]
        self._world.seen["moved"] += len(slots)
        self._world.seen["moved_together"] += len(slots) > 1

    def _swap(self) -> None:
        """The rows of a partition are written again, as a backfill does; it may be worked on."""
        chosen: list[str] = []
        self._queue.ask(lambda fold: chosen.append(self._choose(fold) or "")).result()
        if not chosen[-1]:
            return
        order = SwapOrder(chosen[-1], "backfill", busy_s=self._rng.random() * 10)
        swap(self._queue, order, self._again)
        self._world.seen["swapped"] += 1

    def _again(self, staging: SwapStaging) -> SwapContent:
        (name,) = staging.live
        files, rows = staging.live[name], BigInt(0)
        if self._rng.random() < 0.05:
            raise TaskFailedError("the process that reads rows again has ended by signal 9")
        log = self._queue.log
        made = rewritten(self._world, log.storage, log.layout, staging.folder, files)
        rows = BigInt(sum(file.rows for file in made))
        named = [replace(file, final=f"{name}/{file.final}") for file in made]
        return SwapContent(named, SwapCounts(rows, rows))

    def _rewrite(self, staged: Sequence[Staging]) -> list[Sequence[FileRecord] | SluicewayError]:
        rewriter = SimRewriter(self._world, self._queue.log.storage, self._queue.log.layout)
        made = rewriter.rewrite([(each.folder, each.live) for each in staged], until=None)
        return [one.files if isinstance(one, Rewritten) else one for one in made]

    def _announce(self) -> None:
        chosen: list[str] = []

        def choose(fold: Fold) -> None:
            open_ones = [name for name in fold.partitions if name not in fold.closed]
            names = sorted(fold.closed) + sorted(open_ones)
            if names:
                chosen.append(self._rng.choice(names))

        self._queue.ask(choose).result()
        if not chosen:
            return
        self._queue.close_prefix(chosen[0])

        def build(fold: Fold) -> ReadyRecord | None:
            return ready_body(fold, chosen[0])

        for _ in range(5):
            if self._queue.ask(build).result() is not None:
                self._world.seen["ready"] += 1
                return
            self._world.scheduler.wait(None, self._rng.random() * 2)

    def _count(self) -> None:
        world = self._world
        counts = audited(world.broker, self._topic, self._rng)

        def build(fold: Fold) -> CountsRecord | None:
            log, ends = ("counts", "cluster", "t1"), {0: fold.next_seq}
            return counts_body(fold, self._queue.closed(), log, ends, counts) if counts else None

        self._world.seen["counted"] += self._queue.ask(build).result() is not None

    def _expire(self) -> None:
        """The owner has a partition let go, and its files removed some time by whom he likes."""
        chosen: list[PartitionState] = []

        def choose(fold: Fold) -> None:
            name = self._choose(fold)
            chosen.extend([replace(fold.partitions[name])] if name else [])

        self._queue.ask(choose).result()
        if not chosen:
            return
        (state,) = chosen
        drop = self._rng.random() < 0.5 and state.whole
        live = {state.folder: LiveFiles(self._queue.log, [state]).of(state)} if drop else None

        def build(fold: Fold) -> ExpireRecord | None:
            return expire_body(fold, [state.folder], "the owner has dropped it", live)

        if self._queue.ask(build).result() is None:
            return
        self._world.seen["expired"] += 1
        if drop:
            self._world.seen["dropped"] += 1
        else:
            self._world.owner_removes(state.folder)


class SimRewriter:
    """What a driver's compactor rewrites with: the rows of the files into one, in its own time."""

    def __init__(self, world: "World", storage: Storage, layout: LedgerLayout) -> None:
        self._world = world
        self._storage = storage
        self._layout = layout
        self._cancelled = False

    def rewrite(
        self, staged: Sequence[tuple[str, Sequence[FileRecord]]], *, until: float | None
    ) -> list[Rewritten | SluicewayError]:
        """See `Rewriter.rewrite`; now and then its process is killed."""
        del until
        return [self._rewrite(folder, live) for folder, live in staged]

    def _rewrite(self, folder: str, live: Sequence[FileRecord]) -> Rewritten | SluicewayError:
        if self._cancelled or self._world.scheduler.rng.random() < 0.05:
            return TaskFailedError("the process that rewrites files has ended by signal 9")
        try:
            made = rewritten(self._world, self._storage, self._layout, folder, live)
        except SluicewayError as error:
            return error
        return Rewritten(made, 0.1, 0.1)

    def cancel(self) -> None:
        """See `Rewriter.cancel`."""
        self._cancelled = True


def rewritten(
    world: "World",
    storage: Storage,
    layout: LedgerLayout,
    folder: str,
    live: Sequence[FileRecord],
) -> list[FileRecord]:
    """All rows of files in one."""
    rng = world.scheduler.rng
    rows: list[tuple[int, int]] = []
    for file in live:
        path = layout.final(file.final)
        try:
            with storage.open_read(path) as stream:
                text = stream.read().decode()
        except OSError as error:
            raise StorageUnavailableError(f"cannot read: {error}", where=path) from error
        pairs = (line.split(":") for line in text.split())
        rows += [(int(partition), int(offset)) for partition, offset in pairs]
    attempt = folder.rpartition("/")[2]
    name = f"{layout.route}-{attempt}.parquet"
    writer = RowsFile(storage.create_staged(f"{folder}/{name}"))
    writer.write(rows)
    seal = writer.close().seal
    if rng.random() < 0.5:
        world.scheduler.wait(None, rng.random() * 4)
    first = live[0]
    sizes = (BigInt(len(rows)), BigInt(seal.size_bytes))
    return [FileRecord(f"{attempt}/{name}", name, first.values, *sizes, seal.crc32c, {})]
