"""Dirty changes of a keyed table that are replayed: the table is the database in the end."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sluiceway.cli.app import run_command
from sluiceway.observe.failpoints import VARIABLE, Action, FailpointSpec
from tools.change_source import KEYED_COLUMNS, ChangeSource, Row, tell
from tools.lab_fixture import TopicFactory
from tools.lake_jobs import LakeJob, write_lake_job
from tools.test_plan import slow_after

_TESTS = Path(__file__).resolve().parents[1]
STRICT = KEYED_COLUMNS.replace(
    "name: city, type: string", "name: city, type: string, required: true"
)


class LossySource(ChangeSource):
    """Of four rows one has no city."""

    def _values(self, row_id: int) -> Row:
        values = super()._values(row_id)
        return values if self.random.random() < 0.75 else {**values, "city": None}


class Replayed:
    """A job whose changes without a city are dirty until the job file is repaired."""

    def __init__(self, folder: Path, servers: str, topic: str, capsys: Any) -> None:
        self.job: LakeJob = write_lake_job(
            folder,
            bootstrap_servers=servers,
            topic=topic,
            columns=STRICT,
            partition_by="[{column: id, transform: 'bucket[2]'}]",
            payload="debezium: {}",
            key="key: [id]",
        )
        self.source = LossySource(5, partitions=2)
        self._servers, self._topic, self._capsys = servers, topic, capsys

    def change(self, count: int) -> None:
        self.source.change(count)
        tell(self._servers, self._topic, self.source.take())
        self.job.catch_up()

    def repair(self) -> None:
        text = self.job.path.read_text()
        assert STRICT in text
        self.job.path.write_text(text.replace(STRICT, KEYED_COLUMNS))

    def __call__(self, *arguments: str) -> list[dict[str, int]]:
        self._capsys.readouterr()
        assert run_command(["dirty", *arguments, "-o", "json"]) == 0
        (answer,) = [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]
        lanes: list[dict[str, int]] = answer.get("lanes", [answer])
        return lanes

    def replay(self) -> dict[str, int]:
        (lane,) = self("replay", str(self.job.path))
        return lane

    def offsets(self) -> dict[int, int]:
        """Of the record that each row is from."""
        return {int(str(key)): int(str(at)) for key, at in self.job.rows("id", "_offset")}

    def assert_equal(self) -> None:
        """To the database, once what was replayed is published."""
        self.job.catch_up()
        rows = self.job.rows("id", "name", "amount", "city")
        found = sorted((r[0], r[1], str(r[2]), r[3]) for r in rows)
        assert found == self.source.wanted()
        report = self.job.verified()
        assert report.problems == []


@pytest.fixture
def replayed(
    bootstrap_servers: str,
    new_topic: TopicFactory,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Replayed:
    return Replayed(tmp_path, bootstrap_servers, new_topic(2), capsys)


def test_a_replay_writes_what_is_last_and_nothing_older(replayed: Replayed) -> None:
    replayed.change(300)
    replayed.change(300)
    replayed.repair()
    before = replayed.job.load().metadata.current_snapshot_id
    (tried,) = replayed("replay", str(replayed.job.path), "--dry-run")
    assert replayed.job.load().metadata.current_snapshot_id == before
    lane = replayed.replay()
    assert lane["superseded"] > 0
    assert lane["written"] > 0
    assert lane["dirty"] == 0
    assert lane["read"] == lane["superseded"] + lane["written"]
    assert tried["superseded"] == lane["superseded"]
    replayed.assert_equal()
    replayed.change(100)
    replayed.assert_equal()


@pytest.mark.parametrize(
    ("point", "hit"),
    slow_after(
        1, [("step.committed", 2), ("step.pinned", 1), ("lane.close", 2), ("step.prepared", 2)]
    ),
)
def test_a_replay_that_is_killed_goes_on_behind_new_changes(
    replayed: Replayed, tmp_path: Path, point: str, hit: int
) -> None:
    replayed.change(300)
    replayed.change(100)
    replayed.repair()
    folder = tmp_path / "failpoint"
    folder.mkdir()
    spec = FailpointSpec(point, Action.KILL, str(folder), hit=hit)
    killed = subprocess.run(
        [sys.executable, "-m", "tools.short_lanes", "dirty", "replay", str(replayed.job.path)],
        cwd=_TESTS,
        stdin=subprocess.DEVNULL,
        env={**os.environ, VARIABLE: spec.text()},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert (folder / "hit").exists()
    # Newer changes come first now: what is left of the lane has to see them.
    replayed.change(150)
    replayed("replay", str(replayed.job.path))
    replayed.assert_equal()


def test_what_nobody_can_order_stays_dirty(replayed: Replayed) -> None:
    replayed.change(300)
    folder = replayed.job.ledger()
    files = [path for path in folder.rglob("*.parquet") if "dirty" not in path.parts]
    assert files
    replayed.change(100)
    replayed.repair()
    before = replayed.offsets()
    for path in files:
        path.unlink()
    lane = replayed.replay()
    assert lane["dirty"] > 0
    # What the second epochs have told of a key is known all the same.
    assert lane["superseded"] > 0
    replayed.job.catch_up()
    after = replayed.offsets()
    assert all(after.get(key, offset) >= offset for key, offset in before.items())


def test_rows_apart_in_a_dirty_file_are_replayed_by_the_order_of_one_partition(
    bootstrap_servers: str,
    new_topic: TopicFactory,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = new_topic(1)
    job = write_lake_job(
        tmp_path,
        bootstrap_servers=bootstrap_servers,
        topic=topic,
        columns=KEYED_COLUMNS,
        partition_by="[]",
        payload="debezium: {}",
        key="key: [id]",
    )
    log: list[tuple[Any, bytes | None]] = []
    for number in range(12):
        row = {"id": number, "name": "n", "amount": "1.00", "city": "Oslo"}
        change = json.dumps({"op": "c", "before": None, "after": row}).encode()
        # A key that tells nothing, beside changes that are no JSON: of these stays what there is.
        key = None if number % 3 == 1 else json.dumps({"id": number}).encode()
        log.append((key, b"{" if number % 3 == 2 else change))
    tell(bootstrap_servers, topic, {0: log})
    job.catch_up()
    assert sorted(job.rows("id")) == [(0,), (3,), (6,), (9,)]
    text = job.path.read_text()
    job.path.write_text(text.replace("key: [id]", "key: [id]\n  key_order: one_partition"))
    capsys.readouterr()
    replay = ["dirty", "replay", str(job.path), "--reason", "key_mismatch", "-o", "json"]
    assert run_command(replay) == 0
    lane = json.loads(capsys.readouterr().out.splitlines()[0])
    lane = lane.get("lanes", [lane])[0]
    assert (lane["read"], lane["written"]) == (4, 4)
    job.catch_up()
    assert sorted(job.rows("id")) == [(n,) for n in (0, 1, 3, 4, 6, 7, 9, 10)]
    assert job.verified().problems == []
