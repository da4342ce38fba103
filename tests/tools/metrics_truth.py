"""What the counters of a job have to say, from broker, table's files and ledger's JSON alone.

No code of the product: the rows by the independent reader, the rest by looking at files.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
from prometheus_client.parser import text_string_to_metric_families

from tools.independent_reader import Expectation, broker_records, check, table_view
from tools.row_oracle import BrokerRecord

Series = dict[tuple[str, ...], float]
"""Values of a metric's own labels, in the order of their names -> value."""

_BASE = frozenset({"job_name", "route", "table"})


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job of one route reads and writes.

    Attributes:
        root: Folder of the table.
        is_filtered: Whether the route's `where` leaves a record out.
    """

    bootstrap_servers: str
    metastore_uri: str
    table: str
    topic: str
    root: Path
    is_filtered: Callable[[BrokerRecord], bool]


def read_page(text: str, route: str = "") -> dict[str, Series]:
    """Samples of a page by name, `_bucket` left out.

    Args:
        text: As the endpoint answers.
        route: Only of this route, where a sample has one; empty takes all.
    """
    found: dict[str, Series] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.endswith("_bucket"):
                continue
            if route and sample.labels.get("route", route) != route:
                continue
            own = tuple(v for k, v in sorted(sample.labels.items()) if k not in _BASE)
            found.setdefault(sample.name, {})[own] = sample.value
    return found


def true_counters(place: Place) -> dict[str, Series]:
    """All counters of rows, files and epochs, and the counts of histograms that speak of rows."""
    records = list(broker_records(place.bootstrap_servers, [place.topic]))
    database, _, table = place.table.partition(".")
    view = table_view(place.metastore_uri, database=database, table=table)
    spec = Expectation(required=frozenset({"id", "ts"}), tombstones="skip")
    report = check(records, view, spec)
    late = _rows([str(p) for p in place.root.glob("_sluiceway/*/late/**/*.parquet")])
    filtered = sum(map(place.is_filtered, records))
    # What `where` leaves out and what came late is in no partition: the reader misses it.
    assert report.lost == filtered + late, report
    wrong = (report.doubled, report.altered, report.wrong_partition, report.unknown)
    assert wrong == (0, 0, 0, 0), report
    files = [Path(file.path) for file in view.files]
    data = _data_bodies(place.root)
    reasons = _reasons(view.dirty_files)
    assert sum(reasons.values()) == report.dirty
    return {
        "sluiceway_records_read_total": {(place.topic,): report.read},
        "sluiceway_bytes_read_total": {(place.topic,): sum(len(r.value or b"") for r in records)},
        "sluiceway_records_written_total": {(): report.written},
        "sluiceway_bytes_written_total": {(): sum(path.stat().st_size for path in files)},
        "sluiceway_files_written_total": {(): len(files)},
        "sluiceway_records_dirty_total": {(name,): rows for name, rows in reasons.items()},
        "sluiceway_records_late_total": {("side",): late},
        "sluiceway_records_filtered_total": {(): filtered},
        "sluiceway_records_skipped_total": {(): report.tombstones},
        "sluiceway_dirty_rows_open": {(): report.dirty},
        "sluiceway_write_failed_records_total": {(): 0},
        "sluiceway_write_failed_bytes_total": {(): 0},
        "sluiceway_duplicates_prevented_total": {(): 0},
        "sluiceway_commit_retries_total": {(): 0},
        "sluiceway_epochs_total": {("committed",): sum(bool(body["ranges"]) for body in data)},
        "sluiceway_source_lag_records": {(place.topic,): 0},
        "sluiceway_end_to_end_latency_seconds_count": {(): report.read},
        "sluiceway_archive_delay_seconds_count": {(): report.written + late},
    }


def differences(page: Mapping[str, Series], truth: Mapping[str, Series]) -> dict[str, object]:
    """Counters that say something else than the truth: what they say, and what is so."""
    return {
        name: (page.get(name), wanted)
        for name, wanted in truth.items()
        if _above_zero(page.get(name)) != _above_zero(wanted)
    }


def _above_zero(series: Series | None) -> Series | None:
    """What was counted; a page may say 0 of what never came."""
    return None if series is None else {labels: value for labels, value in series.items() if value}


def _rows(files: list[str]) -> int:
    if not files:
        return 0
    query = "SELECT count(*) FROM read_parquet(?, hive_partitioning=false)"
    (count,) = duckdb.execute(query, [files]).fetchall()[0]
    return int(count)


def _reasons(files: tuple[str, ...]) -> Counter[str]:
    if not files:
        return Counter()
    query = "SELECT reason, count(*) FROM read_parquet(?) GROUP BY reason"
    return Counter(dict(duckdb.execute(query, [list(files)]).fetchall()))


def _data_bodies(root: Path) -> list[dict[str, list[object]]]:
    """Bodies of the DATA records, as the log's files have them."""
    logs = sorted(root.glob("_sluiceway/*/log/*/*.json"))
    found = [json.loads(path.read_bytes()) for path in logs]
    return [record["body"] for record in found if record["type"] == "DATA"]
