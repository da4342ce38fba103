"""Run the crash matrix; the last line of output is JSON.

python -m matrix                    every cell that is not green yet in bench/results/faults.jsonl
python -m matrix --smoke            a spread that meets every failpoint; keeps no results
python -m matrix --store s3         the same with tables on S3; hdfs likewise
python -m matrix --source rocketmq  a job on RocketMQ: points of its source and of its commits
python -m matrix --only PATTERN     cells whose name matches, whatever the results say
python -m matrix --list             names of the cells, and what the rules leave out
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from matrix.cells import Cell, all_cells, cross_product, queue_cells, smoke_cells
from matrix.drivers import DriverServer, driver_server
from matrix.experiment import Experiment, Outcome
from matrix.hours import told_hook
from matrix.stage import Stage
from matrix.stores import Store, opened, servers_of
from sluiceway.lab.lab import Lab, StoreServer
from tools.lab_fixture import running_lab
from tools.stores_under_test import StoreUnderTest

_ROOT = Path(__file__).resolve().parents[2]
ROCKETMQ = "rocketmq"
RESULTS = _ROOT / "bench/results/faults.jsonl"


@dataclass(frozen=True, slots=True)
class Kept:
    """The last result of a cell.

    Attributes:
        hit: The failpoint was met.
    """

    cell: str
    green: bool
    hit: bool
    seconds: float
    lost: int
    doubled: int
    altered: int
    commit: str = ""
    wrong: str = ""
    exit_code: int | None = None


def main() -> int:
    """Run what the arguments say; 0 when every cell of it is green."""
    given = _parse()
    store = Store(given.store)
    if given.source == ROCKETMQ:
        cells = queue_cells()
    else:
        cells = smoke_cells(store) if given.smoke else all_cells(store)
    if given.runner:
        cells = [cell for cell in cells if cell.spark is (given.runner == "spark")]
    if given.only:
        cells = [cell for cell in cells if fnmatchcase(cell.name, given.only)]
    if given.list:
        return _list(cells, store)
    results = None if given.smoke or given.only else RESULTS
    known = read_kept(results) if results else {}
    due = [cell for cell in cells if not (cell.name in known and known[cell.name].green)]
    # A run that is cut short has seen something of everything.
    due.sort(key=lambda cell: zlib.crc32(cell.name.encode()))
    began = time.monotonic()
    if due:
        known |= _run(due, results, given)
    print(f"{len(due)} cells in {time.monotonic() - began:.0f} s", file=sys.stderr)
    found = [known[cell.name] for cell in cells if cell.name in known]
    closing = closing_line(cells, found)
    print(json.dumps(closing))
    return int(closing["green"] < len(cells) or closing["hit"] < closing["failpoints"])


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", default="", help="shell pattern of cell names")
    parser.add_argument("--store", choices=[*Store], default=Store.LOCAL, help="of the tables")
    parser.add_argument(
        "--source", choices=("kafka", ROCKETMQ), default="kafka", help="of the rows"
    )
    parser.add_argument("--runner", choices=("local", "spark"), help="cells of this runner only")
    parser.add_argument("--jobs", type=int, default=3, help="cells at one time")
    parser.add_argument("--seconds", type=float, default=None, help="begin no cell after this time")
    parser.add_argument("--keep", type=Path, help="folder for the remains of red cells")
    given = parser.parse_args()
    if given.source == ROCKETMQ and (given.smoke or given.store != Store.LOCAL):
        parser.error("cells of RocketMQ have tables on local disks, and no smoke run")
    return given


def _list(cells: Sequence[Cell], store: Store) -> int:
    for cell in cells:
        print(cell.name)
    made, left_out = cross_product(store)
    print(json.dumps({"cells": len(cells), "product": len(made), "left_out": dict(left_out)}))
    return 0


def _run(due: Sequence[Cell], results: Path | None, given: argparse.Namespace) -> dict[str, Kept]:
    """Run cells side by side; one at most under Spark."""
    found: dict[str, Kept] = {}
    commit = _commit()
    stop_at = None if given.seconds is None else time.monotonic() + given.seconds
    with (
        tempfile.TemporaryDirectory(prefix="sluiceway-faults-") as scratch,
        _lab(Path(scratch) / "lab", _servers(given)) as lab,
        # Behind what a store puts into the environment.
        _environment(given.store, lab) as store,
        driver_server() as server,
        told_hook() as hook,
        ThreadPoolExecutor(given.jobs) as local,
        ThreadPoolExecutor(1) as spark,
    ):
        stage = Stage(lab.endpoints(), hook, store)
        if given.source == ROCKETMQ:
            stage.fill_queues()
        else:
            stage.fill()
        root = given.keep or Path(scratch) / "cells"
        root.mkdir(parents=True, exist_ok=True)

        def experiment(cell: Cell) -> Outcome | None:
            if stop_at is not None and time.monotonic() > stop_at:
                return None
            return _twice(cell, stage, server, root)

        waiting = [(spark if cell.spark else local).submit(experiment, cell) for cell in due]
        try:
            for done in as_completed(waiting):
                outcome = done.result()
                if outcome is not None:
                    kept = _kept(outcome, commit)
                    found[kept.cell] = kept
                    _tell(kept, len(found), len(due))
                    if results is not None:
                        keep(results, kept)
        finally:
            for one in waiting:
                one.cancel()
    return found


def _lab(folder: Path, servers: Sequence[StoreServer]) -> AbstractContextManager[Lab]:
    """A lab of the run's own: a stage's topics have the same names in every run."""
    return running_lab(folder, stores=servers)


def _servers(given: argparse.Namespace) -> tuple[StoreServer, ...]:
    more = (StoreServer.ROCKETMQ,) if given.source == ROCKETMQ else ()
    return (*servers_of(Store(given.store)), *more)


@contextmanager
def _environment(store: str, lab: Lab) -> Iterator[StoreUnderTest | None]:
    yield opened(Store(store), lab.endpoints())


def _twice(cell: Cell, stage: Stage, server: DriverServer, root: Path) -> Outcome:
    """A point that was not met in a run that was right is given a second chance, no other is."""
    outcome = Experiment(cell, stage, server, root).run()
    if not outcome.hit and not outcome.wrong:
        outcome = Experiment(cell, stage, server, root).run()
    return outcome


def _kept(outcome: Outcome, commit: str) -> Kept:
    report = outcome.report
    return Kept(
        cell=outcome.cell.name,
        green=outcome.green,
        hit=outcome.hit,
        seconds=round(outcome.seconds, 1),
        lost=report.lost,
        doubled=report.doubled,
        altered=report.altered,
        commit=commit,
        wrong=outcome.wrong[:2000],
        exit_code=outcome.exit_code,
    )


def _tell(kept: Kept, count: int, total: int) -> None:
    colour = "green" if kept.green else ("red" if kept.wrong else "missed")
    print(
        f"{count}/{total} {colour} {kept.cell} exit {kept.exit_code} {kept.seconds} s {kept.wrong}",
        flush=True,
    )


def keep(path: Path, kept: Kept) -> None:
    """Append a result."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:
        content = {name: getattr(kept, name) for name in kept.__slots__}
        stream.write(json.dumps(content) + "\n")


def read_kept(path: Path) -> dict[str, Kept]:
    """The last result of every cell."""
    if not path.exists():
        return {}
    found = [Kept(**json.loads(line)) for line in path.read_text().splitlines()]
    return {kept.cell: kept for kept in found}


def closing_line(cells: Sequence[Cell], found: Sequence[Kept]) -> dict[str, int]:
    """What the run has shown. A cell without a result is not green."""
    points = {cell.name: cell.point for cell in cells}
    return {
        "cells": len(cells),
        "green": sum(kept.green for kept in found),
        "failpoints": len(set(points.values())),
        "hit": len({points[kept.cell] for kept in found if kept.hit}),
        "lost": sum(kept.lost for kept in found),
        "doubled": sum(kept.doubled for kept in found),
        "altered": sum(kept.altered for kept in found),
    }


def _commit() -> str:
    """What is tested; `+` when the code differs from it."""
    git = ["git", "-C", str(_ROOT)]
    head = subprocess.run(
        [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "src", "tests"], check=False)
    return head.stdout.strip() + ("+" if changed.returncode else "")


if __name__ == "__main__":
    sys.exit(main())
