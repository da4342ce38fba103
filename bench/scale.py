"""How the driver's cost grows: with source partitions, with routes, with the length of a ledger.

The real loop, sessions and ledgers on a simulated source, table and runner; see `driver_cost`, also
for what is left out. All source partitions have new rows in every epoch; of the routes one in a
hundred has. A ledger is made as long as wanted by committing epochs of a thousand files each, with
its snapshots and packs, and a tail of ordinary epochs behind the last snapshot; the files are not
there. Start-up is from the loop's start to its first tasks.

Growth is the exponent of the power that fits best (least squares of the logarithms) to the lower
quartile of the epochs, the least disturbed by others on the machine: 1 is linear.

`python -m bench.scale` ends with one JSON line, and with 1 when something grows faster than it may.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.driver_cost import MemorySource, measure
from bench.figures import growth_exponent
from bench.tidy_end import end_tidily
from sluiceway.errors import StorageUnavailableError
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import DataRecord, RangeRecord, RowCounts
from sluiceway.ledger.upkeep import LogUpkeep
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.sources.contract import SourcePartition
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt

CATALOG_S = 0.003
FILES_A_RECORD = 1_000
TAIL_RECORDS = 500
TAIL_FILES = 8
HOURS = 24
PARTITIONS = 4
# Of the growth's exponent: what a busy machine may add.
NOISE = 0.1
START_LIMIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Step:
    """One size of one thing; see `driver_cost.Cost` for the fields."""

    size: int
    driver_ms: float
    quiet_ms: float
    cpu_ms: float
    start_s: float


def grow_partitions(sizes: Sequence[int], epochs: int) -> list[Step]:
    """One route, its topic with so many source partitions, all of them touched."""
    return [_measured(size, epochs, log_partitions=size) for size in sizes]


def grow_routes(sizes: Sequence[int], epochs: int) -> list[Step]:
    """So many routes, each with a topic of its own."""
    found = []
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="scale-") as folder:
            cost = measure(size, epochs, Path(folder), CATALOG_S)
        found.append(_told(Step(size, cost.driver_ms, cost.quiet_ms, cost.cpu_ms, cost.start_s)))
    return found


def grow_ledger(sizes: Sequence[int], epochs: int) -> list[Step]:
    """One route whose ledger names so many files."""
    return [_measured(size, epochs, files=size) for size in sizes]


def _measured(size: int, epochs: int, *, log_partitions: int = PARTITIONS, files: int = 0) -> Step:
    with tempfile.TemporaryDirectory(prefix="scale-") as name:
        folder = Path(name)
        source = MemorySource(["topic_0"], log_partitions)
        if files:
            measure(1, 2, folder, CATALOG_S, source)
            began = time.monotonic()
            lengthen(folder, source, files)
            _tell(f"made a ledger of {files} files in {time.monotonic() - began:.0f} s")
        cost = measure(1, epochs, folder, CATALOG_S, source)
    return _told(Step(size, cost.driver_ms, cost.quiet_ms, cost.cpu_ms, cost.start_s))


def lengthen(folder: Path, source: MemorySource, files: int) -> Fold:
    """Commit epochs until the ledger of the only route names at least so many files.

    Returns:
        What the ledger says then.
    """
    storage = LocalStorage()
    (root,) = [path.parent.parent for path in folder.glob("*/_sluiceway/*") if path.is_dir()]
    (route,) = [path.name for path in (root / "_sluiceway").iterdir() if path.is_dir()]
    log = LedgerLog(storage, LedgerLayout(str(root), route))
    fold = log.fold()
    writer = LedgerWriter(log, fold, _give_up)
    writer.set_published()
    upkeep = LogUpkeep(writer)
    named = int(sum(state.files for state in fold.partitions.values()))
    tail = min(TAIL_RECORDS, max(0, files - named) // TAIL_FILES)
    long = files - named > FILES_A_RECORD
    while named < files - tail * TAIL_FILES:
        named += _commit_epoch(writer, source, min(FILES_A_RECORD, files - named))
        _keep_up(upkeep)
    while long and fold.next_seq - fold.snapshot_through > 1:
        # What stands behind the last snapshot are ordinary epochs.
        named += _commit_epoch(writer, source, 1)
        _keep_up(upkeep)
    for _ in range(tail):
        named += _commit_epoch(writer, source, TAIL_FILES)
    # Whether the last record's files were published nobody can say but a later record.
    _commit_epoch(writer, source, 0)
    return fold


def _keep_up(upkeep: LogUpkeep) -> None:
    while upkeep.due():
        upkeep.run()


def _commit_epoch(writer: LedgerWriter, source: MemorySource, files: int) -> int:
    """One DATA record, of the first source partition: a row a file, or one row filtered out."""
    fold = writer.fold
    (topic, number), known = min(fold.sources.items())
    attempt = f"{writer.term}-{fold.last_epoch + 1}-{os.urandom(16).hex()}"
    named = []
    for index in range(files):
        name = f"{writer.log.layout.route}-{attempt}-{index}.parquet"
        hour = f"{index % HOURS:02}"
        named.append(
            FileRecord(
                staged=f"{attempt}/{name}",
                final=f"dt=20261120/hr={hour}/{name}",
                values=("20261120", hour),
                rows=BigInt(1),
                size_bytes=BigInt(1),
                crc32c="0" * 8,
                bounds={"id": ("1000000000", "1000009999"), "ts": ("1795132800", "1795132899")},
            )
        )
    read = files or 1
    ends = RangeRecord(
        topic=topic,
        partition=number,
        cluster_id=known.cluster_id,
        topic_id=known.topic_id,
        start=BigInt(known.end),
        end=BigInt(known.end + read),
        rows=BigInt(read),
        gaps=BigInt(0),
        leader_epoch=None,
        max_event_time_us=None,
        offset_sum="0" * 32,
    )
    nothing = BigInt(0)
    rows = RowCounts(BigInt(read), BigInt(files), nothing, nothing, BigInt(read - files), nothing)
    record = DataRecord(fold.last_epoch + 1, (ends,), tuple(named), (), rows, "0" * 16, {}, {})
    writer.commit(record)
    writer.set_published()
    source.ends[SourcePartition(topic, number)] = known.end + read
    return files


def _give_up(attempts: int, error: StorageUnavailableError) -> None:
    del attempts
    raise error


def _told(step: Step) -> Step:
    _tell(json.dumps(asdict(step)))
    return step


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def growth_of(steps: Sequence[Step]) -> float:
    """Exponent with which the driver's time grows."""
    return growth_exponent([one.size for one in steps], [one.quiet_ms for one in steps])


