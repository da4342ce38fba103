"""A ledger that was restored from an older copy, or lost, beside a table that has more."""

import shutil
from pathlib import Path

import pytest

from sluiceway.errors import LedgerMismatchError
from tools.job_files import event
from tools.raw_metastore import raw_client
from tools.route_faults import NewRun
from tools.topic_writer import TopicWriter

HOUR_MS, NEXT_HOUR_MS = 1_795_161_600_000, 1_795_165_200_000


@pytest.mark.parametrize("ts_ms", [HOUR_MS, NEXT_HOUR_MS], ids=["same hour", "new hour"])
def test_restored_older_ledger_halts_and_doubles_nothing(
    new_run: NewRun, writer: TopicWriter, tmp_path: Path, ts_ms: int
) -> None:
    run, topic = new_run()
    writer.write(topic, [event(n) for n in range(10)])
    run.catch_up()
    backup = tmp_path / "backup"
    shutil.copytree(run.root() / "_sluiceway", backup)
    writer.write(topic, [event(n, ts_ms=ts_ms) for n in range(10, 20)])
    run.catch_up()
    before = run.rows()
    shutil.rmtree(run.root() / "_sluiceway")
    shutil.copytree(backup, run.root() / "_sluiceway")
    records = len(run.records())
    with pytest.raises(LedgerMismatchError, match="older than its table"):
        run.catch_up()
    assert run.rows() == before
    assert len(run.records()) == records


def test_table_made_anew_over_old_files_is_not_filled_again(
    new_run: NewRun, writer: TopicWriter, metastore_uri: str
) -> None:
    run, topic = new_run()
    writer.write(topic, [event(n) for n in range(10)])
    run.catch_up()
    root = run.root()
    database, _, table = run.job.table.partition(".")
    with raw_client(metastore_uri) as client:
        client.drop_table(database, table, deleteData=False)
    shutil.rmtree(root / "_sluiceway")
    files = sorted(root.glob("**/*.parquet"))
    with pytest.raises(LedgerMismatchError, match="older than its table"):
        run.catch_up()
    assert sorted(root.glob("**/*.parquet")) == files


def test_files_of_others_and_of_old_epochs_are_no_reason_to_halt(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run, topic = new_run()
    writer.write(topic, [event(n) for n in range(10)])
    run.catch_up()
    (file,) = run.root().glob("dt=*/hr=*/*.parquet")
    (file.parent / "part-00000-from-another-engine.parquet").write_bytes(b"not ours")
    writer.write(topic, [event(n) for n in range(10, 20)])
    run.catch_up()
    assert len(run.records()) > 4
