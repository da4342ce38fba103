"""Tables without a metastore: a folder is the catalog, and all else is as it is elsewhere."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sluiceway.cli.app import run_command
from sluiceway.observe.steps import Step
from tools.driver_process import DriverProcess
from tools.job_files import event
from tools.route_faults import Crash, CrashAt, NewRun, offsets
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

InFolder = Callable[..., tuple[RouteRun, str]]


@pytest.fixture
def in_folder(new_run: NewRun, tmp_path: Path) -> InFolder:
    """Makes a topic and a job whose table is written down in a folder."""

    def make(partitions: int = 1, dirty: str = "{}") -> tuple[RouteRun, str]:
        run, topic = new_run(partitions, metastore_uri="thrift://none:1", dirty=dirty)
        text = run.job.path.read_text()
        asked = '{metastore: {uri: "thrift://none:1"}}'
        assert asked in text
        run.job.path.write_text(text.replace(asked, f'{{folder: {{path: "{tmp_path}/lake"}}}}'))
        return run, topic

    return make


def _told(capsys: pytest.CaptureFixture[str], *command: str) -> dict[str, object]:
    capsys.readouterr()
    assert run_command([*command, "-o", "json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_every_row_is_there_once_whatever_step_the_driver_dies_at(
    in_folder: InFolder, writer: TopicWriter
) -> None:
    run, topic = in_folder(2)
    steps = (Step.FENCED, Step.WRITTEN, Step.COMMITTED, Step.PUBLISHED, Step.APPLIED)
    for number, step in enumerate(steps):
        for partition in range(2):
            span = range(10 * number, 10 * number + 10)
            writer.write(topic, [event(n) for n in span], partition=partition)
        with pytest.raises(Crash):
            run.catch_up(observe=CrashAt(step))
    run.catch_up()
    assert run.rows() == [*offsets(0, range(50)), *offsets(1, range(50))]
    run.assert_verified()


def test_zombie_that_wakes_up_changes_nothing(
    in_folder: InFolder, writer: TopicWriter, tmp_path: Path
) -> None:
    run, topic = in_folder()
    writer.write(topic, [event(n) for n in range(10)])
    with DriverProcess(run.job, tmp_path, module="tools.inline_driver") as zombie:
        zombie.wait_for_event("committed")
        zombie.send(signal.SIGSTOP)
        writer.write(topic, [event(n) for n in range(10, 20)])
        options = ("--until-caught-up", "--takeover", "1")
        with DriverProcess(run.job, tmp_path, *options, module="tools.inline_driver") as next_one:
            assert next_one.wait().exit_code == 0
        zombie.send(signal.SIGCONT)
        ended = zombie.wait()
    assert (ended.exit_code, "SW451" in ended.stderr) == (7, True), ended.stderr
    assert run.rows() == offsets(0, range(20))
    run.assert_verified()


def test_commands_answer_as_for_a_metastore(
    in_folder: InFolder,
    writer: TopicWriter,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    run, topic = in_folder(dirty="{store: {table: ods.bad}}")
    job = str(run.job.path)
    for start in range(0, 40, 10):
        writer.write(topic, [*(event(n) for n in range(start, start + 9)), b"{broken"])
        run.catch_up()
    (place,) = map(Path, run.partitions().values())
    assert len(list(place.glob("*.parquet"))) == 4
    assert _told(capsys, "validate", job)["ok"]
    (name,) = [f"dt={value.replace('/', '/hr=')}" for value in run.partitions()]
    done = _told(capsys, "compact", job, name)
    assert "compacted" in json.dumps(done)
    (moved,) = map(Path, run.partitions().values())
    assert moved != place
    files = _told(capsys, "files", job)["files"]
    assert [Path(each["path"]).parent for each in files] == [moved]  # type: ignore[attr-defined]
    assert len(run.rows()) == 36
    run.assert_verified()
    assert _told(capsys, "status", job)["ok"]
    told = json.dumps(_told(capsys, "dirty", "list", job))
    assert '"rows": 4' in told
    copies = list((tmp_path / "lake/ods.db/bad").rglob("*.parquet"))
    assert sum(pq.read_metadata(path).num_rows for path in copies) == 4
