"""What `status` says of the Spark UI: where it is, that it is off, or that nothing is known."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from sluiceway.audit.job_status import ObservedJob, ObservedRoute
from sluiceway.cli.commands.status import _table, status_document
from sluiceway.cli.views.typed_commands import typed_fields
from sluiceway.route.status import RouteState, RouteStatus, decode_status, encode_status

STATUS = RouteStatus(route="r", table="t", state=RouteState.RUNNING)
ADDRESS = "http://10.1.2.3:40404"


def seen(*routes: tuple[str | None, str | None]) -> ObservedJob:
    config: Any = None
    return ObservedJob(
        tuple(ObservedRoute(config, replace(STATUS, spark_ui=ui), driver) for driver, ui in routes)
    )


def last_lines(job: ObservedJob) -> list[str]:
    return [line for line in _table(job, "my.yaml").splitlines() if line.startswith("Spark UI")]


@pytest.mark.parametrize(("ui", "shown"), [(ADDRESS, ADDRESS), ("", "off"), (None, "not known")])
def test_a_driver_has_one_line_however_many_routes(ui: str | None, shown: str) -> None:
    # A route that has just started has no figures of its driver yet.
    job = seen(("h pid 1", None), ("h pid 1", ui), ("h pid 1", ui))
    assert last_lines(job) == [f"Spark UI of h pid 1: {shown}"]


def test_each_driver_has_its_own_and_where_none_runs_there_is_none() -> None:
    assert last_lines(seen(("a pid 1", ADDRESS), (None, None), ("b pid 2", ""))) == [
        f"Spark UI of a pid 1: {ADDRESS}",
        "Spark UI of b pid 2: off",
    ]


@pytest.mark.parametrize("ui", [ADDRESS, "", None])
def test_programs_get_it_with_each_route(ui: str | None) -> None:
    told = status_document("job", seen(("h pid 1", ui)), typed_fields(Path("my.yaml")))
    (route,) = cast("list[dict[str, Any]]", told["routes"])
    assert route["spark_ui"] == ui


@pytest.mark.parametrize(
    "ui",
    [ADDRESS, "", None, "https://driver.example:4040", "http://[::1]:4040", "http://h:1/proxy/a_1"],
)
def test_address_in_the_drivers_file_is_read(ui: str | None) -> None:
    status = replace(STATUS, spark_ui=ui)
    assert decode_status(encode_status(status)) == status


@pytest.mark.parametrize(
    "ui", ["javascript:alert(1)", "data:text/html,x", "http://h:1/\u001b[31m", "http://h/?a=<b>"]
)
def test_what_is_no_address_makes_the_file_unreadable(ui: str) -> None:
    assert decode_status(encode_status(replace(STATUS, spark_ui=ui))) is None
