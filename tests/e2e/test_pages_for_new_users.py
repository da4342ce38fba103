"""The pages that a new user follows: their commands work as they are written, on real servers."""

import re
from pathlib import Path

import pytest

from sluiceway.lab.lab import LabEndpoints
from tools.page_commands import PageShell, Step, blocks_of, steps_of

# What another test runs, or would stop the servers that all tests share.
ELSEWHERE = re.compile(r"git clone|make demo|export |sluiceway lab (?:up|down)|source <")


def servers(endpoints: LabEndpoints) -> dict[str, str]:
    return {
        "SLUICEWAY_KAFKA": endpoints.bootstrap_servers,
        "SLUICEWAY_METASTORE": endpoints.metastore_uri,
    }


def as_tested(command: str) -> str | None:
    """A run that a reader ends by a key ends by itself here."""
    if ELSEWHERE.match(command):
        return None
    served = r"timeout -s INT 20 \1 --port 0; test $? -eq 124"
    command = re.sub(r"^(sluiceway serve \S+)$", served, command)
    return re.sub(r"^(sluiceway run \S+)$", r"\1 --until-caught-up", command)


def follow(page: str, folder: Path, endpoints: LabEndpoints) -> dict[str, str]:
    """Run a page from top to bottom; what each command wrote."""
    shell = PageShell(folder, servers(endpoints), as_tested)
    return {step.command: shell.run(step) for step in steps_of(page)}


@pytest.mark.slow
def test_tutorial_works_as_written(lab_endpoints: LabEndpoints, tmp_path: Path) -> None:
    (script,) = blocks_of("tutorial.md", "python")
    (tmp_path / "clicks.py").write_text(script)
    told = follow("tutorial.md", tmp_path, lab_endpoints)
    found = {command.partition("  #")[0].strip(): text for command, text in told.items()}
    assert "clicks  web.clicks  stopped" in found["sluiceway status clicks.yaml"]
    plan = found["sluiceway plan clicks.yaml"]
    assert "+ create the table web.clicks" in plan
    assert "CREATE EXTERNAL TABLE `web`.`clicks` (" in plan
    assert (
        "4 records, 4 rows, 0 dirty; nothing was written"
        in (found["sluiceway preview clicks.yaml -n 4"])
    )
    broken = found["sluiceway preview clicks.yaml --from next -n 2"]
    assert "clicks[0] offset 1500: not_integral took_ms (convert)" in broken
    assert "2 records, 0 rows, 2 dirty; nothing was written" in broken
    assert "SW422: " in next(text for name, text in found.items() if "explain SW422" in name)
    shown = found["sluiceway dirty show clicks.yaml --limit 1"]
    assert "not_integral took_ms (convert), open" in shown
    assert "clean now: 50; dirty again: 0" in found["sluiceway dirty replay clicks.yaml --dry-run"]
    replayed = next(text for name, text in found.items() if "--why" in name)
    assert "50 rows: 50 written, 0 dirty again" in replayed
    hour = next(text for name, text in found.items() if "partitions why" in name)
    assert re.match(r"dt=\d{8}/hr=\d{2}: ", hour)
    assert found["sluiceway serve clicks.yaml"].startswith("http://127.0.0.1:")
    assert found["sluiceway verify --deep clicks.yaml"].endswith("\nverified\n")


def test_first_table_works_as_written(lab_endpoints: LabEndpoints, tmp_path: Path) -> None:
    script, *_ = blocks_of("first-table.md", "python")
    (tmp_path / "orders.py").write_text(script)
    job, *_ = blocks_of("first-table.md", "yaml")
    assert job.startswith("version: 1")
    (tmp_path / "shop.yaml").write_text(job)
    shell = PageShell(tmp_path, servers(lab_endpoints), as_tested)
    shell.run(Step("python orders.py", ""))
    told = {}
    for step in steps_of("first-table.md"):
        if step.command.startswith("sluiceway dirty replay") and "--dry-run" in step.command:
            # What the page says in words: the repair.
            path = tmp_path / "shop.yaml"
            repaired = "{name: qty, type: int, on_lossy: truncate}"
            path.write_text(path.read_text().replace("{name: qty, type: int}", repaired))
        told[step.command.partition("  #")[0].strip()] = shell.run(with_todays_hours(step))
    assert (
        "  - {name: qty, type: "
        in told["sluiceway infer shop_orders --bootstrap-servers $SLUICEWAY_KAFKA"]
    )
    assert "shop.orders" in told["sluiceway status shop.yaml"]
    assert "not_integral qty (convert), open" in told["sluiceway dirty show shop.yaml --limit 1"]
    assert "clean now: 3; dirty again: 0" in told["sluiceway dirty replay shop.yaml --dry-run"]
    replayed = told['sluiceway dirty replay shop.yaml --why "quantities are cut"']
    assert "3 rows: 3 written, 0 dirty again" in replayed


def with_todays_hours(step: Step) -> Step:
    """The hours on the page are of the day on which it was written."""
    hour = "dt=$(date -u -d '1 hour ago' +%Y%m%d)/hr=$(date -u -d '1 hour ago' +%H)"
    return Step(re.sub(r"dt=\d{8}/hr=\d{2}", lambda _: hour, step.command), step.shown)
