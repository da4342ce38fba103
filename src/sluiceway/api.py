"""Runs a job in the caller's own process: for notebooks, schedulers and tests."""

import json
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from sluiceway.audit.pick_route import pick_route, routes_without_brokers
from sluiceway.audit.table_point import PointFile, TablePoint, point_request, table_point
from sluiceway.cli.job_file import load_checked_job, parse_checked_job
from sluiceway.driver.run import Observers, RunOptions, run_job
from sluiceway.driver.stop import StopSignal, listening
from sluiceway.jobfile.blocks.values import parse_duration_ms
from sluiceway.jobfile.loader import LoadedJob
from sluiceway.observe.log import stderr_log
from sluiceway.observe.progress import Progress
from sluiceway.route.status import RouteSummary, RunSummary
from sluiceway.service.health import HttpAccess, health_served

__all__ = ["PointFile", "RouteSummary", "RunSummary", "TablePoint", "read_at", "run"]


def read_at(
    job: str | Path | Mapping[str, Any],
    *,
    route: str | None = None,
    slot: int | None = None,
    time: str | None = None,
) -> TablePoint:
    """Look up what a table held at a slot or a time. Reads the ledger alone, and changes nothing.

    Args:
        job: Path of a job file, or what such a file holds.
        route: Its name; without one the job has one route only.
        slot: Slot of the ledger, its rows included. Without a slot or a time, the newest slot whose
            files are all published.
        time: With its zone, as `2026-11-28T08:00:00Z`: all that was prepared by then.

    Returns:
        Files with row spans, and where a reader of the sources goes on without a gap.

    Raises:
        JobFileError: The job is not valid.
        WrongUsageError: There is no such route, or the time is none.
        RequestRefusedError: The slot is not published, or no driver has ever run.
        SluicewayError: The ledger cannot be read.
    """
    spec = _load(job).spec
    log = stderr_log(level="warning")
    config = pick_route(routes_without_brokers(spec, log, route), route)
    return table_point(config, point_request(slot, time))


def run(
    job: str | Path | Mapping[str, Any],
    *,
    until_caught_up: bool = False,
    for_: str | float | None = None,
    signals: bool = True,
    log_level: str = "warning",
) -> RunSummary:
    """Run a job and return when it ends; without a limit it ends when it is stopped.

    Uses the process's SparkSession when there is one, as it is, and leaves it running; starts one
    and stops it otherwise. Exactly once holds as for `sluiceway run`. A call that raises, or whose
    process dies, has lost and doubled nothing, and the next one goes on.

    Args:
        job: Path of a job file, or what such a file holds.
        until_caught_up: End at the log ends read at the start.
        for_: End gracefully after this time: seconds, or text as `10m`.
        signals: SIGINT and SIGTERM end the run gracefully while it lasts. Only in the main
            thread; elsewhere the process's handlers are left alone in any case.
        log_level: Level of the lines on standard error (JSON, except on a terminal): debug, info,
            warning or error.

    Returns:
        Rows and commits of this run for each route. A route that halted while others ran says why.

    Raises:
        JobFileError: The job is not valid.
        SluicewayError: No route could go on; the class and code say why.
        ValueError: An argument is not what it should be.
    """
    log = stderr_log(level=log_level)
    options = RunOptions(until_caught_up, _seconds(for_), borrow_session=True)
    spec = _load(job).spec
    events = Observers(log, Progress())
    stop = StopSignal()
    with (
        listening(stop) if signals else nullcontext(),
        health_served(spec.run.health_port, events.board, log, HttpAccess.of(spec)),
    ):
        return run_job(spec, options, events, stop)


def _load(job: str | Path | Mapping[str, Any]) -> LoadedJob:
    if not isinstance(job, Mapping):
        return load_checked_job(Path(job))
    try:
        # JSON is YAML; so a mapping is checked by the same rules as a file.
        content = json.dumps(job, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise ValueError(f"a job holds texts, numbers, lists and mappings only: {error}") from error
    return parse_checked_job(content, Path("<job>"))


def _seconds(for_: str | float | None) -> float | None:
    if isinstance(for_, str):
        return parse_duration_ms(for_) / 1000
    if for_ is not None and not for_ > 0:
        raise ValueError(f"expected a time greater than 0, got {for_}")
    return for_
