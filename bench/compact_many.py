"""What it takes to compact very many small partitions, beside a driver that has other things to do.

A route's real session on a simulated source and catalog (`bench.driver_cost`), its ledger and files
on local storage: epochs write real Parquet files of a few rows into each partition, then all are
asked for as `sluiceway compact` does. The driver takes a turn once an interval, as it does between
two epochs. At the end the rows of every partition are read back and compared.

`python -m bench.compact_many --partitions 500 --files 4 --interval 1` prints one JSON line:
`turns` of the driver's thread until all was done, the longest of them and all together, CPU of this
process and of those that have rewritten.
"""

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.driver_cost import NO_SUM, CatalogCalls, MemorySink, MemorySource, job_text
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.loader import parse_job
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import RowCounts
from sluiceway.observe.log import stderr_log
from sluiceway.observe.progress import Progress
from sluiceway.observe.steps import ignore_step
from sluiceway.route.route_context import RouteParts
from sluiceway.route.route_session import RouteSession
from sluiceway.schedule.source_view import read_source_view
from sluiceway.sources.contract import SourcePartition
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt, decode
from sluiceway.upkeep.partition_requests import COMPACT, CompactAnswer, CompactRequest
from sluiceway.upkeep.requests import put_request
from sluiceway.worker.plan import SplitResult, TaskPlan, TaskResult

HOURS = 24
PATIENCE_S = 3600.0


@dataclass(frozen=True, slots=True)
class Many:
    """What is compacted.

    Attributes:
        partitions: Each an hour of some day.
        files: Of each, one an epoch.
        rows: Of each file.
        interval_s: Between two turns of the driver.
    """

    partitions: int
    files: int
    rows: int
    interval_s: float


def hour(number: int) -> tuple[str, str]:
    """Values of a partition."""
    return f"{20_260_000 + number // HOURS:08d}", f"{number % HOURS:02d}"


def measure(root: Path, many: Many) -> dict[str, object]:
    """Fill the table, compact it, compare all rows.

    Raises:
        RuntimeError: A partition was not compacted, or its rows are others.
    """
    (config,) = compile_routes(parse_job(job_text(1), root / "job.yaml", {}).spec).routes
    source = MemorySource(config.topics, log_partitions=1)
    with Path(os.devnull).open("w") as stream:
        log = stderr_log(stream=stream)
        sink = MemorySink(config, root, CatalogCalls(0.003))
        parts = RouteParts(source, sink, log, ignore_step, Progress())
        session = RouteSession(config, parts)
        try:
            session.start()
            for epoch in range(many.files):
                _write_epoch(session, source, many, epoch)
            place = session.status_place()
            if place is None:
                raise RuntimeError("the session has no ledger")
            ledger = LedgerLog(place[0], LedgerLayout(str(root / "t_0"), config.route))
            found = _compact(session, ledger, many)
        finally:
            session.leave()
    _check_rows(ledger, many)
    return found


def _write_epoch(session: RouteSession, source: MemorySource, many: Many, epoch: int) -> None:
    """One more file for each partition."""
    (topic,) = session.config.topics
    one = SourcePartition(topic, 0)
    rows = many.partitions * many.rows
    source.ends[one] = rows * (epoch + 1)
    view = read_source_view(source, session.config.topics)
    pins = session.planner.due_sources(view)
    if pins is not None:
        session.committer.pin(pins, view)
    planned = session.planner.plan(view, bounded=False)
    if planned is None:
        raise RuntimeError("there is nothing to read")
    planned.by_task = {0: tuple(planned.splits)}
    (plan,) = session.planner.task_plans(planned).values()
    session.committer.commit_epoch(planned, [_answered(plan, many, epoch)], view)


