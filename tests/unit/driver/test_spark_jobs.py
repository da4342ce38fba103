"""How the jobs of a driver look on Spark's pages, and which settings win."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluiceway.driver.spark import spark_task
from sluiceway.driver.spark.background_jobs import LowJobs
from sluiceway.driver.spark.session import default_settings, session_settings
from sluiceway.driver.spark.spark_jobs import StageCounters, epoch_description
from sluiceway.driver.spark.spark_runner import SparkRunner
from sluiceway.driver.spark.spark_task import (
    COUNTED,
    packed,
    run_spark_task,
    unpacked_result,
    warm_task,
)
from sluiceway.host.java import JavaHome
from sluiceway.ledger.records import NO_ROWS
from sluiceway.observe.log import stderr_log
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.plan import TaskFigures, TaskPlan, TaskResult
from tools.small_task import route_plan
from tools.spark_calls import RecordedContext


def plan(route: str, epoch: int, splits: int, waiting: int) -> TaskPlan:
    of_route = route_plan("/tables/orders")
    layout = replace(of_route.layout, route=route)
    each = tuple(Split(SourcePartition("t", number), 0) for number in range(splits))
    return TaskPlan(replace(of_route, layout=layout), epoch, 0, each, 1.0, waiting=waiting)


def test_epoch_of_one_route_is_described_by_what_waits() -> None:
    bundles = [(plan("orders", 1204, 5, 1_200_000),), (plan("orders", 1204, 3, 34_000),)]
    assert epoch_description(bundles) == "orders: epoch 1204, 8 splits, 1.2 M records waiting"


@pytest.mark.parametrize(
    ("waiting", "shown"),
    [(0, "0"), (999, "999"), (1000, "1.0 k"), (12_345, "12.3 k"), (2_500_000_000, "2.5 G")],
)
def test_what_waits_is_written_shortly(waiting: int, shown: str) -> None:
    text = epoch_description([(plan("orders", 1, 1, waiting),)])
    assert text == f"orders: epoch 1, 1 split, {shown} records waiting"


def test_first_routes_of_many_are_named_and_the_others_counted() -> None:
    two = (plan("a", 7, 1, 10), plan("b", 9, 1, 20))
    assert epoch_description([two]) == "a epoch 7, b epoch 9: 2 splits, 30 records waiting"
    many = tuple(plan(f"r{number}", number, 1, 100) for number in range(20))
    assert epoch_description([many]) == (
        "r0 epoch 0, r1 epoch 1, r2 epoch 2 and 17 more routes: 20 splits, 2.0 k records waiting"
    )
    assert "and 1 more route:" in epoch_description([many[:4]])


def said_by(act: Callable[[Any], None]) -> list[tuple[str, ...]]:
    context = RecordedContext()
    act(context)
    return context.said


def epochs(context: Any) -> None:
    log = stderr_log(stream=io.StringIO())
    runner = SparkRunner(context, log, name="sluiceway-orders")
    for epoch in (3, 4):
        bundle = (plan("orders", epoch, 2, 5),)
        runner.run([bundle], wait=lambda: None, give_up_after_s=30)
    runner.close()


def compactions(context: Any) -> None:
    jobs = LowJobs(context, "sluiceway-orders", "compaction", 1)
    for _ in range(2):
        job = jobs.begin("orders: compaction, 3 partitions", [b""], warm_task, places=())
        job.wait(30)
    jobs.close()


@pytest.mark.parametrize(
    ("act", "group", "pool"),
    [
        (epochs, "sluiceway-orders-epochs", "epochs"),
        (compactions, "sluiceway-orders-compaction", "upkeep"),
    ],
)
def test_names_stay_the_same_and_tags_are_of_one_job(
    act: Callable[[Any], None], group: str, pool: str
) -> None:
    said = said_by(act) + said_by(act)
    assert {each[1] for each in said if each[0] == "group"} == {group}
    assert {each[1] for each in said if each[0] == "stage"} == {group}
    assert {each[1:] for each in said if each[0] == "property"} == {("spark.scheduler.pool", pool)}
    tags = [each[1] for each in said if each[0] == "tag"]
    assert len(tags) == len({*tags}) == 4


def test_the_end_of_a_runner_cancels_its_own_jobs_in_a_session_of_others() -> None:
    context: Any = RecordedContext()
    log = stderr_log(stream=io.StringIO())
    runner = SparkRunner(context, log, owned=False, name="sluiceway-orders")
    runner.run([(plan("orders", 3, 2, 5),)], wait=lambda: None, give_up_after_s=30)
    runner.close()
    (tag,) = [each[1] for each in context.said if each[0] == "tag"]
    assert context.cancelled == [tag]


def test_nothing_is_counted_where_no_page_shows_it_or_spark_has_not_what_it_takes() -> None:
    context: Any = RecordedContext()
    assert StageCounters.of(context) is None
    context.uiWebUrl = "http://127.0.0.1:4040"
    assert StageCounters.of(context) is None


def head(answer: bytes) -> dict[str, int]:
    """The numbers that an answer begins with, as the JVM reads them: one `bigint` after another."""
    return {
        name: int.from_bytes(answer[at * 8 : at * 8 + 8], "big") for at, name in enumerate(COUNTED)
    }


def test_an_answer_begins_with_what_the_page_shows_and_goes_on_with_its_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = replace(NO_ROWS, read=BigInt(300), written=BigInt(293), dirty=BigInt(7))
    figures = TaskFigures(bytes_read={"t": 4000, "u": 96})
    result = TaskResult(
        "orders",
        1,
        1,
        0,
        "a",
        (),
        (),
        (),
        counts,
        {},
        {},
        False,  # noqa: FBT003
        None,
        figures=figures,
    )
    monkeypatch.setattr(spark_task, "run_bundle", lambda plans, attempt: [result, *plans])
    (answer,) = run_spark_task(iter(packed([()])))
    assert head(answer) == {"rows read": 300, "bytes read": 4096, "dirty rows": 7}
    assert unpacked_result(answer) == result


def test_warming_up_answers_in_the_form_of_an_epoch_and_counts_nothing() -> None:
    (answer,) = warm_task(iter([b""]))
    assert head(answer) == dict.fromkeys(COUNTED, 0)
    assert len(answer) == 8 * len(COUNTED)


def test_pages_are_on_at_any_free_port_keep_little_and_end_no_job() -> None:
    settings = default_settings()
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.ui.port"] == "0"
    assert settings["spark.ui.killEnabled"] == "false"
    kept = {key: int(value) for key, value in settings.items() if ".ui.retained" in key}
    assert len(kept) == 5
    assert max(kept.values()) <= 1000


def test_settings_of_the_job_file_win() -> None:
    own = {"spark.ui.enabled": "false", "spark.ui.port": "4044", "spark.ui.retainedJobs": "500"}
    java = JavaHome(Path("/no/java"), 17, "none")
    found = session_settings("local[1,4]", own, java, None)
    assert own.items() <= found.items()
    assert found["spark.ui.retainedStages"] == default_settings()["spark.ui.retainedStages"]
