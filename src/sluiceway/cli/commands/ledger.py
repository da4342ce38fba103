"""`sluiceway ledger show`: what was committed, record by record."""

import json
import sys
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluiceway.audit.format_times import counted, moment
from sluiceway.cli.options import JobFile, OneRoute, Output, OutputFormat
from sluiceway.cli.views.answers import write_plain

if TYPE_CHECKING:
    from sluiceway.ledger.records import Record

app = typer.Typer(no_args_is_help=True, help="Read a job's ledger.")

_MOST_COUNTS = 10


@app.callback()
def ledger() -> None:
    """Read a job's ledger."""


@app.command()
def show(
    job_file: JobFile,
    start: Annotated[int, typer.Option("--from", help="First slot.", min=0)] = 0,
    route: OneRoute = None,
    limit: Annotated[int, typer.Option(help="At most so many records.", min=1)] = 1000,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Print the records of the log in slot order; as JSON, one whole record per line."""
    from sluiceway.audit.open_table import open_place  # noqa: PLC0415
    from sluiceway.audit.pick_route import job_routes, pick_route  # noqa: PLC0415
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.ledger.log import LedgerLog  # noqa: PLC0415
    from sluiceway.observe.log import WarningsOnDemand  # noqa: PLC0415

    routes = job_routes(load_checked_job(job_file).spec, WarningsOnDemand())
    table = open_place(pick_route(routes, route))
    records = LedgerLog(table.storage, table.layout).records(start)
    if output is OutputFormat.TABLE:
        sys.stdout.write(f"{'seq':>6} {'term':>4} {'type':<9} what\n")
    for record, raw in islice(records, limit):
        if output.is_document:
            # As it is stored: a signed record keeps its units.
            write_plain(json.loads(raw), output)
        else:
            sys.stdout.write(
                f"{record.seq:>6} {record.term:>4} {record.type.value:<9} {describe(record)}\n"
            )


def describe(record: "Record") -> str:
    """What a record says, in a sentence."""
    from sluiceway.ledger.lane_records import LATE, LaneDataRecord, LaneRecord  # noqa: PLC0415
    from sluiceway.ledger.operator_records import (  # noqa: PLC0415
        ResetRecord,
        SourceChangeRecord,
    )
    from sluiceway.ledger.records import (  # noqa: PLC0415
        DataRecord,
        FenceRecord,
        SnapshotRecord,
        SourcesRecord,
    )

    body: Any = record.body
    if isinstance(body, FenceRecord):
        return _describe_fence(body)
    if isinstance(body, DataRecord):
        return _describe_data(body)
    if isinstance(body, SnapshotRecord):
        sealed = f"; seals {', '.join(body.sealed)}" if body.sealed else ""
        size = f"{body.size_bytes:,} bytes in {body.side}"
        return f"the fold of slots below {body.through}, {size}{sealed}"
    if isinstance(body, ResetRecord | SourceChangeRecord):
        kind = "resets" if isinstance(body, ResetRecord) else "accepts another log of"
        moves = ", ".join(
            f"{p.topic}[{p.partition}] {p.old_end} -> {p.new_end}" for p in body.partitions
        )
        return f"{body.operator} {kind} {moves}: {body.reason}"
    if isinstance(body, SourcesRecord):
        return _describe_sources(body)
    if isinstance(body, LaneRecord):
        rows = sum(int(each.stop - each.start) for each in body.ranges)
        why = f": {body.reason}" if body.reason else ""
        opened = f"{body.operator} opens lane {body.lane[:8]}"
        what = f"{rows:,} late rows into their partitions"
        what = what if body.kind == LATE else f"{body.kind} of {rows:,} dirty rows"
        return f"{opened}, {what}{why}"
    if isinstance(body, LaneDataRecord):
        return _describe_lane_data(body)
    return _describe_partitions(body)


def _describe_sources(body: Any) -> str:
    pins = ", ".join(f"{p.topic}[{p.partition}] {p.how} {p.start}" for p in body.partitions)
    if body.operator:
        gone = ", ".join(
            f"{p.topic}[{p.partition}] from offset {p.start} on" for p in body.partitions
        )
        return f"{body.operator} gives up {gone}: {body.reason}"
    what = f"`{body.pattern}`, now " if body.pattern else ""
    why = f"; {body.reason}, passed over" if body.reason else ""
    return f"reads {what}{', '.join(body.topics) or 'nothing'}: {pins}{why}"


def _describe_lane_data(body: Any) -> str:
    counts = body.counts
    files = counted(len(body.files), "file")
    became = f"{counts.written:,} written, {counts.dirty:,} dirty again in {files}"
    if body.ranges[0].source.startswith("late:"):
        became = f"{counts.written:,} brought in, in {files}"
    if counts.superseded:
        became += f", {counts.superseded:,} superseded by later changes"
    if counts.late:
        became += f", {counts.late:,} of sealed times put aside"
    if counts.purged:
        became = f"{counts.purged:,} purged"
    slots = sorted({int(each.source.split("/")[-2]) for each in body.ranges})
    from_ = f"slot {slots[0]}" if len(slots) == 1 else f"slots {slots[0]} to {slots[-1]}"
    read = counted(counts.read, "row")
    return f"epoch {body.epoch} of lane {body.lane[:8]}: {read} of {from_}, {became}"


def _describe_fence(body: Any) -> str:
    at, adopted = moment(body.started_at_ms * 1000), body.adopted
    if adopted is None:
        return f"{body.host} pid {body.pid} took over at {at}"
    return (
        f"room {body.site} adopted a copy at {at}: generation {adopted.generation}, "
        f"{adopted.slots} slots cut; {adopted.operator}: {adopted.reason}"
    )


def _describe_data(body: Any) -> str:
    ranges = " ".join(f"{r.topic}[{r.partition}]:{r.start}-{r.end}" for r in body.ranges)
    times = [r.max_event_time_us for r in body.ranges if r.max_event_time_us is not None]
    newest = f", newest {moment(max(times))}" if times else ""
    counts = body.counts
    rest = {"late aside": counts.late, "filtered": counts.filtered, "skipped": counts.skipped}
    rest["rows beyond the first of a record"] = counts.expanded
    others = "".join(f", {rows:,} {name}" for name, rows in rest.items() if rows)
    parts = [
        f"epoch {body.epoch}: {counts.read:,} read, {counts.written:,} written, "
        f"{counts.dirty:,} dirty{others} in {counted(len(body.files), 'file')}{newest}",
        ranges,
        f"closes {', '.join(body.closed)}" if body.closed else "",
        f"by its count {', '.join(body.counted)}" if body.counted else "",
        f"late in {', '.join(body.late_in)}" if body.late_in else "",
        *_describe_watermark(body.watermark),
    ]
    return "; ".join(part for part in parts if part)


def _describe_watermark(mark: Any) -> list[str]:
    if mark is None:
        return []
    told = []
    if mark.us is not None:
        how = ", as all are idle" if mark.by else ""
        told.append(f"watermark {moment(mark.us)}{how}")
    told += [f"{each.topic}[{each.partition}] is idle" for each in mark.idle]
    told += [
        f"held by {each.topic}[{each.partition}], whose log ends at {each.log_end}"
        for each in mark.held_by
    ]
    return told


def _describe_partitions(body: Any) -> str:
    from sluiceway.ledger.counts_records import CountsRecord  # noqa: PLC0415
    from sluiceway.ledger.partition_records import (  # noqa: PLC0415
        AbandonRecord,
        IntentRecord,
        ReadyRecord,
        ReplaceRecord,
        SwapRecord,
    )

    if isinstance(body, CountsRecord):
        told = ", ".join(f"{each.prefix} {each.rows:,}" for each in body.counts[:_MOST_COUNTS])
        more = ", ..." if len(body.counts) > _MOST_COUNTS else ""
        return f"rows as {body.topic} has counted them: {told or 'none'}{more}"
    if isinstance(body, IntentRecord):
        return f"begins to {body.purpose} {body.partition}"
    if isinstance(body, AbandonRecord):
        return f"ends the work of slot {body.intent}: {body.reason}"
    if isinstance(body, ReplaceRecord):
        return (
            f"moves {body.partition} to {body.folder}: of {counted(len(body.removed), 'file')} it "
            f"makes {len(body.added)}"
        )
    if isinstance(body, SwapRecord):
        moved = counted(len(body.partitions), "partition")
        return (
            f"replaces {counted(body.rows_before, 'row')} of {body.prefix} by {body.rows_after} in "
            f"{moved}, for slot {body.intent}"
        )
    if isinstance(body, ReadyRecord):
        counts = f"{counted(body.rows, 'row')} in {counted(body.files, 'file')}"
        return f"announces {body.prefix}, version {body.version}: {counts}"
    return f"lets go of {', '.join(p.partition for p in body.partitions)}: {body.reason}"
