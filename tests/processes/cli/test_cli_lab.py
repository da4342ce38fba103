import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluiceway.cli.commands.lab import app, progress_on_stderr
from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.host.process import own_identity
from sluiceway.lab.state import LabState, save_state
from sluiceway.lab.support import LabProgress


def test_status_of_lab_never_up_shows_stopped(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["status", "--dir", str(tmp_path)])
    assert shown.exit_code == 0
    assert shown.stdout.count("stopped") == 2


def test_status_json_has_each_server(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["status", "--dir", str(tmp_path), "-o", "json"])
    servers = {server["name"]: server for server in json.loads(shown.stdout)["servers"]}
    assert set(servers) == {"kafka", "metastore"}
    assert servers["kafka"]["state"] == "stopped"
    assert servers["kafka"]["pid"] is None


def test_status_dead_server_shows_its_log_end_and_exits_5(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    dead = type(own_identity())(own_identity().host, own_identity().boot_id, ended.pid, 1)
    ports = {"kafka": 20_001, "kafka_controller": 20_002}
    save_state(tmp_path, LabState(ports=ports).with_server("kafka", dead))
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "kafka.log").write_text("first\nit broke here\n")
    shown = CliRunner().invoke(app, ["status", "--dir", str(tmp_path)])
    assert shown.exit_code == 5
    assert "Kafka 4.1.1 is dead" in shown.stdout
    assert "it broke here" in shown.stdout


def test_up_in_foreign_folder_raises_for_the_caller_to_print(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    shown = CliRunner().invoke(app, ["up", "--dir", str(tmp_path)])
    assert isinstance(shown.exception, UnhealthyEnvironmentError)


def test_down_remove_data_without_consent_stops(tmp_path: Path) -> None:
    save_state(tmp_path, LabState())
    shown = CliRunner().invoke(app, ["down", "--dir", str(tmp_path), "--remove-data"], input="n\n")
    assert shown.exit_code == 1
    assert (tmp_path / "state.json").exists()


def test_progress_without_terminal_prints_each_quarter_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress_on_stderr() as on_progress:
        on_progress(LabProgress("starting"))
        for done_bytes in range(0, 40_000_001, 1_000_000):
            on_progress(LabProgress("downloading Kafka", done_bytes, 40_000_000))
    assert capsys.readouterr().err.splitlines() == [
        "starting",
        *(f"downloading Kafka: {percent} % of 40 MB" for percent in (0, 25, 50, 75, 100)),
    ]


def test_cli_lab_import_loads_nothing_heavy() -> None:
    script = (
        "import sys, sluiceway.cli.commands.lab\n"
        "print([name for name in ('confluent_kafka', 'pymetastore', 'pyarrow', 'pyspark') "
        "if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
