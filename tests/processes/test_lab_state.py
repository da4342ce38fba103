import stat
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.host.process import ProcessIdentity, is_alive, own_identity
from sluiceway.lab.daemon import (
    Launch,
    kill,
    log_tail,
    start_detached,
    stop,
    wait_until_gone,
)
from sluiceway.lab.lab import Lab, ServerState
from sluiceway.lab.state import LabState, load_state, save_state

_PATH = {"PATH": "/usr/bin:/bin"}


def test_load_state_gives_back_what_was_saved(tmp_path: Path) -> None:
    saved = LabState(ports={"kafka": 20_001}).with_server("kafka", own_identity())
    save_state(tmp_path, saved)
    assert load_state(tmp_path) == saved
    assert stat.S_IMODE((tmp_path / "state.json").stat().st_mode) == 0o600


def test_load_state_of_folder_without_lab_is_none(tmp_path: Path) -> None:
    assert load_state(tmp_path) is None


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"version": 99}'])
def test_load_state_broken_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "state.json").write_text(content)
    with pytest.raises(UnhealthyEnvironmentError, match="cannot be read") as refused:
        load_state(tmp_path)
    assert refused.value.where == str(tmp_path / "state.json")


def test_without_server_keeps_the_ports() -> None:
    state = LabState(ports={"kafka": 20_001}).with_server("kafka", own_identity())
    assert state.without_server("kafka") == LabState(ports={"kafka": 20_001})


def test_lab_up_in_foreign_folder_is_refused_and_leaves_it_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UnhealthyEnvironmentError, match=r"thesis\.txt"):
        Lab(tmp_path).up()
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_lab_never_up_is_stopped_and_has_no_endpoints(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab")
    assert {one.state for one in lab.status()} == {ServerState.STOPPED}
    with pytest.raises(UnhealthyEnvironmentError, match="never up"):
        lab.endpoints()
    lab.down()
    assert not (tmp_path / "lab").exists()


def test_lab_down_never_signals_a_process_that_got_the_pid_later(tmp_path: Path) -> None:
    running = start_detached(_sleeper(tmp_path), tmp_path / "sleep.log", record=_no_record)
    try:
        forged = replace(running, start_ticks=running.start_ticks - 1)
        save_state(tmp_path, LabState().with_server("kafka", forged))
        Lab(tmp_path).down()
        assert is_alive(running) is True
    finally:
        kill(running)


def test_start_detached_appends_output_to_the_log(tmp_path: Path) -> None:
    launch = Launch(["/bin/sh", "-c", "echo hello; sleep 60"], tmp_path, _PATH)
    log_file = tmp_path / "server.log"
    log_file.write_text("an earlier line\n")
    running = start_detached(launch, log_file, record=_no_record)
    try:
        _wait_for_line(log_file, "hello")
        assert log_file.read_text().startswith("an earlier line\n--- started ")
    finally:
        stop(running, grace_s=5)


def test_start_detached_is_on_record_before_the_program_begins(tmp_path: Path) -> None:
    log_file, recorded = tmp_path / "server.log", []

    def record(process: ProcessIdentity) -> None:
        time.sleep(0.1)
        assert "begun" not in log_file.read_text()
        recorded.append(process)

    launch = Launch(["/bin/sh", "-c", "echo begun; sleep 60"], tmp_path, _PATH)
    running = start_detached(launch, log_file, record=record)
    try:
        _wait_for_line(log_file, "begun")
        assert recorded == [running]
        assert is_alive(running) is True
    finally:
        kill(running)


def test_start_detached_that_cannot_be_recorded_begins_nothing(tmp_path: Path) -> None:
    processes = []

    def refuse(process: ProcessIdentity) -> None:
        processes.append(process)
        raise OSError("disk full")

    launch = Launch(["/bin/sh", "-c", "echo begun; sleep 60"], tmp_path, _PATH)
    with pytest.raises(OSError, match="disk full"):
        start_detached(launch, tmp_path / "server.log", record=refuse)
    assert wait_until_gone(processes[0], timeout_s=10)
    assert "begun" not in (tmp_path / "server.log").read_text()


def test_stop_server_that_ignores_term_is_killed(tmp_path: Path) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    launch = Launch(["/bin/sh", "-c", script], tmp_path, _PATH)
    running = start_detached(launch, tmp_path / "server.log", record=_no_record)
    _wait_for_line(tmp_path / "server.log", "ready")
    stop(running, grace_s=0.2)
    assert is_alive(running) is False


def test_log_tail_gives_the_last_lines(tmp_path: Path) -> None:
    log_file = tmp_path / "server.log"
    log_file.write_text("".join(f"line {number}\n" for number in range(10_000)))
    assert log_tail(log_file, lines=2) == "line 9998\nline 9999"
    assert log_tail(tmp_path / "none.log") == ""


def _sleeper(folder: Path) -> Launch:
    return Launch(["sleep", "60"], folder, _PATH)


def _wait_for_line(log_file: Path, line: str) -> None:
    deadline = time.monotonic() + 10
    while line not in log_tail(log_file).splitlines():
        assert time.monotonic() < deadline, f"{line!r} is not in {log_tail(log_file)!r}"
        time.sleep(0.01)


def _no_record(process: ProcessIdentity) -> None:
    del process
