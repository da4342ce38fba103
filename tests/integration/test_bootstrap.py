"""A new route reads a table first, and then the topics that the table was filled from."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sluiceway.cli.app import run_command
from sluiceway.errors import TableMismatchError
from sluiceway.observe.steps import Step
from tools.bootstrap_proof import FIRST_MS, hand_overs, write_bootstrap_job
from tools.job_files import event
from tools.route_faults import Crash, CrashAt, NewRun
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

pytestmark = pytest.mark.slow

NewTable = Callable[..., tuple[RouteRun, RouteRun, str]]


@pytest.fixture
def new_table(
    new_run: NewRun, tmp_path: Path, metastore_uri: str, bootstrap_servers: str
) -> NewTable:
    """Makes a topic, the job that fills a table from it, and one that begins with that table."""

    def make(partitions: int = 2, *, topics: str = "") -> tuple[RouteRun, RouteRun, str]:
        run, topic = new_run(partitions)
        anew = write_bootstrap_job(
            tmp_path,
            run.job,
            topics or topic,
            bootstrap_servers=bootstrap_servers,
            metastore_uri=metastore_uri,
        )
        return run, RouteRun(anew), topic

    return make


def _write(writer: TopicWriter, topic: str, numbers: range) -> None:
    for n in numbers:
        writer.write(topic, [event(n, ts_ms=FIRST_MS)], partition=n % 2)


def test_rows_of_the_table_and_of_its_topics_come_once(
    new_table: NewTable, writer: TopicWriter
) -> None:
    raw, anew, topic = new_table()
    _write(writer, topic, range(20))
    raw.catch_up()
    _write(writer, topic, range(20, 30))
    anew.catch_up()
    assert anew.rows("id, shout") == [(n, "BERLIN") for n in range(30)]
    (record,) = hand_overs(anew)
    kept = [(pin.topic, pin.how, int(pin.start)) for pin in record.partitions]
    assert kept == [
        (f"table:{raw.job.table}", "retired", 20),
        (topic, "handed_over", 10),
        (topic, "handed_over", 10),
    ]
    raw.catch_up()
    _write(writer, topic, range(30, 40))
    anew.catch_up()
    assert anew.rows("id") == [(n,) for n in range(40)]
    assert len(hand_overs(anew)) == 1
    readers = raw.root() / "_sluiceway"
    assert list(readers.rglob("readers/*.json")) == [], "nothing waits for a route that has left"
    anew.assert_verified()


STEPS = (
    (Step.FENCED, 1),
    (Step.PINNED, 1),
    (Step.PLANNED, 1),
    (Step.WRITTEN, 1),
    (Step.COMMITTED, 1),
    (Step.PUBLISHED, 1),
    (Step.PINNED, 2),
    (Step.FENCED, 2),
    (Step.COMMITTED, 2),
)


@pytest.mark.parametrize("at", STEPS, ids=lambda at: f"{at[0].name}-{at[1]}")
def test_driver_that_dies_at_the_hand_over_loses_and_doubles_nothing(
    new_table: NewTable, writer: TopicWriter, at: tuple[Step, int]
) -> None:
    raw, anew, topic = new_table()
    _write(writer, topic, range(10))
    raw.catch_up()
    _write(writer, topic, range(10, 20))
    with pytest.raises(Crash):
        anew.catch_up(observe=CrashAt(*at))
    # The table goes on meanwhile; where the topics begin was decided in one record or is not.
    raw.catch_up()
    _write(writer, topic, range(20, 30))
    anew.catch_up()
    assert anew.rows("id") == [(n,) for n in range(30)]
    assert len(hand_overs(anew)) == 1
    anew.assert_verified()


def test_table_that_other_topics_fill_is_refused(
    new_table: NewTable, writer: TopicWriter, new_topic: Callable[..., str]
) -> None:
    other = new_topic(1)
    raw, anew, topic = new_table(topics=other)
    _write(writer, topic, range(4))
    raw.catch_up()
    with pytest.raises(TableMismatchError, match=f"is filled from the topics {topic}"):
        anew.catch_up()
    assert anew.rows("id") == [(n,) for n in range(4)]


def test_commands_say_what_is_read_now(
    new_table: NewTable, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, anew, topic = new_table()
    _write(writer, topic, range(10))
    raw.catch_up()
    job = str(anew.job.path)
    commands = (
        ["validate", job],
        ["plan", job],
        ["doctor", job],
        ["preview", job],
        ["offsets", "show", job],
        ["status", job],
    )
    with pytest.raises(Crash):
        anew.catch_up(observe=CrashAt(Step.COMMITTED))
    for phase in ("table", "topics"):
        for command in commands:
            code = run_command(command)
            printed = capsys.readouterr()
            assert (code, "Traceback" in printed.err) == (0, False), (phase, command, printed)
        run_command(["offsets", "show", job])
        words = capsys.readouterr().out.split()
        starts = (f"table:{raw.job.table}[", f"{topic}[")
        read = tuple(any(each.startswith(start) for each in words) for start in starts)
        assert read == (True, phase == "topics"), words
        anew.catch_up()
