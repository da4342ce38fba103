"""The same job with its table on a local disk, on HDFS and on S3, in turn, in one run.

First CPU: in every round the job takes in a small and a large topic on each store, the order
changing from round to round. CPU is that of the whole process tree of the job, the stores' servers
not counted; a record costs the slope between the medians, as in `bench.compare`. Then freshness,
store after store: a steady load, and a reader that asks the metastore for partitions and the store
for their files, as `bench.freshness` has it. Each table is compared with what was sent.

`python -m bench.stores` ends with one JSON line, and adds it to the results when it is told so; 1
is the exit code when a store costs more than 1.3 times a local disk, or half of the rows take
longer than 2.5 s.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from json import dumps
from pathlib import Path
from typing import Any, BinaryIO

from bench.check_output import WrongOutputError
from bench.figures import ratio, slope_of
from bench.freshness import Elsewhere, Freshness, measure
from bench.in_turn import Runs, Setting, TablePlace, Turns, started, take_turns, tell
from bench.kept_line import kept_line
from bench.ours import JobChoices, OurRun, json_engine_missing, native_asked
from bench.parts import parts_us
from bench.tidy_end import end_tidily
from sluiceway.lab.lab import LabEndpoints, StoreServer

# Stores as tests see them belong to the tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from tools.stores_under_test import HdfsUnderTest, S3UnderTest, StoreUnderTest

LOCAL = "local"
STORES = (LOCAL, "hdfs", "s3")
RESULTS = Path(__file__).parent / "results" / "stores.jsonl"
TOPIC_PARTITIONS = 4
MOST_TIMES = 1.3
MOST_P50_S = 2.5


class _StoreFolders:
    """Folders of a store, by its own listings."""

    def __init__(self, store: StoreUnderTest) -> None:
        self._storage = store.open()

    def names(self, folder: str) -> list[str]:
        """See `Folders.names`."""
        return [each.path for each in self._storage.list(folder) if not each.is_dir]

    def open(self, path: str) -> BinaryIO:
        """See `Folders.open`."""
        return self._storage.open_read(path)


def _store(endpoints: LabEndpoints, kind: str) -> StoreUnderTest | None:
    """The store of a kind; None for a folder of this machine."""
    if kind == "hdfs" and endpoints.hdfs is not None:
        return HdfsUnderTest(endpoints.hdfs)
    if kind == "s3" and endpoints.s3 is not None:
        return S3UnderTest(endpoints.s3)
    return None


def _choices(interval_s: float, setting: Setting, kind: str) -> JobChoices:
    store = _store(setting.endpoints, kind)
    if store is None:
        return JobChoices(interval=f"{interval_s}s")
    os.environ.update(store.environment())
    return JobChoices(interval=f"{interval_s}s", connections=store.connection())


def _place(setting: Setting, kind: str, name: str) -> TablePlace:
    store, here = _store(setting.endpoints, kind), setting.folder / name
    if store is None:
        table = here / "table"
        return TablePlace(str(table), lambda: table, lambda: None)
    location = f"{store.root}/bench/{name}"
    files = partial(store.local_copy, location, here / "copy")
    return TablePlace(location, files, partial(store.open().remove, location))


def _freshness(setting: Setting, kind: str, given: argparse.Namespace) -> Freshness:
    store = _store(setting.endpoints, kind)
    elsewhere = None
    if store is not None:
        os.environ.update(store.environment())
        location = f"{store.root}/bench/fresh"
        copied = partial(store.local_copy, location, setting.folder / f"fresh-{kind}")
        elsewhere = Elsewhere(kind, location, store.connection(), _StoreFolders(store), copied)
    found = measure(
        setting.endpoints,
        setting.folder,
        interval_s=given.interval,
        rate=given.rate,
        seconds=given.fresh_seconds,
        elsewhere=elsewhere,
    )
    tell(f"fresh on {kind}: {dumps(asdict(found))}")
    return found


def run_all(given: argparse.Namespace) -> dict[str, Any]:
    """Run it; the closing figures.

    Raises:
        WrongOutputError: A run failed, or its table is not what was sent.
    """
    counts = (given.small, given.large)
    turns = Turns(
        STORES,
        partial(_choices, given.interval),
        TOPIC_PARTITIONS,
        stores=(StoreServer.HDFS, StoreServer.S3),
        place=_place,
    )
    with started(turns, counts) as setting:
        runs = take_turns(turns, setting, counts, given.rounds)
        fresh = {kind: _freshness(setting, kind, given) for kind in STORES}
    return {**closing(counts, runs, fresh), "load": round(os.getloadavg()[0], 1)}


def closing(counts: tuple[int, int], runs: Runs, fresh: dict[str, Freshness]) -> dict[str, Any]:
    """The figures of the closing line, from runs by store and size, and freshness by store."""
    usages = {kind: [[run.usage for run in of] for of in runs[kind]] for kind in STORES}
    slopes = {kind: slope_of(counts, usages[kind]) for kind in STORES}
    each = {kind: slopes[kind].cpu_us_per_record for kind in STORES}

    def of_all(figure: Callable[[Freshness], float]) -> dict[str, float]:
        return {kind: figure(fresh[kind]) for kind in STORES}

    return {
        "stores": list(STORES),
        "records": list(counts),
        "rounds": len(runs[LOCAL][1]),
        "native": native_asked(),
        "cpu_us": each,
        "cpu_ratio": {kind: ratio(each[kind], each[LOCAL]) for kind in STORES if kind != LOCAL},
        "krps": {kind: round(slopes[kind].records_per_s / 1000, 1) for kind in STORES},
        "append_to_readable_p50_s": of_all(lambda one: one.p50_s),
        "append_to_readable_p99_s": of_all(lambda one: one.p99_s),
        "interval_s": fresh[LOCAL].interval_s,
        "fresh_krps": of_all(lambda one: one.krps),
        "fresh_cpu_share": of_all(lambda one: one.cpu_share),
        "fresh_rows": of_all(lambda one: one.rows),
        "startup_cpu_s": {kind: slopes[kind].startup_cpu_s for kind in STORES},
        "cpu_s": {kind: [[used.cpu_s for used in of] for of in usages[kind]] for kind in STORES},
        "epochs": {kind: _epochs(runs[kind][1]) for kind in STORES},
        "parts_us": {kind: parts_us(counts, runs[kind]) for kind in STORES},
        "verified": True,
    }


def _epochs(runs: Sequence[OurRun]) -> list[int]:
    return [run.epochs for run in runs]


def is_within(found: dict[str, Any]) -> bool:
    """Whether a closing line keeps the bounds."""
    ratios = found["cpu_ratio"].values()
    cheap = all(each is not None and each <= MOST_TIMES for each in ratios)
    return cheap and all(p50 <= MOST_P50_S for p50 in found["append_to_readable_p50_s"].values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the closing line."""
    end_tidily()
    parser = argparse.ArgumentParser(prog="python -m bench.stores")
    parser.add_argument("--small", type=int, default=500_000)
    parser.add_argument("--large", type=int, default=2_500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--interval", type=float, default=2.0, help="of the epochs, s")
    parser.add_argument("--rate", type=int, default=5_000, help="rows a second, for freshness")
    parser.add_argument("--fresh-seconds", type=float, default=30.0, help="timed on each store")
    parser.add_argument("--keep", action="store_true", help="add the line to bench/results/")
    given = parser.parse_args(arguments)
    if not 0 < given.small < given.large:
        parser.error("the large topic has to be larger than the small one")
    if native_asked() and json_engine_missing():
        parser.error("the native module is not installed: make native")
    try:
        found = run_all(given)
    except WrongOutputError as error:
        tell(f"no measurement: {error}")
        return 1
    if given.keep:
        with RESULTS.open("a") as results:
            results.write(kept_line(found))
    print(dumps(found))
    return int(not is_within(found))


if __name__ == "__main__":
    sys.exit(main())
