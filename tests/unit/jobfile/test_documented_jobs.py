"""Job files and blocks that pages show are valid, and pages say a thing one way."""

import re
from pathlib import Path

import pytest

from sluiceway.cli.job_file import inspect_checked_job

DOCS = Path(__file__).parents[3] / "docs"
_YAML = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_AROUND = """\
version: 1
name: page
connections:
  main: {kafka: {bootstrap_servers: "h:1"}}
  hms: {metastore: {uri: "thrift://h:2"}}
source: {connection: main, topics: [orders], start: earliest}
format: {json: {}}
"""


def problems_of(text: str) -> list[str]:
    found = inspect_checked_job(text.encode(), Path("job.yaml"))
    return [f"{each.mark.line}: {each.text}; {each.todo}" for each in found.problems]


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICEWAY_KAFKA", "k1:9092")
    monkeypatch.setenv("SLUICEWAY_METASTORE", "thrift://hms:9083")
    monkeypatch.setenv("AIRFLOW_TOKEN", "Bearer x")


def test_whole_jobs_of_the_guide_are_valid_a_second_table_too() -> None:
    blocks = _YAML.findall((DOCS / "guides/job-file.md").read_text("utf-8"))
    whole = [block for block in blocks if block.startswith("version: 1")]
    assert any("dwd.paid_orders" in job for job in whole)
    assert [problems_of(job) for job in whole] == [[]] * 3


def test_masks_of_personal_data_are_valid() -> None:
    blocks = _YAML.findall((DOCS / "guides/dirty-rows.md").read_text("utf-8"))
    (block,) = [block for block in blocks if "transient: true" in block]
    inside = "table:\n  hive: {connection: hms, name: a.b}\n  partition_by: []\n"
    assert problems_of(_AROUND + block.replace("table:\n", inside)) == []


def test_rooms_of_the_guide_are_valid() -> None:
    blocks = _YAML.findall((DOCS / "guides/operations.md").read_text("utf-8"))
    rooms = [block for block in blocks if block.startswith("rooms:")]
    assert ["mirrored" in block for block in rooms] == [False, True]
    table = "table:\n  hive: {connection: hms, name: a.b}\n  partition_by: []\n"
    assert [problems_of(_AROUND + table + block) for block in rooms] == [[], []]


def test_form_of_airflow_is_valid() -> None:
    blocks = _YAML.findall((DOCS / "guides/complete-hours.md").read_text("utf-8"))
    (hook,) = [block for block in blocks if "dag_run_id" in block]
    table = """\
table:
  hive: {connection: hms, name: a.b}
  columns: [{name: ts, type: timestamp, unit: ms}]
  partition_by: [{name: dt, event_time: yyyyMMdd}]
event_time: {field: ts}
"""
    assert problems_of(f"{_AROUND}{table}{hook}") == []


def test_installation_is_said_once_and_the_readme_links_what_is_not_done() -> None:
    readme = (DOCS.parent / "README.md").read_text("utf-8")
    found = (path for path in DOCS.rglob("*.md") if "adr" not in path.parts)
    pages = [readme, *(path.read_text("utf-8") for path in found)]
    assert sum(page.count("pipx install") for page in pages) == 1
    assert (
        "(docs/guides/guarantees.md)"
        in readme.split("## What it does not do\n")[1].split("\n## ")[0]
    )
