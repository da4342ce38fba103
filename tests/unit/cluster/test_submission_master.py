"""A standalone master that is not there: `submit` says so, and nothing is started."""

import socket
from pathlib import Path

import pytest

from sluiceway.cluster.applications import Deploy
from sluiceway.cluster.submission import JobSubmission, submit
from sluiceway.errors import SubmissionError, WrongUsageError
from sluiceway.host.spark_master import reachable_master


def unused_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


def test_job_for_a_master_that_is_not_there_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    master = f"spark://127.0.0.1:{unused_port()}"
    wanted = JobSubmission("orders", tmp_path / "orders.yaml", master, {}, environment="none")
    with pytest.raises(SubmissionError, match="takes no connection: Connection refused") as told:
        submit(wanted)
    assert (told.value.where, told.value.exit_code) == (master, 5)
    assert "run.master" in (told.value.hint or "")
    assert list(tmp_path.iterdir()) == []


def test_one_master_of_several_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = reachable_master(f"spark://127.0.0.1:{unused_port()},127.0.0.1:{port}")
    assert found == f"127.0.0.1:{port}"


@pytest.mark.parametrize("deploy", ["client", "cluster"])
def test_yarn_that_nothing_tells_of_is_refused_before_anything_is_packed_or_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deploy: Deploy
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    with pytest.raises(WrongUsageError, match="HADOOP_CONF_DIR is not set"):
        submit(JobSubmission("orders", tmp_path / "orders.yaml", "yarn", {}, deploy))
    assert list(tmp_path.iterdir()) == []
