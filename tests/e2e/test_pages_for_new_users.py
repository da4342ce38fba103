"""The pages that a new user follows: their commands work as they are written, on real servers."""

import re
from pathlib import Path

import pytest

from sluiceway.lab.lab import LabEndpoints
from tools.page_commands import PageShell, Step, blocks_of, steps_of

PAGE = "guides/first-table.md"
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


SECOND = "python clicks.py"
"""The command with which the second table begins."""


def follow(steps: list[Step], folder: Path, endpoints: LabEndpoints) -> dict[str, str]:
    """Follow a part of the page from top to bottom, its programs and its job file saved.

    Returns:
        What each command wrote, by the command without its comment.
    """
    for name, script in zip(("orders.py", "clicks.py"), blocks_of(PAGE, "python"), strict=True):
        (folder / name).write_text(script)
    (job,) = blocks_of(PAGE, "yaml")
    assert job.startswith("version: 1")
    (folder / "shop.yaml").write_text(job)
    shell, answers = PageShell(folder, servers(endpoints), as_tested), {}
    for step in steps:
        if step.command.startswith("sluiceway dirty replay shop.yaml --dry-run"):
            # What the page says in words: the repair.
            path = folder / "shop.yaml"
            repaired = "{name: qty, type: int, on_lossy: truncate}"
            path.write_text(path.read_text().replace("{name: qty, type: int}", repaired))
        answers[step.command.partition("  #")[0].strip()] = shell.run(with_todays_hours(step))
    return answers


def parts() -> tuple[list[Step], list[Step]]:
    """The steps of the table by hand, and those of the table by `init`."""
    steps = steps_of(PAGE)
    second = [step.command for step in steps].index(SECOND)
    return steps[:second], steps[second:]


@pytest.mark.slow
def test_table_by_a_job_file_of_ones_own_works_as_written(
    lab_endpoints: LabEndpoints, tmp_path: Path
) -> None:
    answers = follow(parts()[0], tmp_path, lab_endpoints)
    assert (
        "  - {name: qty, type: "
        in answers["sluiceway infer shop_orders --bootstrap-servers $SLUICEWAY_KAFKA"]
    )
    assert "shop.orders" in answers["sluiceway status shop.yaml"]
    assert "not_integral qty (convert), open" in answers["sluiceway dirty show shop.yaml --limit 1"]
    assert "clean now: 3; dirty again: 0" in answers["sluiceway dirty replay shop.yaml --dry-run"]
    replayed = answers['sluiceway dirty replay shop.yaml --why "quantities are cut"']
    assert "3 rows: 3 written, 0 dirty again" in replayed
    assert answers["sluiceway verify --deep shop.yaml"].endswith("\nverified\n")


@pytest.mark.slow
def test_table_by_a_written_job_file_works_as_written(
    lab_endpoints: LabEndpoints, tmp_path: Path
) -> None:
    answers = follow(parts()[1], tmp_path, lab_endpoints)
    assert "clicks  web.clicks  stopped" in answers["sluiceway status clicks.yaml"]
    plan = answers["sluiceway plan clicks.yaml"]
    assert "+ create the table web.clicks" in plan
    assert "CREATE EXTERNAL TABLE `web`.`clicks` (" in plan
    assert (
        "4 records, 4 rows, 0 dirty; nothing was written"
        in (answers["sluiceway preview clicks.yaml -n 4"])
    )
    broken = answers["sluiceway preview clicks.yaml --from next -n 2"]
    assert "clicks[0] offset 1500: not_integral took_ms (convert)" in broken
    assert "2 records, 0 rows, 2 dirty; nothing was written" in broken
    assert "SW422: " in next(text for name, text in answers.items() if "explain SW422" in name)
    shown = answers["sluiceway dirty show clicks.yaml --limit 1"]
    assert "not_integral took_ms (convert), open" in shown
    assert (
        "clean now: 50; dirty again: 0" in answers["sluiceway dirty replay clicks.yaml --dry-run"]
    )
    replayed = answers[
        'sluiceway dirty replay clicks.yaml --why "fractions of milliseconds are cut"'
    ]
    assert "50 rows: 50 written, 0 dirty again" in replayed
    hour = next(text for name, text in answers.items() if "partitions why clicks" in name)
    assert re.match(r"dt=\d{8}/hr=\d{2}: ", hour)
    assert answers["sluiceway serve clicks.yaml"].startswith("http://127.0.0.1:")
    assert answers["sluiceway verify --deep clicks.yaml"].endswith("\nverified\n")


def with_todays_hours(step: Step) -> Step:
    """The hours on the page are of the day on which it was written."""
    hour = "dt=$(date -u -d '1 hour ago' +%Y%m%d)/hr=$(date -u -d '1 hour ago' +%H)"
    return Step(re.sub(r"dt=\d{8}/hr=\d{2}", lambda _: hour, step.command), step.shown)