def cpu_growth_of(steps: Sequence[Step]) -> float:
    """The same of the process's CPU from epoch to epoch, which a busy machine leaves alone."""
    return growth_exponent([one.size for one in steps], [one.cpu_ms for one in steps])


def result_of(parts: dict[str, list[Step]]) -> tuple[dict[str, object], bool]:
    """The closing line, and whether everything grows as it may.

    Args:
        parts: `partitions`, `routes`, `ledger_files`, each with at least two sizes.
    """
    line: dict[str, object] = {}
    fine = True
    for name, steps in parts.items():
        growth = growth_of(steps)
        line[name] = [one.size for one in steps]
        line[f"{name}_ms"] = [one.driver_ms for one in steps]
        line[f"{name}_growth"] = growth
        line[f"{name}_cpu_growth"] = cpu_growth_of(steps)
        fine = fine and growth <= (0.0 if name == "ledger_files" else 1.0) + NOISE
    last = parts["ledger_files"][-1]
    line["start_s"] = last.start_s
    fine = fine and last.start_s <= START_LIMIT_S
    return {**line, "load": round(os.getloadavg()[0], 1), "as_allowed": fine}, fine


def main() -> int:
    """Measure all three, print the closing line."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale")
    parser.add_argument("--partitions", default="4,100,1000,10000", help="rising")
    parser.add_argument("--routes", default="1,80,1000", help="rising")
    parser.add_argument("--files", default="1,1000,1000000", help="rising")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--results", type=Path, help="add the line to this file")
    given = parser.parse_args()
    end_tidily()

    def sizes(text: str) -> list[int]:
        return [int(size) for size in text.split(",")]

    parts = {
        "partitions": grow_partitions(sizes(given.partitions), given.epochs),
        "routes": grow_routes(sizes(given.routes), given.epochs),
        "ledger_files": grow_ledger(sizes(given.files), given.epochs),
    }
    line, fine = result_of(parts)
    if given.results:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        runs = {name: [asdict(one) for one in steps] for name, steps in parts.items()}
        with given.results.open("a") as lines:
            lines.write(json.dumps({"at": at, **line, "runs": runs}) + "\n")
    print(json.dumps(line))
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
