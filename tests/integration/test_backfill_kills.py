"""Whoever backfills is killed at the worst moments: no row is lost or doubled, and it is done."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from sluiceway.ledger.records import RecordType
from sluiceway.observe.failpoints import VARIABLE, Action, FailpointSpec
from tools.backfill_command import backfill
from tools.driver_process import DriverProcess
from tools.job_files import event
from tools.route_faults import NewRun
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

pytestmark = pytest.mark.slow

COLUMNS = "_partition, _offset, id, ts, city, amount, _topic, _timestamp"
HOUR_8_MS, HOUR_MS = 1_795_161_600_000, 3_600_000


@dataclass(frozen=True, slots=True)
class Moment:
    """Where it is killed, and whether SWAP has landed by then."""

    point: str
    place: str = "*"
    swapped: bool = False
    hit: int = 1


MOMENTS = {
    "before-the-metastore-moves": Moment("metastore.alter_partitions.request", swapped=True),
    "all-is-read": Moment("swap.written"),
    "some-files-published": Moment("publish.file", "*/_sluiceway-*", swapped=True, hit=2),
    "intent-put": Moment("swap.begun"),
    "before-the-swap": Moment("swap.landing"),
    "in-the-reading": Moment("backfill.close"),
    "swap-landed": Moment("swap.landed", swapped=True),
}


def kinds(run: RouteRun) -> list[RecordType]:
    return [record.type for record in run.records()]


def fill(run: RouteRun, writer: TopicWriter, topic: str) -> None:
    """Rows of three hours, in two commits."""
    for start in (0, 30):
        hours = [event(n, ts_ms=HOUR_8_MS + n % 3 * HOUR_MS) for n in range(start, start + 30)]
        writer.write(topic, hours, partition=0)
        run.catch_up()


@pytest.mark.parametrize("name", MOMENTS)
def test_kill_while_backfilling_loses_nothing_and_the_next_one_does_it(
    name: str, new_run: NewRun, writer: TopicWriter, tmp_path: Path
) -> None:
    moment = MOMENTS[name]
    run, topic = new_run()
    fill(run, writer, topic)
    rows, before = run.rows(COLUMNS), run.partitions()
    points = tmp_path / "points"
    points.mkdir()
    spec = FailpointSpec(moment.point, Action.KILL, str(points), hit=moment.hit, place=moment.place)
    died = backfill(run, spec)
    assert (points / "hit").exists(), died.stderr
    if moment.point != "backfill.close":
        assert died.returncode == -9, died.stderr
    assert (RecordType.SWAP in kinds(run)) is moment.swapped
    # Readers are where they were, or have gone over as a whole.
    assert run.rows(COLUMNS) == rows
    shown = run.partitions()
    assert all(shown[key] == before[key] for key in before) or all(
        shown[key] != before[key] for key in before
    )
    again = backfill(run)
    assert again.returncode == 0, again.stderr
    assert run.rows(COLUMNS) == rows
    after = run.partitions()
    assert all(after[key] != before[key] for key in before)
    found = kinds(run)
    assert found.count(RecordType.INTENT) == found.count(RecordType.SWAP) + found.count(
        RecordType.ABANDON
    )
    run.assert_verified()


def test_driver_that_is_killed_while_epochs_go_on_is_followed_by_one_that_backfills(
    new_run: NewRun, writer: TopicWriter, tmp_path: Path
) -> None:
    run, topic = new_run()
    fill(run, writer, topic)
    points = tmp_path / "points"
    points.mkdir()
    spec = FailpointSpec("swap.landing", Action.KILL, str(points))
    first = DriverProcess(
        run.job, tmp_path, module="tools.inline_driver", environment={VARIABLE: spec.text()}
    )
    with first:
        writer.write(topic, [event(n) for n in range(60, 70)], partition=0)
        first.wait_until(lambda: len(run.rows()) == 70, "70 rows")
        # The command asks the driver that lives, then is it when that has died.
        done = backfill(run)
        assert (points / "hit").exists()
    assert done.returncode == 0, done.stderr
    assert run.rows() == [(0, n) for n in range(70)]
    assert kinds(run).count(RecordType.ABANDON) == 1
    run.assert_verified()
