"""Keyed lake tables: ours and Flink's upsert sink of Iceberg, on the same stream of changes.

Changes are in Debezium's form (`cdc_changes`), tables in one REST catalog. Two parts:

Catching up  A topic with few and one with many changes behind the same first rows. Each engine
             takes in both, one after the other, a snapshot every 10 s: CPU and wall of its whole
             process tree (`process_tree`), as the slope between the two.
An hour      Simulated fast: rows are loaded, then 3,000 changes a second arrive for as many
             seconds as an hour has snapshots of 30 s. Both engines read them at the same time, a
             snapshot a second. Then Spark scans both tables and one with the same rows that it
             has just written, by turns. What was written is counted on disk: data, deletes and
             our change files, each file once; metadata apart, as much as is left of it.

Flink's table has no columns of the record's place, which ours needs. A run counts only when every
table was read back and holds what the rule says.

`python -m bench.cdc_compare [--small 200000] [--large 1000000] [--epochs 120]` ends with one JSON
line.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError

from bench.cdc_changes import HELD_SQL, ChangeProducer, ChangeStream, Held
from bench.cdc_engines import (
    ENGINES,
    FLINK,
    OURS,
    end_ours,
    flink_statements,
    run_flink_upsert,
    write_our_job,
)
from bench.check_output import WrongOutputError
from bench.figures import ratio, slope_of
from bench.kept_line import kept_line
from bench.lake_readers import SparkBeside
from bench.lake_runs import NAMESPACE, NATIVE, Servers, lake_servers, run_job
from bench.ours import json_engine_missing
from bench.process_tree import TreeUsage
from bench.standard_events import create_topic
from bench.tidy_end import end_tidily

TOPIC_PARTITIONS = 4
CATCHING_UP, HOUR = "10s", "1s"
CHANGES_A_SECOND = 3_000
SEED = 22
FRESH = "fresh"
SCANS = 5
FLINK_SCANS = 2
POLL_S = 0.2
PATIENCE_S = 300.0
_STEPS_A_SECOND = 10
_HELD_NUMBERS = 6


@dataclass(frozen=True, slots=True)
class Written:
    """Bytes that stand on disk for a table and its ledger."""

    data: int
    metadata: int


@dataclass(frozen=True, slots=True)
class Layout:
    """A table, as its newest snapshot has it."""

    snapshots: int
    data_files: int
    delete_files: int


@dataclass(frozen=True, slots=True)
class Hour:
    """What the changes of an hour have made; each by engine."""

    held: Held
    changes: int
    changed_bytes: int
    written: Mapping[str, Written]
    usage: Mapping[str, TreeUsage]
    layout: Mapping[str, Layout]


class Comparison:
    """One run: servers are there, tables are made."""

    def __init__(self, servers: Servers, folder: Path) -> None:
        self._servers, self._folder = servers, folder
        self._spark_catalog = {"type": "rest", "uri": servers.catalog}

    def catching_up(self, rows: int, counts: tuple[int, int]) -> dict[str, list[TreeUsage]]:
        """Take in both topics with each engine.

        Raises:
            WrongOutputError: A run failed, or its table is not what the rule says.
        """
        runs: dict[str, list[TreeUsage]] = {engine: [] for engine in ENGINES}
        expected = []
        for count in counts:
            topic = f"changes-{count}"
            held, ends = self._fill(topic, rows, count)
            for engine in ENGINES:
                table = f"{engine}_{count}"
                runs[engine].append(self._catch_up(engine, topic, table, ends))
                expected.append((table, held))
        with SparkBeside(self._spark_catalog) as spark:
            for table, held in expected:
                _scan(spark, table, held)
        return runs

    def _fill(self, topic: str, rows: int, count: int) -> tuple[Held, list[int]]:
        began_s = time.monotonic()
        create_topic(self._servers.broker, topic, partitions=TOPIC_PARTITIONS)
        stream = ChangeStream(rows, SEED)
        producer = ChangeProducer(self._servers.broker, topic, TOPIC_PARTITIONS)
        ends = [0] * TOPIC_PARTITIONS
        for made in (stream.snapshot(), stream.changes(count)):
            for change in made:
                producer.send(change)
                ends[change.key % TOPIC_PARTITIONS] += 1
        producer.finish()
        _tell(f"{topic}: {sum(ends)} records in {time.monotonic() - began_s:.0f} s")
        return stream.held(), ends

    def _catch_up(self, engine: str, topic: str, table: str, ends: list[int]) -> TreeUsage:
        folder = self._folder / table
        if engine == OURS:
            job = write_our_job(self._servers, topic, table, CATCHING_UP, folder)
            usage = run_job(job, NATIVE, "--until-caught-up")
        else:
            sql = flink_statements(self._servers, topic, table, ends)
            usage = run_flink_upsert(self._servers, sql, folder, checkpoints=CATCHING_UP)
        _tell(f"{table}: {usage.cpu_s:.1f} CPU s, {usage.wall_s:.1f} s")
        return usage

    def hour(self, rows: int, epochs: int) -> Hour:
        """Let both read the same changes as they come, a snapshot a second.

        Raises:
            WrongOutputError: One failed, or does not come to the end.
        """
        topic, count = "hour", CHANGES_A_SECOND * epochs
        create_topic(self._servers.broker, topic, partitions=TOPIC_PARTITIONS)
        stream = ChangeStream(rows, SEED)
        producer = ChangeProducer(self._servers.broker, topic, TOPIC_PARTITIONS)
        ends = [0] * TOPIC_PARTITIONS
        # Flink ends by itself where the last change will be.
        for made in (stream.snapshot(), ChangeStream(rows, SEED).changes(count)):
            for change in made:
                ends[change.key % TOPIC_PARTITIONS] += 1
        for change in ChangeStream(rows, SEED).snapshot():
            producer.send(change)
        producer.finish()
        tables = {engine: f"{engine}_hour" for engine in ENGINES}
        job = write_our_job(self._servers, topic, tables[OURS], HOUR, self._folder / tables[OURS])
        sql = flink_statements(self._servers, topic, tables[FLINK], ends)
        with ThreadPoolExecutor(len(ENGINES)) as threads:
            running = {
                OURS: threads.submit(run_job, job, NATIVE),
                FLINK: threads.submit(
                    run_flink_upsert,
                    self._servers,
                    sql,
                    self._folder / tables[FLINK],
                    checkpoints=HOUR,
                ),
            }
            self._wait_until(running, lambda: all(self._rows(t) >= rows for t in tables.values()))
            before = {engine: self._written(table) for engine, table in tables.items()}
            changed_bytes = self._pace(stream, producer, count)
            self._wait_until(running, lambda: self._ends(tables[OURS], topic) == ends)
            usage = {OURS: end_ours(job, running[OURS], PATIENCE_S)}
            usage[FLINK] = running[FLINK].result(PATIENCE_S)
        after = {engine: self._written(table) for engine, table in tables.items()}
        return Hour(
            stream.held(),
            count,
            changed_bytes,
            {
                engine: Written(after[engine].data - before[engine].data, after[engine].metadata)
                for engine in ENGINES
            },
            usage,
            {engine: self._layout(table) for engine, table in tables.items()},
        )

    def _pace(self, stream: ChangeStream, producer: ChangeProducer, count: int) -> int:
        """Send changes at their rate; the bytes that the database changed."""
        began_s, step = time.monotonic(), CHANGES_A_SECOND // _STEPS_A_SECOND
        changed = 0
        for number in range(count // step):
            for change in stream.changes(step):
                producer.send(change)
                changed += change.changed_bytes
            wait_s = began_s + (number + 1) / _STEPS_A_SECOND - time.monotonic()
            time.sleep(max(0.0, wait_s))
        producer.finish()
        _tell(f"{count} changes sent in {time.monotonic() - began_s:.1f} s")
        return changed

    def scans(self, hour: Hour) -> dict[str, list[float]]:
        """Scan the tables of the hour by turns, and one that was written anew; seconds of each.

        Raises:
            WrongOutputError: A table does not hold what the rule says.
        """
        ours, fresh = f"{OURS}_hour", FRESH
        with SparkBeside(self._spark_catalog) as spark:
            name = f"lake.{NAMESPACE}.{fresh}"
            made = f"CREATE TABLE {name} USING iceberg AS SELECT * FROM lake.{NAMESPACE}.{ours}"  # noqa: S608
            spark.ask(made)
            # What the first scan of a session costs is none of a table's.
            for table in (ours, fresh):
                _scan(spark, table, hour.held)
            took: dict[str, list[float]] = {OURS: [], FRESH: [], FLINK: []}
            for _ in range(SCANS):
                for table, of in ((ours, OURS), (fresh, FRESH)):
                    took[of].append(_scan(spark, table, hour.held))
            for _ in range(FLINK_SCANS):
                took[FLINK].append(_scan(spark, f"{FLINK}_hour", hour.held))
        return took

    def _wait_until(
        self, running: Mapping[str, Future[TreeUsage]], holds: Callable[[], bool]
    ) -> None:
        began_s = time.monotonic()
        while not holds():
            for engine, one in running.items():
                if one.done() and (engine == OURS or one.exception() is not None):
                    raise WrongOutputError(f"{engine} ended: {one.exception()}")
            if time.monotonic() - began_s > PATIENCE_S:
                raise WrongOutputError("an engine does not come to where it should be")
            time.sleep(POLL_S)

    def _catalog(self) -> Catalog:
        return load_catalog("lake", type="rest", uri=self._servers.catalog)

    def _summary(self, table: str) -> Mapping[str, str]:
        try:
            snapshot = self._catalog().load_table(f"{NAMESPACE}.{table}").current_snapshot()
        except NoSuchTableError:
            return {}
        told = None if snapshot is None else snapshot.summary
        return {} if told is None else told.additional_properties

    def _rows(self, table: str) -> int:
        return int(self._summary(table).get("total-records", 0))

    def _ends(self, table: str, topic: str) -> list[int]:
        """Up to where our table tells the topic."""
        reached = [0] * TOPIC_PARTITIONS
        for snapshot in self._catalog().load_table(f"{NAMESPACE}.{table}").snapshots():
            told = {} if snapshot.summary is None else snapshot.summary.additional_properties
            parts = json.loads(told.get("sluiceway.offsets", "{}")).get(topic, {})
            for number, end in parts.items():
                reached[int(number)] = max(reached[int(number)], int(end))
        return reached

    def _layout(self, table: str) -> Layout:
        held = self._catalog().load_table(f"{NAMESPACE}.{table}")
        told = self._summary(table)
        return Layout(
            len(held.metadata.snapshots),
            int(told["total-data-files"]),
            int(told["total-delete-files"]),
        )

    def _written(self, table: str) -> Written:
        """What stands on disk; a file with two names counts once."""
        location = Path(
            self._catalog().load_table(f"{NAMESPACE}.{table}").location().removeprefix("file://")
        )
        ledgers = (location.parent / "_sluiceway").glob(f"{location.name}-*")
        data: dict[int, int] = {}
        metadata = 0
        for top in (location, *ledgers):
            for at in top.rglob("*"):
                try:
                    held = at.stat()
                except FileNotFoundError:
                    continue
                if not at.is_file():
                    continue
                if at.parent == location / "metadata":
                    metadata += held.st_size
                else:
                    data[held.st_ino] = held.st_size
        return Written(sum(data.values()), metadata)


def _scan(spark: SparkBeside, table: str, held: Held) -> float:
    """Read every column of a table and compare; seconds.

    Raises:
        WrongOutputError: It holds something else.
    """
    began_s = time.monotonic()
    (row,) = spark.ask(HELD_SQL.format(table=f"lake.{NAMESPACE}.{table}"))
    took_s = time.monotonic() - began_s
    wanted = [held.rows, held.ids, held.quantities, held.cents, held.updated_ms, held.note_letters]
    if row[:_HELD_NUMBERS] != wanted:
        raise WrongOutputError(f"{table}: {row[:_HELD_NUMBERS]} instead of {wanted}")
    _tell(f"{table}: {held.rows} rows as they should be, read in {took_s:.2f} s")
    return took_s


def closing(
    counts: tuple[int, int],
    runs: Mapping[str, list[TreeUsage]],
    hour: Hour,
    scans: Mapping[str, list[float]],
) -> dict[str, Any]:
    """The figures of the closing line.

    Args:
        counts: Changes of the small and of the large topic.
        runs: Of each engine, the small one and the large one.
        hour: What the changes of an hour made.
        scans: Seconds of each table.
    """
    slopes = {engine: slope_of(counts, [[each] for each in runs[engine]]) for engine in ENGINES}
    read_s = {name: round(statistics.median(took), 3) for name, took in scans.items()}
    # Fewer scans of the other engine's table: the quicker one counts.
    read_s[FLINK] = round(min(scans[FLINK]), 3)
    return {
        "changes": list(counts),
        "cpu_us": {engine: slope.cpu_us_per_record for engine, slope in slopes.items()},
        "cpu_ratio": ratio(slopes[FLINK].cpu_us_per_record, slopes[OURS].cpu_us_per_record),
        "kchanges_s": {e: round(slope.records_per_s / 1000, 1) for e, slope in slopes.items()},
        "hour_changes": hour.changes,
        "hour_cpu_s": {engine: round(hour.usage[engine].cpu_s, 1) for engine in ENGINES},
        "rows": hour.held.rows,
        "snapshots": {engine: hour.layout[engine].snapshots for engine in ENGINES},
        "data_files": {engine: hour.layout[engine].data_files for engine in ENGINES},
        "delete_files": {engine: hour.layout[engine].delete_files for engine in ENGINES},
        "scan_s": read_s,
        "scan_ratio_flink": ratio(read_s[FLINK], read_s[OURS]),
        "scan_to_fresh": ratio(read_s[OURS], read_s[FRESH]),
        "written_per_changed_byte": {
            engine: round(hour.written[engine].data / hour.changed_bytes, 3) for engine in ENGINES
        },
        "metadata_mb": {
            engine: round(hour.written[engine].metadata / 1e6, 1) for engine in ENGINES
        },
        # A table that was found wrong never comes here.
        "verified": True,
    }


def measure(given: argparse.Namespace, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """All of it, in a lab of its own; the closing figures, and the runs they are made of.

    Raises:
        WrongOutputError: A run failed, or its table is not what the rule says.
    """
    with lake_servers(folder) as asked:
        comparison = Comparison(asked, folder)
        counts = (given.small, given.large)
        hour = comparison.hour(given.rows, given.epochs)
        scans = comparison.scans(hour)
        runs = comparison.catching_up(given.rows, counts)
    parts = {
        "runs": {name: [asdict(each) for each in of_size] for name, of_size in runs.items()},
        "hour": asdict(hour),
        "scans": scans,
    }
    return closing(counts, runs, hour, scans), parts


def _tell(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Measure, keep a line in the results, print the closing one."""
    end_tidily()
    parser = argparse.ArgumentParser(prog="python -m bench.cdc_compare")
    parser.add_argument("--rows", type=int, default=300_000, help="with which a table begins")
    parser.add_argument("--small", type=int, default=200_000)
    parser.add_argument("--large", type=int, default=1_000_000)
    parser.add_argument("--epochs", type=int, default=120, help="seconds of the simulated hour")
    parser.add_argument("--results", type=Path, help="add a line to this file")
    given = parser.parse_args()
    if not 0 < given.small < given.large:
        parser.error("the large topic has to be larger than the small one")
    if json_engine_missing():
        parser.error("the native module is not installed: make native")
    began_s = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="cdc-compare-") as folder:
            found, parts = measure(given, Path(folder))
    except WrongOutputError as error:
        _tell(f"no measurement: {error}")
        return 1
    found["load"] = round(os.getloadavg()[0], 1)
    _tell(f"took {time.monotonic() - began_s:.0f} s")
    if given.results is not None:
        with given.results.open("a") as lines:
            lines.write(kept_line(found, **parts))
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
