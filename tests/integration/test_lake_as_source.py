"""A table that another client appends to is the source of a route: exact after kills."""

from collections import Counter
from pathlib import Path

import pytest
from pyiceberg.expressions import EqualTo

from sluiceway.cli.app import run_command
from sluiceway.errors import OffsetsLostError, TableMismatchError, TopicNotFoundError
from sluiceway.observe.steps import Step
from tools.driver_kills import drive, drive_until_killed
from tools.lake_chain import NAME, SCHEMA, LakeChain, lake_chain, roll_back
from tools.route_faults import Crash, CrashAt

pytestmark = pytest.mark.slow


@pytest.fixture
def chain(tmp_path: Path) -> LakeChain:
    return lake_chain(tmp_path)


def exactly(rows: int) -> list[tuple[int, int]]:
    return [(n, n) for n in range(rows)]


def test_every_row_comes_once_whatever_step_the_driver_dies_at(chain: LakeChain) -> None:
    steps = (Step.FENCED, Step.PLANNED, Step.WRITTEN, Step.COMMITTED, Step.PUBLISHED)
    for number, step in enumerate(steps):
        chain.append(range(10 * number, 10 * number + 7), range(10 * number + 7, 10 * number + 10))
        with pytest.raises(Crash):
            chain.job.catch_up(observe=CrashAt(step))
    chain.job.catch_up()
    assert chain.read() == exactly(10 * len(steps))
    assert chain.job.verified().problems == []


@pytest.mark.parametrize(
    "point", ["step.pinned", "step.planned", "task.close", "step.prepared", "lake.send.reply"]
)
def test_driver_that_is_killed_leaves_every_row_to_the_next_one_once(
    chain: LakeChain, tmp_path: Path, point: str
) -> None:
    chain.append(range(10), range(10, 15))
    drive_until_killed(chain.job, tmp_path / "marks", point)
    chain.append(range(15, 20))
    assert drive(chain.job) == 0
    assert chain.read() == exactly(20)


def test_table_that_removes_rows_or_is_dropped_or_made_again_stops_the_route(
    chain: LakeChain,
) -> None:
    chain.append(range(10))
    chain.job.catch_up()
    chain.table().delete(EqualTo("id", 3))
    for _ in range(2):
        with pytest.raises(OffsetsLostError, match="number 2 has removed or replaced rows"):
            chain.job.catch_up()
        # Also when the table has as many rows as before.
        chain.append(range(10, 11))
    chain.catalog.drop_table(NAME)
    with pytest.raises(TopicNotFoundError, match="the table that this route reads was dropped"):
        chain.job.catch_up()
    chain.catalog.create_table(NAME, SCHEMA)
    with pytest.raises(OffsetsLostError, match="the table is not the same as before"):
        chain.job.catch_up()
    assert chain.read() == exactly(10)


def remove_unread(chain: LakeChain) -> None:
    """Ten rows are read; four more and a snapshot that removes one are not."""
    chain.append(range(10))
    chain.job.catch_up()
    chain.append(range(10, 14))
    chain.table().delete(EqualTo("id", 3))


def test_removed_rows_are_passed_over_where_the_job_file_says_so(
    chain: LakeChain, capsys: pytest.CaptureFixture[str]
) -> None:
    """A route that has halted goes on with another rule, and a driver may die at any step."""
    remove_unread(chain)
    with pytest.raises(OffsetsLostError, match="number 3 has removed or replaced rows"):
        chain.job.catch_up()
    text = chain.job.path.read_text()
    chain.job.path.write_text(
        text.replace(f"table: {NAME}", f"table: {NAME}, on_correction: ignore")
    )
    for number, step in enumerate((Step.PINNED, Step.PLANNED, Step.COMMITTED)):
        chain.append(range(14 + number, 15 + number))
        with pytest.raises(Crash):
            chain.job.catch_up(observe=CrashAt(step))
    chain.table().delete(EqualTo("id", 16))
    chain.append(range(17, 20))
    chain.job.catch_up()
    assert Counter(each for _, each in chain.read()) == Counter(range(20))
    assert chain.job.verified().problems == []
    job = str(chain.job.path)
    capsys.readouterr()
    for command in (
        ["status", job],
        ["plan", job],
        ["offsets", "show", job],
        ["ledger", "show", job],
    ):
        assert run_command(command) == 0
    shown = capsys.readouterr().out
    assert f"reads {NAME}: snapshot 8 of 8, 2 that removed rows passed over" in shown
    assert "snapshot 3 removed 10 rows and added 9" in shown


def test_expiry_below_the_reader_stops_the_route(
    chain: LakeChain, capsys: pytest.CaptureFixture[str]
) -> None:
    chain.append(range(10))
    chain.job.catch_up()
    chain.append(range(10, 20), range(20, 30))
    table = chain.table()
    _, second, _ = table.metadata.snapshots
    table.maintenance.expire_snapshots().by_id(second.snapshot_id).commit()
    for _ in range(2):
        capsys.readouterr()
        plan = ["plan", str(chain.job.path), "--records", "0", "--detailed-exitcode"]
        assert run_command(plan) == 4
        told = capsys.readouterr().out
        assert "[SW455]" in told
        assert "older ones have expired" in told
        with pytest.raises(OffsetsLostError, match="older ones have expired"):
            chain.job.catch_up()
    assert chain.read() == exactly(10)


