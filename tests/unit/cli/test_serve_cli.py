"""`sluiceway serve`: whom it lets in, and what it refuses to start with."""

from pathlib import Path

import pytest

from sluiceway.cli.app import run_command
from sluiceway.cli.commands import serve
from sluiceway.errors import WrongUsageError


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "orders.yaml"
    path.write_text("version: 1\n")
    return path


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("0123456789abcdef0123\n")
    return path


def test_address_that_others_reach_needs_token_and_tls(
    job: Path, token: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["serve", str(job), "--address", "192.0.2.1"]) == 2
    assert "a token and TLS are needed" in capsys.readouterr().err
    with_token = ["serve", str(job), "--address", "192.0.2.1", "--token-file", str(token)]
    assert run_command(with_token) == 2
    assert "--tls-cert" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["short", "has a space in the middle", "ünlike-ascii-text-here"])
def test_token_has_to_be_long_and_plain(
    job: Path, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    assert run_command(["serve", str(job), "--token-file", str(path)]) == 2
    shown = capsys.readouterr().err
    assert str(path) in shown.replace("\n", "")
    assert text not in shown


@pytest.mark.parametrize(("place", "code"), [("nowhere.yaml", 3), (".", 2)])
def test_place_without_a_job_file_is_refused(
    tmp_path: Path, place: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["serve", str(tmp_path / place)]) == code
    assert str(tmp_path) in capsys.readouterr().err.replace("\n", "")


def test_name_that_is_no_ip_address_is_refused(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["serve", str(job), "--address", "example.org"]) == 2
    assert "is no IP address" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["0.0.0.0", "::"])  # noqa: S104 - refused
def test_address_that_is_given_as_a_name_is_refused_with_the_option_that_was_meant(
    job: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # It listened on the loopback address, and nobody else could connect.
    assert run_command(["serve", str(job), "--host", name]) == 2
    assert f"--address {name}" in capsys.readouterr().err


def test_port_that_is_taken_is_told_with_what_to_do(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import socket  # noqa: PLC0415 - of this test alone

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        assert run_command(["serve", str(job), "--port", str(port)]) == 5
    assert "choose another --port" in capsys.readouterr().err


def test_files_of_folders_are_found_once_and_names_are_ours(job: Path, token: Path) -> None:
    again = job.parent / "b.yml"
    again.write_text("version: 1\n")
    # As `validate FOLDER` takes them: no job is described by these.
    for name in ("notes.txt", "b.test.yaml", ".b.yml.yaml"):
        (job.parent / name).write_text("x")
    assert list(serve._job_files([job, job.parent])) == [job, again]
    access = serve._access("10.1.2.3", token, ["Ingest.Example:8090"])
    assert {"10.1.2.3", "ingest.example"} <= access.hosts
    assert "localhost" not in access.hosts
    with pytest.raises(WrongUsageError, match="a token and TLS"):
        serve._access("10.1.2.3", None, [])


def test_files_of_a_folder_are_looked_for_again_and_each_is_named_once(
    job: Path, tmp_path: Path
) -> None:
    folders = serve._folders([tmp_path, job])
    assert serve._job_files([tmp_path, job], folders) == [job]
    other = tmp_path / "new.yml"
    other.write_text("version: 1\n")
    assert serve._job_files([tmp_path, job], folders) == [other, job]
    other.unlink()
    job.unlink()
    # One that was named by itself stays, and is told to be gone.
    assert serve._job_files([tmp_path, job], folders) == [job]
    tmp_path.rmdir()
    assert serve._job_files([tmp_path], folders) == []
