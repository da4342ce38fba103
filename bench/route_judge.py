"""The independent reader over many tables: every row of every route once, unchanged."""

import dataclasses
import json
import multiprocessing
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import duckdb

from bench.route_topics import Topic

# The reader belongs to the tests and shares no code with the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from tools.independent_reader import (
    BrokerRecord,
    Expectation,
    Report,
    TableFile,
    TableView,
    broker_records,
    check,
    table_view,
)

META_COLUMNS = {
    "_topic": "string",
    "_partition": "int",
    "_offset": "bigint",
    "_timestamp": "timestamp",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a route's rows are looked for."""

    bootstrap_servers: str
    metastore_uri: str
    database: str
    warehouse: Path


def judge(place: Place, topics: Sequence[Topic]) -> Iterator[tuple[Topic, Report]]:
    """Read all tables and topics once, a few at a time, in processes of their own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        reports = pool.map(_judge_one, [place] * len(topics), topics)
        yield from zip(topics, reports, strict=True)


def all_faults(report: Report) -> int:
    """Everything that is wrong with a route, beyond lost and doubled rows."""
    names = (
        "altered", "wrong_partition", "uncovered_dirty", "broken_written", "unknown",
        "schema_errors",
    )  # fmt: skip
    counts = dataclasses.asdict(report)
    return sum(counts[name] for name in names)


def _judge_one(place: Place, topic: Topic) -> Report:
    expectation = Expectation(
        required=frozenset({"id", "ts"}), partition_by=topic.partition_by(), tombstones="dirty"
    )
    records: Iterable[BrokerRecord] = broker_records(place.bootstrap_servers, [topic.name])
    if topic.dropped:
        view = view_of_folder(place.warehouse / f"{place.database}.db" / topic.name, topic)
        ends = _ends(view)
        records = (each for each in records if each.offset < ends.get(each.partition, 0))
    else:
        view = table_view(place.metastore_uri, database=place.database, table=topic.name)
    return check(records, view, expectation)


def view_of_folder(root: Path, topic: Topic) -> TableView:
    """A table that the metastore no longer has, as its folders and its ledger show it.

    A route that halts because of it may have published a part of its last epoch.
    """
    keys = tuple(topic.partition_by())
    pattern = "/".join(["*=*"] * len(keys) + ["[!_.]*"])
    rows = {
        str(path.relative_to(root)): path for path in root.glob(pattern) if path.is_file()
    } | dict(_unpublished(root, topic.route, "files"))
    files = [
        TableFile(str(path), tuple(part.partition("=")[2] for part in final.split("/")[:-1]))
        for final, path in sorted(rows.items())
    ]
    published = root.glob("_sluiceway/*/dirty/**/*.parquet")
    staged = (path for _, path in _unpublished(root, topic.route, "dirty_files"))
    dirty = sorted(str(path) for path in (*published, *staged))
    return TableView({**topic.columns(), **META_COLUMNS}, keys, tuple(files), tuple(dirty))


def _unpublished(root: Path, route: str, named: str) -> Iterator[tuple[str, Path]]:
    """Final name and place of each committed file that is still staged.

    Args:
        root: The table's folder.
        route: Whose ledger.
        named: Under which key a record names them.
    """
    system = root / "_sluiceway" / route
    for record in sorted(system.glob("log/*/*.json")):
        for file in json.loads(record.read_bytes())["body"].get(named, ()):
            staged = system / "stage" / file["staged"]
            if not (root / file["final"]).exists() and staged.exists():
                yield file["final"], staged


def _ends(view: TableView) -> dict[int, int]:
    """How far the rows of a route that has halted go; below it none may be missing."""
    ends: dict[int, int] = {}
    for columns, files in (
        ('_partition, max("_offset")', [file.path for file in view.files]),
        ('"partition", max("offset")', list(view.dirty_files)),
    ):
        if files:
            relation = duckdb.read_parquet(files, hive_partitioning=False)
            key = columns.partition(",")[0]
            for partition, last in relation.aggregate(columns, key).fetchall():
                ends[partition] = max(ends.get(partition, 0), last + 1)
    return ends