def _answered(plan: TaskPlan, many: Many, epoch: int) -> TaskResult:
    storage, route = LocalStorage(), plan.route
    attempt = f"{route.term}-{plan.epoch}-{os.urandom(16).hex()}"
    storage.make_folders(route.layout.attempt(attempt))
    files = []
    for number in range(many.partitions):
        first = (epoch * many.partitions + number) * many.rows
        values, name = hour(number), f"{route.layout.route}-{attempt}-{number}.parquet"
        writer = storage.create_staged(f"{route.layout.attempt(attempt)}/{name}")
        ids = pa.array(range(first, first + many.rows), pa.int64())
        pq.write_table(pa.table({"id": ids, "ts": ids}), writer.handle(), compression="zstd")
        seal = writer.seal()
        files.append(
            FileRecord(
                staged=f"{attempt}/{name}",
                final=f"dt={values[0]}/hr={values[1]}/{name}",
                values=values,
                rows=BigInt(many.rows),
                size_bytes=BigInt(seal.size_bytes),
                crc32c=seal.crc32c,
                bounds={},
            )
        )
    rows = BigInt(many.partitions * many.rows)
    (split,) = plan.splits
    spent = SplitResult(
        topic=split.partition.topic,
        partition=0,
        start=BigInt(split.start_offset),
        end=BigInt(split.start_offset + rows),
        rows=rows,
        gaps=BigInt(0),
        end_epoch=None,
        max_event_time_us=None,
        offset_sum=NO_SUM,
    )
    return TaskResult(
        ledger=route.ledger,
        term=route.term,
        epoch=plan.epoch,
        task=plan.task,
        attempt=attempt,
        splits=(spent,),
        files=tuple(files),
        dirty_files=(),
        counts=RowCounts(rows, rows, *(BigInt(0),) * 4),
        dirty_reasons={},
        timings_ms={},
        consumer_reused=True,
        failure=None,
    )


def _compact(session: RouteSession, ledger: LedgerLog, many: Many) -> dict[str, object]:
    """Ask for all, and be the driver until it is done."""
    fence = ledger.fold().first_fence
    if fence is None:
        raise RuntimeError("the ledger has no driver")
    names = tuple("dt={}/hr={}".format(*hour(number)) for number in range(many.partitions))
    request = CompactRequest(1, fence.ledger, COMPACT, "bench", names)
    put_request(ledger.storage, ledger.layout, request)
    began_s, spent = time.monotonic(), _cpu_s()
    held_s = list(_turns(session, ledger, request, many))
    wall_s = time.monotonic() - began_s
    own_s, children_s = (after - before for before, after in zip(spent, _cpu_s(), strict=True))
    raw = ledger.storage.read(ledger.layout.answer(request.id))
    if raw is None:
        raise RuntimeError("nobody has answered")
    done = decode(raw, CompactAnswer).partitions
    if failed := [each for each in done if each.outcome != "compacted"]:
        raise RuntimeError(f"{len(failed)} partitions were not compacted: {failed[0]}")
    return {
        "partitions": len(done),
        "files_before": sum(each.files_before for each in done),
        "files_after": sum(each.files_after for each in done),
        "interval_s": many.interval_s,
        "wall_s": round(wall_s, 1),
        "turns": len(held_s),
        "longest_turn_s": round(max(held_s), 3),
        "held_s": round(sum(held_s), 2),
        "driver_cpu_s": round(own_s, 2),
        "rewriting_cpu_s": round(children_s, 2),
    }


def _turns(
    session: RouteSession, ledger: LedgerLog, request: CompactRequest, many: Many
) -> Iterator[float]:
    """Seconds of each turn that had something to do."""
    end = time.monotonic() + PATIENCE_S
    while ledger.storage.status(ledger.layout.request(request.id)) is not None:
        if time.monotonic() > end:
            raise RuntimeError(f"not done in {PATIENCE_S} s")
        session.lanes.read_requests()
        if session.committer.is_record_due(None):
            began_s = time.monotonic()
            session.committer.pin(None, None)
            yield time.monotonic() - began_s
        time.sleep(many.interval_s)


def _cpu_s() -> tuple[float, float]:
    """Of this process, and of those that it has waited for."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    own, children = (each.ru_utime + each.ru_stime for each in used)
    return own, children


def _check_rows(ledger: LedgerLog, many: Many) -> None:
    """Read each partition where the ledger says it is."""
    known = ledger.fold().partitions
    for number in range(many.partitions):
        state = known["dt={}/hr={}".format(*hour(number))]
        files = sorted(Path(ledger.layout.final(state.location)).glob("*.parquet"))
        ids = [one for path in files for one in pq.read_table(path)["id"].to_pylist()]
        wanted = [
            (epoch * many.partitions + number) * many.rows + row
            for epoch in range(many.files)
            for row in range(many.rows)
        ]
        if ids != wanted:
            raise RuntimeError(f"{state.folder} has {len(ids)} rows, expected {len(wanted)}")


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.compact_many")
    parser.add_argument("--partitions", type=int, default=500)
    parser.add_argument("--files", type=int, default=4, help="of each partition")
    parser.add_argument("--rows", type=int, default=50, help="of each file")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between two turns")
    given = parser.parse_args(words)
    many = Many(given.partitions, given.files, given.rows, given.interval)
    with tempfile.TemporaryDirectory(prefix="compact-many-") as folder:
        print(json.dumps(measure(Path(folder), many)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
