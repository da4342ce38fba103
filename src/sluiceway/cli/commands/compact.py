"""`sluiceway compact`: merge the small files of partitions into few, well-sized ones."""

import sys
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluiceway.audit.format_times import counted
from sluiceway.cli.options import JobFile, OnlyRoute, Output, OutputFormat, this_operator
from sluiceway.cli.views.answers import print_document
from sluiceway.cli.views.tables import print_table
from sluiceway.cli.views.waiting import ProgressLine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluiceway.audit.open_table import OpenLedger
    from sluiceway.jobfile.compile.config import RouteConfig
    from sluiceway.upkeep.compaction_choice import PlannedCompaction
    from sluiceway.upkeep.partition_requests import CompactAnswer, PartitionDone

app = typer.Typer()

_FAILED = 1
_MANY_LEFT = 10
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_UNIT = 1024


@app.command()
def compact(
    job_file: JobFile,
    partitions: Annotated[
        list[str] | None,
        typer.Argument(
            help="Partitions, as dt=20261120/hr=08; dt=20261120 stands for all below it.",
            metavar="PARTITION",
            show_default=False,
        ),
    ] = None,
    route: OnlyRoute = None,
    all_closed: Annotated[
        bool, typer.Option("--all-closed", help="All that are closed; all of a lake table.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done.")
    ] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Merge the files of partitions into few large ones, with the same rows in the same order.

    A running driver does it while it commits epochs; without a driver, this process does. For a
    lake table it is always this process, and --all-closed means all partitions. Readers find the
    new files at once. The old files stay for an hour; those of a lake table, as long as its
    snapshots. Safe to interrupt and to repeat: a driver goes on with the request, and a partition
    whose files are few and large is left alone.

    $ sluiceway compact orders.yaml dt=20261120
    $ sluiceway compact orders.yaml --all-closed --dry-run
    """
    from sluiceway.audit.open_table import open_ledger  # noqa: PLC0415
    from sluiceway.audit.pick_route import job_routes, pick_route  # noqa: PLC0415
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.observe.log import WarningsOnDemand  # noqa: PLC0415

    names = tuple(sorted({name.strip("/") for name in partitions or ()}))
    if bool(names) == all_closed or "" in names:
        raise typer.BadParameter("name partitions, or write --all-closed", param_hint="PARTITION")
    routes = job_routes(load_checked_job(job_file).spec, WarningsOnDemand())
    if route is not None or len(routes) == 1 or names:
        routes = (pick_route(routes, route),)
    ledgers = [(config, open_ledger(config)) for config in routes]
    if dry_run:
        _print_planned(ledgers, names, output)
        return
    failed = _carry_out(ledgers, names, output)
    if failed:
        raise typer.Exit(_FAILED)


def _print_planned(
    ledgers: "Sequence[tuple[RouteConfig, OpenLedger]]",
    names: tuple[str, ...],
    output: OutputFormat,
) -> None:
    shown = []
    for config, ledger in ledgers:
        found = _planned(config, ledger, names)
        shown.append({"route": config.route, "partitions": [asdict(each) for each in found]})
        if output is OutputFormat.TABLE:
            left = [each.left for each in found]
            _print_route(config.route, _without_many(left, [_planned_cells(x) for x in found]))
    if output.is_document:
        print_document({"dry_run": True, "routes": shown}, output)
    else:
        sys.stdout.write("nothing was changed\n")


def _planned(
    config: "RouteConfig", ledger: "OpenLedger", names: tuple[str, ...]
) -> "Sequence[PlannedCompaction]":
    from sluiceway.observe.log import WarningsOnDemand  # noqa: PLC0415
    from sluiceway.upkeep.compaction_choice import foresee  # noqa: PLC0415

    if config.table.lake is None:
        return foresee(ledger.fold, _as_folders(names), config.rolling.target_bytes)
    fence = ledger.fold.first_fence
    if fence is None:
        return ()
    # Clients of lake catalogs take a second to import.
    from sluiceway.operate.lake_compact import FencedLog, foresee_lake  # noqa: PLC0415

    log = WarningsOnDemand()
    return foresee_lake(config, FencedLog(ledger.log, fence.ledger), names, log)


def _planned_cells(each: "PlannedCompaction") -> tuple[str, ...]:
    after = each.left or f"about {each.files_after:,}"
    return (each.partition, f"{each.files:,}", _size(each.size_bytes), after)


def _carry_out(
    ledgers: "Sequence[tuple[RouteConfig, OpenLedger]]",
    names: tuple[str, ...],
    output: OutputFormat,
) -> bool:
    """Compact route by route; return whether anything failed."""
    from sluiceway.upkeep.partition_requests import CompactionOutcome  # noqa: PLC0415

    shown: list[dict[str, Any]] = []
    failed = False
    for config, ledger in ledgers:
        answer = _carried_out(config, ledger, names)
        failed = failed or any(
            each.outcome == CompactionOutcome.FAILED for each in answer.partitions
        )
        if output is OutputFormat.TABLE:
            left = [_left(each) for each in answer.partitions]
            rows = [_done_cells(each) for each in answer.partitions]
            _print_route(config.route, _without_many(left, rows))
            sys.stdout.write(_sum(answer))
        done = [asdict(each) for each in answer.partitions]
        shown.append({"route": config.route, "partitions": done})
    if output.is_document:
        print_document({"dry_run": False, "routes": shown}, output)
    return failed


def _carried_out(
    config: "RouteConfig", ledger: "OpenLedger", names: tuple[str, ...]
) -> "CompactAnswer":
    """What became of a route's partitions."""
    from sluiceway.observe.log import WarningsOnDemand  # noqa: PLC0415
    from sluiceway.operate.requested import carry_out  # noqa: PLC0415
    from sluiceway.upkeep.partition_requests import (  # noqa: PLC0415
        COMPACT,
        CompactAnswer,
        CompactRequest,
    )
    from sluiceway.upkeep.requests import REQUEST_VERSION  # noqa: PLC0415

    fence = ledger.fold.first_fence
    if fence is None:
        # No driver has ever filled the table: there is nothing to merge, and no driver to ask.
        return CompactAnswer(finished=True, partitions=(), waiting=0)
    watch, log = _Progress(config.route), WarningsOnDemand()
    try:
        if config.table.lake is not None:
            # Clients of lake catalogs take a second to import.
            from sluiceway.operate.lake_compact import FencedLog, compact_lake  # noqa: PLC0415

            fenced = FencedLog(ledger.log, fence.ledger)
            return compact_lake(config, fenced, names, watch, log)
        operator = this_operator()
        folders = _as_folders(names)
        request = CompactRequest(REQUEST_VERSION, fence.ledger, COMPACT, operator, folders)
        return carry_out(config, ledger.log, request, CompactAnswer, watch, log)
    finally:
        watch.end()


def _as_folders(names: tuple[str, ...]) -> tuple[str, ...]:
    """Folder names of a Hive table, with escaped values."""
    from sluiceway.sinks.partition_path import requested_folder  # noqa: PLC0415

    return tuple(sorted({requested_folder(name) for name in names}))


def _done_cells(each: "PartitionDone") -> tuple[str, ...]:
    files = f"{each.files_before:,} -> {each.files_after:,}"
    sizes = f"{_size(int(each.bytes_before))} -> {_size(int(each.bytes_after))}"
    took = f"{each.wall_ms / 1000:.1f} s, {each.cpu_ms / 1000:.1f} s CPU"
    if each.reason:
        files, sizes, took = f"{each.files_before:,}", _size(int(each.bytes_before)), each.reason
    return (each.partition, files, sizes, f"{each.outcome}: {took}")


def _left(each: "PartitionDone") -> str:
    """Why it was left as it is; empty for others. Failures are listed one by one."""
    from sluiceway.upkeep.partition_requests import CompactionOutcome  # noqa: PLC0415

    return each.reason if each.outcome == CompactionOutcome.LEFT else ""


def _without_many(
    left: "Sequence[str]", rows: "Sequence[tuple[str, ...]]"
) -> list[tuple[str, ...]]:
    """The rows, but many partitions left for one reason are one row at the end.

    Args:
        left: Why each was left as it is; empty when it was not.
        rows: One row for each partition; the last cell holds the reason.
    """
    numbers = Counter(filter(None, left))
    many = {why: number for why, number in numbers.items() if number > _MANY_LEFT}
    shown = [row for why, row in zip(left, rows, strict=True) if why not in many]
    shown += [(f"{number:,} partitions", "", "", f"left: {why}") for why, number in many.items()]
    return shown


def _sum(answer: "CompactAnswer") -> str:
    done = [each for each in answer.partitions if not each.reason]
    if not answer.partitions:
        return "nothing to do: no such partition\n"
    return (
        f"compacted {len(done):,} of {counted(len(answer.partitions), 'partition')}: "
        f"{counted(sum(each.files_before for each in done), 'file')} became "
        f"{sum(each.files_after for each in done):,}, "
        f"{sum(each.cpu_ms for each in done) / 1000:.1f} s CPU\n"
    )


def _print_route(route: str, rows: "Sequence[tuple[str, ...]]") -> None:
    sys.stdout.write(f"{route}:\n")
    print_table(rows, indent=2)


def _size(size_bytes: int) -> str:
    size, unit = float(size_bytes), 0
    while size >= _UNIT and unit + 1 < len(_UNITS):
        size, unit = size / _UNIT, unit + 1
    return f"{size:.1f} {_UNITS[unit]}" if unit else f"{size_bytes} B"


class _Progress(ProgressLine):
    """How many partitions of a route are done."""

    def __init__(self, route: str) -> None:
        super().__init__()
        self._route = route

    def __call__(self, answer: "CompactAnswer | None", elsewhere: bool) -> None:
        far = None
        if answer is not None:
            done = len(answer.partitions)
            far = f"{done} of {done + answer.waiting} partitions"
        self.show(f"{self._route}: ", far, elsewhere=elsewhere)