def test_commands_work_on_a_route_that_reads_such_a_table(
    chain: LakeChain, capsys: pytest.CaptureFixture[str]
) -> None:
    chain.append(range(10))
    chain.job.catch_up()
    chain.append(range(10, 14))
    job = str(chain.job.path)
    for command in (
        ["validate", job],
        ["status", job],
        ["plan", job],
        ["doctor", job],
        ["preview", job],
        ["offsets", "show", job],
        ["verify", job],
    ):
        code = run_command(command)
        printed = capsys.readouterr()
        assert (code, "Traceback" in printed.err) == (0, False), (command, printed)
    run_command(["status", job])
    assert f"reads {NAME}: snapshot 1 of 2" in capsys.readouterr().out


def _status(chain: LakeChain, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    capsys.readouterr()
    code = run_command(["status", str(chain.job.path)])
    return code, capsys.readouterr().out


def _without_lag(shown: str) -> bool:
    (line,) = (each for each in shown.splitlines() if each.split()[1:2] == ["ods.events"])
    return line.split()[3] == "-"


def test_misspelt_table_is_named_by_status_and_by_plan(
    chain: LakeChain, capsys: pytest.CaptureFixture[str]
) -> None:
    chain.append(range(10))
    chain.job.catch_up()
    path = chain.job.path
    path.write_text(path.read_text().replace(f"table: {NAME}", "table: others.evnets"))
    code, shown = _status(chain, capsys)
    assert code == 1
    assert "[SW407] table:others.evnets: the table that is read does not exist" in shown
    assert run_command(["plan", str(path)]) == 1
    assert "table:others.evnets: the table does not exist yet" in capsys.readouterr().err


def test_column_that_the_table_lacks_ends_plan_and_is_shown_by_status(
    chain: LakeChain, capsys: pytest.CaptureFixture[str]
) -> None:
    chain.append(range(10))
    chain.job.catch_up()
    path = chain.job.path
    path.write_text(path.read_text().replace("{name: city,", "{name: city, path: town,"))
    code, shown = _status(chain, capsys)
    assert (code, _without_lag(shown)) == (1, True)
    assert f"[SW404] table:{NAME}: the table that is read has no column town" in shown
    capsys.readouterr()
    assert run_command(["plan", str(path)]) == TableMismatchError.exit_code
    printed = capsys.readouterr()
    assert "has no column town" in printed.err
    assert "look at the brokers" not in printed.out + printed.err


def test_roll_back_below_what_was_read_is_shown_with_the_snapshot_to_bring_back(
    chain: LakeChain, capsys: pytest.CaptureFixture[str]
) -> None:
    chain.append(range(10))
    before = chain.table().metadata.current_snapshot_id
    chain.append(range(10, 14))
    chain.job.catch_up()
    read = chain.table().metadata.current_snapshot_id
    assert before is not None
    assert read is not None
    roll_back(chain.table(), before)
    again = f"make the snapshot {read} of sequence number 2 current again"
    code, shown = _status(chain, capsys)
    assert (code, _without_lag(shown)) == (1, True)
    assert "the table was rolled back: it has 10 rows, 14 were read before" in shown
    assert again in shown
    assert f"reads {NAME}: snapshot 2; the current one is 1" in shown
    # The driver asks again before it believes that, in words of a table.
    with pytest.raises(OffsetsLostError, match="the table was rolled back") as caught:
        chain.job.catch_up()
    assert again in caught.value.hint
    # Rows that came in their place are as many, and are no continuation.
    chain.append(range(14, 20))
    code, shown = _status(chain, capsys)
    assert (code, _without_lag(shown)) == (1, True)
    assert "snapshot 2, whose rows were read, is none of its history now" in shown
    assert again in shown
    with chain.table().manage_snapshots() as changes:
        changes.set_current_snapshot(read)
    chain.job.catch_up()
    assert chain.read() == exactly(14)
    assert _status(chain, capsys)[0] == 0


def test_status_counts_no_rows_after_a_removal_that_stops_the_route(
    chain: LakeChain, capsys: pytest.CaptureFixture[str]
) -> None:
    remove_unread(chain)
    removing = chain.table().metadata.current_snapshot_id
    code, shown = _status(chain, capsys)
    assert (code, _without_lag(shown)) == (1, True)
    assert f"[SW455] table:{NAME}[0]: the snapshot {removing} of sequence number 3 has" in shown
    assert "pass over removed rows with `source.on_correction: ignore`" in shown
    with pytest.raises(OffsetsLostError, match=f"snapshot {removing} of sequence number 3") as told:
        chain.job.catch_up()
    assert "`source.on_correction: ignore`" in told.value.hint
