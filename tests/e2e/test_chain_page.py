"""The three tables on the page of chains: its commands work as written, on real servers."""

import os
import subprocess
import sys
from pathlib import Path
from typing import TypeVar

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo

from e2e.test_pages_for_new_users import PAGE as FIRST_PAGE
from e2e.test_pages_for_new_users import as_tested, servers, with_todays_hours
from sluiceway.lab.lab import LabEndpoints
from sluiceway.ledger.partition_records import ReadyRecord, SwapRecord
from tools.chain_guide import PAGE, SETTINGS
from tools.job_files import JobFile, write_job
from tools.lab_fixture import TopicFactory
from tools.lake_chain import NAME, SCHEMA, rows
from tools.page_commands import PageShell, Step, blocks_of, steps_of
from tools.route_runs import RouteRun

TOPIC = "chain_orders"
BodyT = TypeVar("BodyT", ReadyRecord, SwapRecord)


def named(text: str) -> str:
    """With a topic and tables of its own: other tests follow the first page too."""
    return text.replace("shop_orders", TOPIC).replace("shop.orders", "chain.orders")


@pytest.mark.slow
def test_chain_of_three_tables_works_as_written(
    lab_endpoints: LabEndpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, _ = blocks_of(FIRST_PAGE, "python")
    (first,) = blocks_of(FIRST_PAGE, "yaml")
    chain = next(each for each in blocks_of(PAGE, "yaml") if each.startswith("version: 1"))
    for name, text in (("orders.py", program), ("shop.yaml", first), ("chain.yaml", chain)):
        (tmp_path / name).write_text(named(text))
    shell = PageShell(tmp_path, servers(lab_endpoints), as_tested)

    def run(command: str) -> str:
        return shell.run(with_todays_hours(Step(command, "")))

    run("python orders.py")
    run("sluiceway run shop.yaml")
    steps = [step for step in steps_of(PAGE) if "chain.yaml" in step.command]
    answers = {step.command: run(step.command) for step in steps}
    assert len(steps) == 5
    shown = answers["sluiceway preview chain.yaml --route hourly"]
    assert shown.splitlines()[0].split() == ["kind", "orders"]
    assert answers["sluiceway verify chain.yaml"].endswith("\n2 of 2 routes verified\n")

    for name, value in servers(lab_endpoints).items():
        monkeypatch.setenv(name, value)
    first_run = RouteRun(JobFile(tmp_path / "shop.yaml", "chain.orders"))
    chain_run = RouteRun(JobFile(tmp_path / "chain.yaml", ""))
    announced = {each.prefix: int(each.rows) for each in bodies(first_run, ReadyRecord)}
    swaps = bodies(chain_run.of("hourly"), SwapRecord)
    assert announced
    # Row 0 is left out by `where`.
    read = {each.prefix: int(each.counts.read) for each in swaps}
    assert (read.keys(), sum(read.values())) == (announced.keys(), sum(announced.values()) - 1)
    ready = bodies(chain_run.of("hourly"), ReadyRecord)
    assert {each.prefix: each.version for each in ready} == dict.fromkeys(announced, 1)
    assert all(each.because is not None for each in ready)

    path = tmp_path / "chain.yaml"
    path.write_text(path.read_text().replace("count(*)", "count(DISTINCT id)"))
    run("sluiceway run chain.yaml")
    swaps = bodies(chain_run.of("hourly"), SwapRecord)
    reasons = [each.reason.partition(":")[0] for each in swaps]
    assert reasons == ["new"] * len(announced) + ["SQL changed"] * len(announced)
    chain_run.of("hourly").assert_verified()


@pytest.mark.slow
def test_iceberg_table_as_the_source_works_as_written(tmp_path: Path) -> None:
    (text,) = [each for each in blocks_of(PAGE, "yaml") if "name: lake" in each]
    place = f"file://{tmp_path}/warehouse"
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=place)
    catalog.create_namespace("others")
    table = catalog.create_table(NAME, SCHEMA)
    table.append(rows(range(200)))
    (tmp_path / "lake.yaml").write_text(text.replace("/srv/lake", str(tmp_path)))
    shell = PageShell(tmp_path, {}, as_tested)

    def follow() -> dict[str, str]:
        steps = [step for step in steps_of(PAGE) if "lake.yaml" in step.command]
        return {step.command: shell.run(step) for step in steps}

    assert len(follow()) == 3
    table.refresh()
    table.delete(EqualTo("id", 7))
    table.append(rows(range(200, 210)))
    answers = follow()
    shown = answers["sluiceway status lake.yaml"]
    assert f"reads {NAME}: snapshot 3 of 3, 1 that removed rows passed over" in shown
    assert answers["sluiceway verify lake.yaml"].endswith("\nverified\n")
    found = catalog.load_table("ods.events").scan(selected_fields=("id",)).to_arrow()
    assert sorted(found["id"].to_pylist()) == list(range(210))


@pytest.mark.slow
def test_python_of_the_page_works_as_written(
    lab_endpoints: LabEndpoints, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = new_topic()
    servers, metastore = lab_endpoints.bootstrap_servers, lab_endpoints.metastore_uri
    job = write_job(
        tmp_path, bootstrap_servers=servers, metastore_uri=metastore, topic=topic, **SETTINGS
    )
    command = [sys.executable, "-m", "tools.chain_guide", str(job.path), job.table]
    command += [servers, topic, str(tmp_path / "out")]
    paths = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    assert done.stdout.split()[-1] == "45"


def bodies(run: RouteRun, kind: type[BodyT]) -> list[BodyT]:
    """The records of one kind in a route's ledger."""
    return [each.body for each in run.records() if isinstance(each.body, kind)]
