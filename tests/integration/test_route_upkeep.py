"""A route whose log is snapshotted and packed while it runs, at folders of four slots."""

from pathlib import Path

import pytest

from sluiceway.ledger import layout as layouts
from sluiceway.ledger import upkeep
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import RecordType
from sluiceway.storage.local import LocalStorage
from tools.job_files import event
from tools.route_faults import NewRun
from tools.topic_writer import TopicWriter


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "RECORDS_PER_FOLDER", 4)
    monkeypatch.setattr(upkeep, "SNAPSHOT_EVERY", 5)


def test_restarts_go_on_from_snapshots_and_packs(
    new_run: NewRun, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, topic = new_run()
    for start in range(0, 60, 10):
        writer.write(topic, [event(n) for n in range(start, start + 10)], partition=0)
        run.catch_up()
    folders = sorted(path.name for path in run.root().glob("_sluiceway/*/log/*"))
    assert folders[0] > f"{0:016d}"
    assert list(run.root().glob("_sluiceway/*/pack/*.jsonl.gz"))
    kinds = [record.type for record in run.records()]
    assert kinds.count(RecordType.FENCE) == 6
    assert kinds.count(RecordType.DATA) == 6
    assert RecordType.SNAPSHOT in kinds
    assert run.rows() == [(0, n) for n in range(60)]
    run.assert_verified()

    read: list[str] = []
    real = LocalStorage.read

    def counting(storage: LocalStorage, path: str) -> bytes | None:
        read.append(path)
        return real(storage, path)

    monkeypatch.setattr(LocalStorage, "read", counting)
    run.catch_up()
    assert not any(path.endswith(f"{0:020d}.json") for path in read)


def test_side_files_that_were_lost_are_made_from_the_log(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run, topic = new_run()
    for start in range(0, 60, 10):
        writer.write(topic, [event(n) for n in range(start, start + 10)], partition=0)
        run.catch_up()
        for side in run.root().glob("_sluiceway/*/stage/snapshots/*"):
            side.unlink()
    assert run.rows() == [(0, n) for n in range(60)]
    run.assert_verified()


def test_verify_sees_a_pack_that_was_altered(new_run: NewRun, writer: TopicWriter) -> None:
    run, topic = new_run()
    for start in range(0, 60, 10):
        writer.write(topic, [event(n) for n in range(start, start + 10)], partition=0)
        run.catch_up()
    pack = Path(next(iter(run.root().glob("_sluiceway/*/pack/*.jsonl.gz"))))
    pack.write_bytes(pack.read_bytes()[:-9])
    with pytest.raises(AssertionError):
        run.assert_verified()
    layout = layouts.LedgerLayout(str(run.root()), pack.parts[-3])
    # A start does not need it: the snapshot is above.
    assert LedgerLog(LocalStorage(), layout).fold().counts.written == 60
