from pathlib import Path

import pytest

from sluiceway.cli.app import run_command


@pytest.mark.parametrize("text", ["", "x", "0", "-1", "orders=", "orders=x"])
def test_takeover_that_names_no_term_is_a_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    job = tmp_path / "orders.yaml"
    job.touch()
    assert run_command(["run", str(job), f"--takeover={text}"]) == 2
    assert "expected TERM or ROUTE=TERM" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["7", "orders=7"])
def test_takeover_that_names_a_term_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    job = tmp_path / "orders.yaml"
    job.touch()
    assert run_command(["run", str(job), f"--takeover={text}"]) == 3
    assert "expected TERM" not in capsys.readouterr().err


def test_driver_that_waits_for_a_lease_replaces_no_term(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "orders.yaml"
    job.touch()
    assert run_command(["run", str(job), "--takeover=7", "--standby"]) == 2
    assert "--takeover: expected it without --standby" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0s", "-1s", "soon"])
def test_run_for_no_time_is_a_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    job = tmp_path / "orders.yaml"
    job.touch()
    assert run_command(["run", str(job), f"--for={text}"]) == 2
    assert "--for" in capsys.readouterr().err
