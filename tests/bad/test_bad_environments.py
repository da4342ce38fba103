"""What is around a good job file is wrong: an exit code, the fix by name, no stack trace."""

import os
import socket
import stat
from pathlib import Path

import pytest

from sluiceway.audit.health_checks import Finding, Health, check_machine
from sluiceway.cli.app import run_command
from sluiceway.cli.job_file import load_checked_job

JOB = """\
version: 1
name: orders
connections:
  main: {{kafka: {{bootstrap_servers: "127.0.0.1:{broker}"}}}}
  hms: {{metastore: {{uri: "thrift://127.0.0.1:{metastore}"}}}}
source: {{connection: main, topics: [orders], start: earliest}}
format: {{json: {{}}}}
table:
  hive: {{connection: hms, name: ods.orders{location}}}
  columns: [{{name: id, type: bigint}}]
  partition_by: []
run: {{interval: 1s, master: "{master}"}}
"""


def closed_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def unreachable_job(folder: Path, *, location: str = "", master: str = "local[1]") -> str:
    path = folder / "job.yaml"
    place = f", location: {location}" if location else ""
    ports = {"broker": closed_port(), "metastore": closed_port()}
    path.write_text(JOB.format(location=place, master=master, **ports))
    return str(path)


def told(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    code = run_command(args)
    shown = capsys.readouterr()
    assert "Traceback" not in shown.out + shown.err
    assert "SW000" not in shown.err
    return code, shown.out + shown.err


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers that are down are waited for as long as a request may take."""
    monkeypatch.setattr("sluiceway.route.clients.REQUEST_TIMEOUT_S", 1.0)
    monkeypatch.setattr("sluiceway.sources.topic_sample._REQUEST_TIMEOUT_S", 1.0)


def machine(job: str) -> dict[str, Finding]:
    """What `doctor` finds about this machine, by check and subject."""
    found = check_machine(load_checked_job(Path(job)).spec)
    return {f"{each.check} {each.subject}": each for each in found}


@pytest.mark.parametrize(
    ("verb", "code"),
    [
        (("status",), 1),
        (("verify",), 1),
        (("plan",), 1),
        (("preview",), 1),
        (("partitions", "list"), 1),
        (("offsets", "show"), 1),
        (("dirty", "list"), 1),
        (("files",), 1),
        (("ledger", "show"), 1),
        (("gc",), 1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_metastore_that_is_down_is_named_by_every_command(
    verb: tuple[str, ...], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, text = told(capsys, *verb, unreachable_job(tmp_path))
    assert found == code
    assert "SW102" in text
    assert "thrift://127.0.0.1:" in text or "127.0.0.1" in text


def test_brokers_that_are_down_are_named_before_spark_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = closed_port()
    code, text = told(capsys, "infer", "orders", "--bootstrap-servers", f"127.0.0.1:{port}")
    assert code == 1
    assert "SW101" in text
    assert f"127.0.0.1:{port}" in text


def test_doctor_names_all_that_is_down_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = told(capsys, "doctor", unreachable_job(tmp_path))
    assert code == 5
    assert "bad      broker" in text
    assert "bad      metastore" in text
    assert text.count("fix: ") >= 3


def test_java_that_is_missing_is_told_with_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    monkeypatch.setattr("sluiceway.host.java.find_java.__kwdefaults__", {"folders": ()})
    found = machine(unreachable_job(tmp_path))[f"java {tmp_path / 'none'}"]
    assert found.health is Health.BAD
    assert "Java 17 or 21 is needed" in found.found
    assert "install Java 17" in found.fix


def test_spark_master_that_is_down_is_told(tmp_path: Path) -> None:
    master = f"spark://127.0.0.1:{closed_port()}"
    found = machine(unreachable_job(tmp_path, master=master))[f"spark {master}"]
    assert (found.health, found.fix) == (Health.BAD, "start it or correct run.master")
    assert "Connection refused" in found.found


def test_yarn_without_its_settings_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    found = machine(unreachable_job(tmp_path, master="yarn"))["spark yarn"]
    assert (found.health, found.found) == (Health.BAD, "nothing says where YARN is")
    assert found.fix.startswith("set HADOOP_CONF_DIR")
    monkeypatch.setenv("YARN_CONF_DIR", str(tmp_path))
    assert machine(unreachable_job(tmp_path, master="yarn"))["spark yarn"].health is Health.OK


@pytest.mark.parametrize(
    ("limit", "value", "subject", "health"),
    [
        ("open_files_limit", 256, "ulimit open files", Health.BAD),
        ("open_files_limit", 600, "ulimit open files", Health.OK),
        ("open_files_limit", None, "ulimit open files", Health.OK),
        ("processes_limit", 100, "ulimit processes", Health.WARNING),
        ("processes_limit", 10_000, "ulimit processes", Health.OK),
        ("free_memory_bytes", 1 << 29, "memory tasks", Health.BAD),
        ("free_memory_bytes", 8 << 30, "memory tasks", Health.OK),
        ("free_memory_bytes", None, "memory tasks", Health.SKIPPED),
        ("free_disk_bytes", 1 << 20, "disk", Health.BAD),
        ("free_disk_bytes", 1 << 30, "disk", Health.WARNING),
        ("free_disk_bytes", 1 << 40, "disk", Health.OK),
    ],
)
def test_machine_that_is_too_small_is_told_with_a_fix(
    limit: str, value: int, subject: str, health: Health, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(f"sluiceway.audit.health_checks.{limit}", lambda *_: value)
    (found,) = [
        each
        for name, each in machine(unreachable_job(tmp_path)).items()
        if name.startswith(subject)
    ]
    assert found.health is health
    assert bool(found.fix) == (health in (Health.BAD, Health.WARNING))


def test_tasks_that_fit_one_by_one_only_are_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluiceway.audit.health_checks.free_memory_bytes", lambda: 2 << 30)
    found = machine(unreachable_job(tmp_path, master="local[8]"))["memory tasks"]
    assert found.health is Health.WARNING
    assert found.found.startswith("8 tasks of 512 MiB and the driver take up to 5,120 MiB; 2,048")


@pytest.mark.parametrize("what", ["folder", "missing", "unreadable"])
def test_job_file_that_cannot_be_read_is_exit_3(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / what
    if what == "folder":
        path.mkdir()
    elif what == "unreadable":
        path.write_text(JOB)
        path.chmod(0)
        if os.access(path, os.R_OK):
            path.unlink()
            os.mkfifo(path, stat.S_IRUSR)
    code, text = told(capsys, "validate", str(path))
    assert code == 3
    assert f"error[SW401] {path}: " in text
    assert "hint: check " in text
