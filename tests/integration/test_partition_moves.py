"""A partition of a real Hive table moves while its route runs; readers follow it."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.driver.stop import StopSignal
from sluiceway.followers import moved_partitions
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.records import RecordType
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.partition_bodies import expire_body, ready_body
from sluiceway.upkeep.record_queue import RecordQueue
from sluiceway.upkeep.replacing import Staging, move_partitions
from tools.job_files import event
from tools.route_faults import NewRun
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter
from tools.waiting import wait_for

PATIENCE_S = 120.0


class Work:
    """Does one thing beside the epochs, in a thread of its own, then has the job stop."""

    def __init__(self, act: Callable[[RecordQueue], object], stop: StopSignal) -> None:
        self._act = act
        self._stop = stop
        self._thread: threading.Thread | None = None
        self.result: object = None
        self.error: BaseException | None = None

    def begin(self, place: RecordQueue) -> "Work":
        self._thread = threading.Thread(target=self._run, args=(place,))
        self._thread.start()
        return self

    def _run(self, place: RecordQueue) -> None:
        try:
            self.result = self._act(place)
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            self.error = error
        self._stop.ask()

    def close(self) -> None:
        assert self._thread is not None
        self._thread.join(PATIENCE_S)


def beside(run: RouteRun, act: Callable[[RecordQueue], object]) -> object:
    """Run the job until this is done beside it."""
    stop = StopSignal()
    work = Work(act, stop)
    run.run_until(stop, background=(work.begin,))
    assert work.error is None
    return work.result


def merge(place: RecordQueue, folder: str, live: Sequence[FileRecord]) -> list[FileRecord]:
    """All rows into one file."""
    storage, layout = place.log.storage, place.log.layout
    tables = []
    for file in live:
        with storage.open_read(layout.final(file.final)) as stream:
            tables.append(pq.read_table(stream))
    attempt = folder.rpartition("/")[2]
    name = f"{layout.route}-{attempt}.parquet"
    writer = storage.create_staged(f"{folder}/{name}")
    merged = pa.concat_tables(tables)
    pq.write_table(merged, writer.handle(), compression="zstd")
    seal = writer.seal()
    sizes = (BigInt(merged.num_rows), BigInt(seal.size_bytes))
    return [FileRecord(f"{attempt}/{name}", name, live[0].values, *sizes, seal.crc32c, {})]


def first_partition(fold: Fold) -> str:
    return min(fold.partitions)


def test_partition_moves_is_announced_and_let_go_while_its_route_runs(
    new_run: NewRun, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, topic = new_run()
    for start in (0, 10):
        writer.write(topic, [event(n) for n in range(start, start + 10)], partition=0)
        run.catch_up()
    before = run.partitions()
    rows = run.rows()

    # Rows that come while the files are rewritten are carried over.
    def rewrite(place: RecordQueue) -> object:
        chosen: list[str] = []
        place.ask(lambda fold: chosen.append(first_partition(fold))).result(PATIENCE_S)

        def slowly(staged: Sequence[Staging]) -> list[list[FileRecord]]:
            merged = [merge(place, each.folder, each.live) for each in staged]
            writer.write(topic, [event(n) for n in range(20, 30)], partition=0)
            wait_for(lambda: len(run.rows()) == len(rows) + 10)
            return merged

        (moved,) = move_partitions(place, chosen, lambda *_: "", slowly)
        assert moved.failed == ""
        return moved.slot

    slot = beside(run, rewrite)
    assert isinstance(slot, int)
    moved = {value: place for value, place in run.partitions().items() if place != before[value]}
    ((value, place),) = moved.items()
    assert Path(place).parent.name.startswith("_sluiceway-")
    assert run.rows() == [(0, n) for n in range(30)]
    old = Path(before[value])
    assert list(old.glob("*.parquet"))
    run.assert_verified()

    monkeypatch.setattr(moved_partitions, "READERS_GRACE_S", 0.2)
    monkeypatch.setattr(moved_partitions, "_LOOK_EVERY_S", 0.5)
    beside(run, lambda _: wait_for(lambda: not old.exists()))
    assert run.rows() == [(0, n) for n in range(30)]
    run.assert_verified()

    def announce(place: RecordQueue) -> object:
        chosen: list[str] = []
        place.ask(lambda fold: chosen.append(first_partition(fold))).result(PATIENCE_S)
        place.close_prefix(chosen[0])
        found: list[int] = []

        def is_ready() -> bool:
            slot = place.ask(lambda fold: ready_body(fold, chosen[0])).result(PATIENCE_S)
            found.extend([] if slot is None else [slot])
            return bool(found)

        wait_for(is_ready)
        place.ask(lambda fold: expire_body(fold, chosen, "its owner")).result(PATIENCE_S)
        wait_for(lambda: value not in run.partitions())
        return found[0]

    beside(run, announce)
    assert set(run.partitions()) == set(before) - {value}
    kinds = [record.type for record in run.records()]
    for kind in (RecordType.INTENT, RecordType.REPLACE, RecordType.READY, RecordType.EXPIRE):
        assert kinds.count(kind) == 1
    run.assert_verified()
