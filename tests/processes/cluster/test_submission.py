"""Submitting a job: never beside a driver of it that runs, whatever became of its supervisor."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.cli.app import run_command
from sluiceway.cluster import applications, driver_log, submission, supervised
from sluiceway.cluster.applications import (
    Application,
    ApplicationFolder,
    DriverState,
    all_submitted,
    is_running,
)
from sluiceway.cluster.driver_log import DriverLog
from sluiceway.cluster.submission import JobSubmission, end, read_submission, resubmit, submit
from sluiceway.cluster.yarn import YarnState
from sluiceway.errors import SubmissionError, UnhealthyEnvironmentError, WrongUsageError
from sluiceway.host.process import ProcessIdentity, identity_of

WANTED = JobSubmission("orders", Path("orders.yaml"), "local[1]", {})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ApplicationFolder:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(submission, "find_java", lambda: None)
    found = ApplicationFolder("orders")
    found.make()
    return found


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_a_driver_whose_supervisor_was_killed_is_not_left_behind(folder: ApplicationFolder) -> None:
    runs = identity_of(os.getpid())
    assert runs is not None
    gone = ProcessIdentity(runs.host, runs.boot_id, runs.pid, runs.start_ticks + 1)
    folder.write(Application("orders", "orders.yaml", "local[1]", "client", "", 0, gone))
    folder.write_driver(DriverState("running", 1, None, 0, runs))
    with pytest.raises(WrongUsageError, match="runs") as caught:
        submit(WANTED)
    assert "sluiceway stop orders" in caught.value.hint
    assert folder.read_driver() is not None


@pytest.mark.parametrize("state", ["NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING"])
def test_what_yarn_has_taken_is_not_submitted_again(
    folder: ApplicationFolder, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    held = Application(
        "orders", "orders.yaml", "yarn", "cluster", "", 0, cluster_id="application_1"
    )
    folder.write(held)
    monkeypatch.setattr(submission, "yarn_state", lambda *_: YarnState(state, "UNDEFINED", ""))
    with pytest.raises(WrongUsageError, match="was submitted and runs"):
        submit(WANTED)


def test_job_that_yarn_has_forgotten_may_be_submitted_again(
    folder: ApplicationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Application(
        "orders", "orders.yaml", "yarn", "cluster", "", 0, cluster_id="application_1"
    )
    folder.write(held)
    monkeypatch.setattr(submission, "yarn_state", lambda *_: YarnState("FORGOTTEN", "", ""))
    monkeypatch.setattr(submission, "begin_supervised", lambda _, application, __: application)
    assert submit(WANTED).master == "local[1]"
    assert YarnState("FORGOTTEN", "", "").ended


def test_second_command_at_one_time_is_refused(folder: ApplicationFolder) -> None:
    application = Application("orders", "orders.yaml", "local[1]", "client", "", 0)
    with folder.held():
        with pytest.raises(WrongUsageError, match=r"another command .* the job orders now"):
            submit(WANTED)
        with pytest.raises(WrongUsageError, match="another command"):
            end(folder, application, patience_s=1)
        with pytest.raises(WrongUsageError, match="another command"):
            resubmit(folder, WANTED, patience_s=1)
    end(folder, application, patience_s=1)


@contextmanager
def _process(program: str = "import time; time.sleep(60)") -> Iterator[ProcessIdentity]:
    with subprocess.Popen(
        [sys.executable, "-c", f"print(flush=True); {program}"], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = identity_of(process.pid)
        assert found is not None
        try:
            yield found
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"job": "other"}, "names the job other now"),
        ({"master": "spark://127.0.0.1:1"}, "takes no connection"),
        ({"deploy": "cluster"}, "does not run Python drivers"),
        ({"master": "spark://127.0.0.1:1", "environment": "/none.tar.gz"}, "no"),
    ],
)
def test_job_that_cannot_be_started_anew_runs_on(
    folder: ApplicationFolder, changed: dict[str, str], match: str
) -> None:
    with _process() as driver:
        folder.write(Application("orders", "orders.yaml", "local[1]", "client", "", 0, driver))
        folder.write_driver(DriverState("running", 1, None, 0, driver))
        with pytest.raises((WrongUsageError, SubmissionError), match=match):
            resubmit(folder, replace(WANTED, **changed), patience_s=1)  # type: ignore[arg-type]
        assert is_running(driver)


def test_job_that_is_started_anew_has_ended_before(
    folder: ApplicationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _process() as driver:
        folder.write(Application("orders", "orders.yaml", "local[1]", "client", "", 0, driver))
        folder.write_driver(DriverState("running", 1, None, 0, driver))

        def begin(_: ApplicationFolder, application: Application, __: object) -> Application:
            assert not is_running(driver)
            return application

        monkeypatch.setattr(submission, "begin_supervised", begin)
        assert resubmit(folder, WANTED, patience_s=20).master == "local[1]"


def test_supervisor_alone_is_told_to_end_for_it_hands_that_on(
    folder: ApplicationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[ProcessIdentity] = []
    with _process() as keeper, _process() as driver:
        application = Application("orders", "orders.yaml", "local[1]", "client", "", 0, keeper)
        folder.write_driver(DriverState("running", 1, None, 0, driver))

        def hands_it_on(one: ProcessIdentity, number: signal.Signals) -> None:
            told.append(one)
            os.kill(driver.pid, number)
            os.kill(keeper.pid, number)

        monkeypatch.setattr(supervised, "_signal", hands_it_on)
        supervised.end_supervised(folder, application, patience_s=20)
    assert told == [keeper]


def test_folder_that_others_could_read_is_for_its_owner_now(folder: ApplicationFolder) -> None:
    folder.path.chmod(0o755)
    folder.make()
    assert folder.path.stat().st_mode & 0o777 == 0o700


def test_job_of_another_machine_is_neither_ended_nor_begun_twice(
    folder: ApplicationFolder,
) -> None:
    there = ProcessIdentity("elsewhere", "its-boot", 7, 7)
    application = Application("orders", "orders.yaml", "local[1]", "client", "", 0, there)
    folder.write(application)
    folder.write_driver(DriverState("running", 1, None, 0, there))
    for act in (
        lambda: read_submission(folder, application),
        lambda: end(folder, application, patience_s=1),
        lambda: submit(WANTED),
    ):
        with pytest.raises(SubmissionError, match="was submitted on elsewhere") as told:
            act()
        assert str(folder.path) == told.value.where
    folder.write_driver(DriverState("ended", 1, 0, 0))
    assert read_submission(folder, application).state == "ended"


def test_machine_that_has_got_another_name_knows_its_processes() -> None:
    with _process() as runs:
        named_before = replace(runs, host="before")
        assert is_running(named_before)
        assert applications.machine_elsewhere(named_before) == ""
        assert not is_running(replace(runs, boot_id="the boot before"))


def test_record_of_another_version_is_read_as_far_as_it_goes(folder: ApplicationFolder) -> None:
    known = Application("orders", "orders.yaml", "local[1]", "client", "", 0)
    folder.write(known)
    path = folder.path / "application.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "of_a_later_one": 1}))
    assert folder.read() == known
    for torn in ('{"job": "orders"}', "", '{"supervisor": {"pid": 1}, "job": 2}'):
        path.write_text(torn)
        assert all_submitted() == []


def test_driver_that_its_supervisor_starts_meanwhile_is_ended_too(
    folder: ApplicationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    with _process(deaf) as keeper, _process(deaf) as driver:
        application = Application("orders", "orders.yaml", "local[1]", "client", "", 0, keeper)
        folder.write_driver(DriverState("waiting", 1, 1, 0))
        told = supervised._signal

        def starts_one(one: ProcessIdentity, number: signal.Signals) -> None:
            if number is signal.SIGTERM:
                folder.write_driver(DriverState("running", 2, None, 0, driver))
            told(one, number)

        monkeypatch.setattr(supervised, "_signal", starts_one)
        supervised.end_supervised(folder, application, patience_s=0.2)
        assert not is_running(driver)
        assert not is_running(keeper)


def test_supervisor_that_does_not_begin_in_time_is_not_left_behind(
    folder: ApplicationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised, "_BEGIN_S", 0.0)
    application = Application("orders", "none.yaml", "local[1]", "client", "", 0)
    with pytest.raises(SubmissionError, match="did not begin"):
        supervised.begin_supervised(folder, application, {})
    begun = folder.read()
    assert begun is not None
    assert begun.supervisor is not None
    until = time.monotonic() + 20
    while is_running(begun.supervisor):
        assert time.monotonic() < until, "the supervisor goes on"
        time.sleep(0.05)


def test_archive_with_which_a_job_may_start_again_is_kept(
    folder: ApplicationFolder, tmp_path: Path
) -> None:
    archives = tmp_path / "archives"
    archives.mkdir()
    for number in range(6):
        path = archives / f"{number}.tar.gz"
        path.touch()
        os.utime(path, (number, number))
    used = str(archives / "1.tar.gz")
    folder.write(Application("orders", "orders.yaml", "yarn", "client", used, 0))
    submission._forget_old(archives)
    assert sorted(path.name[0] for path in archives.iterdir()) == ["1", "3", "4", "5"]


def test_archive_that_is_taken_again_counts_as_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(submission, "environment_label", lambda: "here")
    archives = tmp_path / "sluiceway/environments"
    archives.mkdir(parents=True)
    for number, name in enumerate(("here", "a", "b", "c")):
        path = archives / f"{name}.tar.gz"
        path.touch()
        os.utime(path, (number, number))
    taken = submission._environment(replace(WANTED, master="yarn"))
    # Another command packs another one before this one's job is written down.
    submission._forget_old(archives)
    assert Path(taken).is_file()


def test_machine_without_java_begins_no_job(
    folder: ApplicationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> None:
        raise UnhealthyEnvironmentError("no Java")

    monkeypatch.setattr(submission, "find_java", none)
    with pytest.raises(UnhealthyEnvironmentError, match="no Java"):
        submit(WANTED)
    assert folder.read() is None


def test_kubernetes_wants_its_manifests(folder: ApplicationFolder) -> None:
    wanted = replace(WANTED, master="k8s://https://there", deploy="cluster")
    with pytest.raises(WrongUsageError) as told:
        submit(wanted)
    assert "k8s render" in (told.value.hint or "")
    assert folder.read() is None


@pytest.mark.parametrize(("code", "shown"), [(0, "ended  "), (3, "ended (exit 3)")])
def test_list_tells_a_driver_that_failed(
    folder: ApplicationFolder, capsys: pytest.CaptureFixture[str], code: int, shown: str
) -> None:
    folder.write(Application("orders", "orders.yaml", "local[1]", "client", "", 0))
    folder.write_driver(DriverState("ended", 1, code, 0))
    assert run_command(["list"]) == 0
    assert shown in capsys.readouterr().out


def test_log_of_months_is_read_from_its_end(folder: ApplicationFolder, opened: ExitStack) -> None:
    application = Application("orders", "orders.yaml", "local[1]", "client", "", 0)
    with folder.log.open("wb") as made:
        made.write(b"first\n")
        # A hole: who reads all of it has a terabyte of nothing.
        made.seek(1 << 40)
        made.write("\nü1\nü2\nü3".encode())
    log = opened.enter_context(DriverLog(folder, application))
    assert log.last(2) == ["ü2", "ü3"]
    assert log.more() == ""
    with folder.log.open("ab") as made:
        made.write(b"\nnext\n half")
    assert log.more() == "\nnext\n"
    folder.log.write_bytes(b"anew\n")
    assert log.more() == "anew\n"
    another = opened.enter_context(DriverLog(folder, application))
    assert another.last(100) == ["anew"]
    folder.log.unlink()
    with pytest.raises(SubmissionError, match="cannot be read"):
        log.more()


def test_log_of_the_cluster_goes_on_with_another_driver(
    folder: ApplicationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = iter(["1\n2\n", "1\n2\n3\n", "of another\n"])
    monkeypatch.setattr(driver_log, "yarn_log", lambda *_: next(said))
    log = DriverLog(folder, Application("orders", "o.yaml", "yarn", "cluster", "", 0))
    assert [log.last(1), log.more(), log.more()] == [["2"], "3\n", "of another\n"]


def test_log_of_the_cluster_shows_its_last_line_in_one_piece_to_who_follows(
    folder: ApplicationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = iter(["1\nha", "1\nhalf\n"])
    monkeypatch.setattr(driver_log, "yarn_log", lambda *_: next(said))
    log = DriverLog(folder, Application("orders", "o.yaml", "yarn", "cluster", "", 0))
    assert [log.last(5, whole=True), log.more()] == [["1"], "half\n"]
