"""A ledger that is another's, removed or altered: the route halts and guesses nothing."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sluiceway.errors import (
    FileLostError,
    LedgerCorruptError,
    LedgerMismatchError,
    StateConflictError,
)
from sluiceway.observe.steps import Step, ignore_step
from tools.job_files import event
from tools.removal import remove_beside_others
from tools.route_faults import NewRun, Pause, data_records, live, offsets
from tools.topic_writer import TopicWriter

_TIMEOUT_S = 120.0


def _events(span: range) -> list[bytes]:
    return [event(n) for n in span]


def _files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*.parquet") if "/stage/" not in str(path))


def test_second_job_on_the_same_table_is_refused(new_run: NewRun, writer: TopicWriter) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(5)))
    run.catch_up()
    other, other_topic = new_run(table=run.job.table)
    writer.write(other_topic, _events(range(5)))
    with pytest.raises(LedgerMismatchError, match=f"is filled by job {run.job.spec.name}"):
        other.catch_up()
    assert run.rows() == offsets(0, range(5))
    run.catch_up()
    run.assert_verified()


def test_ledger_removed_between_two_runs_halts_instead_of_reading_all_again(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(5)))
    run.catch_up()
    root = run.root()
    before = _files(root)
    shutil.rmtree(root / "_sluiceway")
    for _ in range(2):
        with pytest.raises(LedgerMismatchError):
            run.catch_up()
    assert _files(root) == before


@pytest.mark.parametrize("folder", ["", "{job}/log", "{job}/log/0000000000000000"])
def test_ledger_removed_in_mid_run_halts_instead_of_beginning_another(
    new_run: NewRun, writer: TopicWriter, folder: str
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(5)))
    run.catch_up()
    root = run.root()
    before = _files(root)
    reached = Pause(Step.RECOVERED)
    reached.goes_on.set()
    with live(run, reached) as running:
        assert reached.reached.wait(_TIMEOUT_S)
        # The driver writes its lease there meanwhile.
        remove_beside_others(root / "_sluiceway" / folder.format(job=run.job.spec.name))
        writer.write(topic, _events(range(5, 10)))
        error = running.error()
    assert isinstance(error, LedgerCorruptError)
    assert "is gone" in str(error)
    assert _files(root) == before
    assert not list(root.rglob("log/*/*.json"))


def _flip_a_digit(path: Path) -> None:
    text = path.read_text()
    path.chmod(0o644)
    path.write_text(text.replace('"epoch":0', '"epoch":1', 1))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "edited": _flip_a_digit,
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "emptied": lambda path: path.write_bytes(b""),
    "removed": os.unlink,
    "spaces": lambda path: path.write_bytes(path.read_bytes().replace(b":", b": ", 1)),
}


@pytest.mark.parametrize("how", list(DAMAGE))
def test_record_that_was_altered_halts_the_route(
    new_run: NewRun, writer: TopicWriter, how: str
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(5)))
    run.catch_up()
    writer.write(topic, _events(range(5, 10)))
    run.catch_up()
    assert len(data_records(run)) == 2
    root = run.root()
    before = _files(root)
    (slot,) = root.glob("_sluiceway/*/log/0000000000000000/00000000000000000002.json")
    DAMAGE[how](slot)
    writer.write(topic, _events(range(10, 15)))
    with pytest.raises(StateConflictError):
        run.catch_up()
    assert _files(root) == before
    assert len(list(slot.parent.iterdir())) == (4 if how == "removed" else 5)


def test_file_that_was_committed_and_is_nowhere_halts_the_recovery(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(5)))

    def lose(step: Step) -> None:
        if step is Step.COMMITTED:
            for path in run.root().rglob("stage/*-*/*.parquet"):
                path.unlink()

    for observe in (lose, ignore_step):
        with pytest.raises(FileLostError, match="neither staged nor published"):
            run.catch_up(observe=observe)
