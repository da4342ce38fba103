"""Two tasks read the backlog of one source partition, a piece each, into one record."""

import pytest

from sluiceway.observe.steps import Step
from sluiceway.schedule import pieces
from tools.job_files import event
from tools.route_faults import NewRun, Pause, data_records, live, offsets
from tools.topic_writer import TopicWriter

_TIMEOUT_S = 180.0
FIRST, BACKLOG = 40, 400


def _tasks(names: list[str]) -> set[str]:
    """Task numbers in the names of files, `<route>-<term>-<epoch>-<task>-<uuid>`."""
    return {name.rpartition("/")[2].split("-")[-2] for name in names}


def test_idle_task_reads_on_where_the_other_one_stops(
    new_run: NewRun, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "LEAST_PIECE", 10)
    run, topic = new_run(partitions=1)
    writer.write(topic, [event(n) for n in range(FIRST)])
    pause = Pause(Step.WRITTEN)
    with live(run, pause) as running:
        assert pause.reached.wait(_TIMEOUT_S)
        # The epoch after is planned with all of these in the log.
        writer.write(topic, [event(n) for n in range(FIRST, FIRST + BACKLOG)])
        pause.goes_on.set()
        running.wait_for(lambda: len(run.rows()) == FIRST + BACKLOG)
        running.stop()
    assert run.rows() == offsets(0, range(FIRST + BACKLOG))
    shared = [each for each in data_records(run) if len(_tasks([f.final for f in each.files])) > 1]
    assert shared
    (span,) = shared[0].ranges
    assert span.end - span.start == span.rows > FIRST * 3 // 4
    run.assert_verified()
