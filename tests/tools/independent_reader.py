"""Judges a table against the topics it came from, with no code of the product.

Own Kafka consumer, own JSON rules, own view of the metastore; DuckDB reads the files. Every
offset of the topics has to be exactly once in the table or among the dirty rows, every value,
partition and raw dirty row as this reader's own understanding of the payload says.

As a script it prints one JSON line and exits 0 when nothing is wrong, 1 otherwise.
"""

# ruff: noqa: S608 - the names in the SQL are quoted, and it runs in a database of our own.

import argparse
import dataclasses
import glob
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import duckdb
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from pymetastore.hive_metastore import ThriftHiveMetastore
from thrift.protocol import TBinaryProtocol
from thrift.transport import TSocket, TTransport

if not __package__:  # started as a script: PEP 366
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    __package__ = "tools"

from .lane_reader import replayed_rows, replayed_table
from .reset_reader import KNOWN, passage_table, passages
from .row_oracle import (
    KEYS,
    RAW_TYPES,
    BrokerRecord,
    Expectation,
    Expected,
    TableFile,
    TableView,
    expect,
)
from .sql_text import differs, literal, quoted, same

__all__ = [
    "DIRTY_TYPES",
    "BrokerRecord",
    "Expectation",
    "Report",
    "TableFile",
    "TableView",
    "broker_records",
    "check",
    "read_expectation",
    "table_view",
    "verify",
]

EXAMPLES = 3
IDLE_TIMEOUT_S = 30.0
REQUEST_TIMEOUT_S = 30
DIRTY_TYPES = RAW_TYPES | dict.fromkeys(
    ("stage", "reason", "path", "message", "schema_version"), pa.string()
)


@dataclass(frozen=True, slots=True)
class Report:
    """What was found. All but the first four are faults when they are not 0.

    Attributes:
        read: Records of the broker.
        written: Rows of the table.
        dirty: Dirty rows that no replay has read once more.
        tombstones: Records without a value where they are to be skipped: they may be nowhere.
        lost: Records that are neither in the table nor dirty, and that no RESET left out.
        doubled: Occurrences beyond the first, and beyond what a RESET asked for.
        altered: Rows of the table, or dirty rows, that differ from the record in any value.
        wrong_partition: Rows in a partition that is not that of their own event time.
        uncovered_dirty: Dirty rows whose payload is fine.
        broken_written: Rows of the table whose payload cannot be converted.
        unknown: Rows that no record of the broker explains.
        schema_errors: Files with a missing column or one of another type.
        details: A few examples of each fault.
    """

    read: int = 0
    written: int = 0
    dirty: int = 0
    tombstones: int = 0
    lost: int = 0
    doubled: int = 0
    altered: int = 0
    wrong_partition: int = 0
    uncovered_dirty: int = 0
    broken_written: int = 0
    unknown: int = 0
    schema_errors: int = 0
    details: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True when nothing is wrong."""
        return not self.details and not any(dataclasses.astuple(self)[4:-1])

    def line(self) -> str:
        """The counts as one line of JSON."""
        counts = dataclasses.asdict(self)
        del counts["details"]
        return json.dumps(counts)


# ---- comparing -----------------------------------------------------------------------------


def check(
    records: Iterable[BrokerRecord], view: TableView, expectation: Expectation | None = None
) -> Report:
    """Compare the broker's records with the files of a table.

    Args:
        records: All records of the topics, in any order.
        view: The table.
        expectation: What the job file says; None is the demo's.
    """
    spec = expectation or Expectation()
    expected = expect(records, view, spec)
    with duckdb.connect() as connection:
        comparison = Comparison(connection, view, spec)
        comparison.load(expected)
        return comparison.report(expected)


class Comparison:
    """The comparison of one table, in one DuckDB connection.

    Relations: `fine` and `broken` (what the broker has), `t` (the table's rows), `d` (the dirty
    rows), `occurrences` (how often each offset is in `t` and `d`).
    """

    def __init__(self, connection: Any, view: TableView, spec: Expectation) -> None:
        self._connection = connection
        self._view = view
        roles = {role: name for name, role in spec.meta.items()}
        self._keys = [roles[key] for key in KEYS]
        self._details: list[str] = []
        self._schema_errors = 0
        connection.execute("SET TimeZone = 'UTC'")

    def load(self, expected: Expected) -> None:
        """Make all relations."""
        connection = self._connection
        connection.register("fine", expected.fine)
        connection.register(
            "broken", expected.broken.rename_columns([f"#{name}" for name in RAW_TYPES])
        )
        values = [*zip(*(file.values for file in self._view.files), strict=True)] or [
            () for _ in self._view.partition_keys
        ]
        paths = [file.path for file in self._view.files]
        files = [pa.array(column, pa.string()) for column in (paths, *values)]
        connection.register("files", pa.table(files, names=["#path", *self._view.partition_keys]))
        fine_types = self._types("SELECT * FROM fine")
        columns = {name: fine_types[name] for name in self._view.columns}
        keys = "".join(f", f.{quoted(name)}" for name in self._view.partition_keys)
        self._scan("rows_of_files", sorted(set(paths)), columns)
        connection.execute(
            f'CREATE TEMP TABLE t AS SELECT r.* EXCLUDE ("#path", "#row"){keys} '
            'FROM rows_of_files r JOIN files f USING ("#path")'
        )
        connection.register("no_dirty", pa.schema(list(DIRTY_TYPES.items())).empty_table())
        self._scan("d", self._view.dirty_files, self._types("SELECT * FROM no_dirty"))
        connection.register("replayed", replayed_table(self._view.replayed))
        connection.execute(
            "DELETE FROM d USING replayed r "
            'WHERE d."#path" = r.path AND d."#row" >= r.low AND d."#row" < r.high'
        )
        table_keys = ", ".join(map(quoted, self._keys))
        connection.execute(
            "CREATE TEMP TABLE occurrences AS SELECT *, count(*) AS n FROM ("
            f'SELECT {table_keys} FROM t UNION ALL SELECT topic, "partition", "offset" FROM d'
            ') AS a("#topic", "#partition", "#offset") GROUP BY ALL'
        )
        broker_keys = ", ".join(quoted(f"#{key}") for key in KEYS)
        connection.execute(
            f"CREATE TEMP TABLE offsets_of_broker AS SELECT {broker_keys} FROM fine "
            f"UNION ALL SELECT {broker_keys} FROM broken"
        )
        connection.register("passages", passage_table(self._view.passages))
        connection.execute(f"CREATE TEMP TABLE known AS {KNOWN}")

    def report(self, expected: Expected) -> Report:
        """Count all faults; called once, after `load`."""
        on_t, on_d = ("t", self._keys), ("d", list(KEYS))
        matched = " AND ".join(f'occurrences."#{key}" = known."#{key}"' for key in KEYS)
        occurrences = f"occurrences ANTI JOIN known ON {matched}"
        times = f"known LEFT JOIN occurrences ON {matched} WHERE coalesce(n, 0) < wanted"
        over = f"occurrences LEFT JOIN known ON {matched} WHERE n > coalesce(wanted, 1)"
        return Report(
            read=len(expected.fine) + len(expected.broken) + expected.tombstones,
            written=self._number("SELECT count(*) FROM t"),
            dirty=self._number("SELECT count(*) FROM d"),
            tombstones=expected.tombstones,
            lost=self._fault("lost", times, count="sum(wanted - coalesce(n, 0))", of="known"),
            doubled=self._fault(
                "doubled", over, count="sum(n - coalesce(wanted, 1))", of="occurrences"
            ),
            altered=self._altered_rows() + self._altered_dirty(),
            wrong_partition=self._wrong_partition(),
            uncovered_dirty=self._fault("uncovered_dirty", self._join(*on_d, "fine")),
            broken_written=self._fault("broken_written", self._join(*on_t, "broken")),
            unknown=self._fault("unknown", occurrences, count="sum(n)"),
            schema_errors=self._schema_errors,
            details=tuple(self._details),
        )

    def _altered_rows(self) -> int:
        kinds = self._types("SELECT * FROM fine")
        conditions = [differs(quoted(name), kinds[name]) for name in self._view.columns]
        base = self._join("t", self._keys, "fine")
        altered = self._fault("altered", f"{base} WHERE {' OR '.join(conditions)}")
        if altered:
            counts = ", ".join(f"count(*) FILTER ({text})" for text in conditions)
            found = self._connection.execute(f"SELECT {counts} FROM {base}").fetchone()
            named = dict(zip(self._view.columns, found, strict=True))
            self._details.append(f"altered columns: { {k: v for k, v in named.items() if v} }")
        return altered

    def _altered_dirty(self) -> int:
        conditions = [
            f"d.{quoted(name)} IS DISTINCT FROM broken.{quoted('#' + name)}"
            for name in RAW_TYPES
            if name != "headers"
        ]
        conditions.append('coalesce(d.headers, []) IS DISTINCT FROM broken."#headers"')
        conditions.append("coalesce(d.reason, '') = '' OR coalesce(d.stage, '') = ''")
        return self._fault(
            "altered dirty",
            f"{self._join('d', KEYS, 'broken')} WHERE {' OR '.join(conditions)}",
        )

    def _wrong_partition(self) -> int:
        moved = " OR ".join(
            f"t.{quoted(key)} IS DISTINCT FROM fine.{quoted(key)}"
            for key in self._view.partition_keys
        )
        base = self._join("t", self._keys, "fine")
        return self._fault("wrong_partition", f"{base} WHERE {moved or 'false'}")

    def _join(self, left: str, names: Sequence[str], right: str) -> str:
        return f"{left} JOIN {right} ON {same(left, right, names)}"

    def _number(self, sql: str) -> int:
        return int(self._connection.execute(sql).fetchone()[0] or 0)

    def _fault(self, name: str, relation: str, *, count: str = "count(*)", of: str = "") -> int:
        found = self._number(f"SELECT {count} FROM {relation}")
        if found:
            prefix = f"{of}." if of else ""
            keys = ", ".join(f'{prefix}"#{key}"' for key in KEYS)
            sql = f"SELECT {keys} FROM {relation} ORDER BY ALL LIMIT {EXAMPLES}"
            examples = self._connection.execute(sql).fetchall()
            self._details.append(f"{name}: {found}, such as {examples}")
        return found

    def _types(self, sql: str) -> dict[str, str]:
        described = self._connection.execute(f"DESCRIBE {sql}").fetchall()
        return {name: kind for name, kind, *_ in described}

    def _scan(self, relation: str, paths: Sequence[str], columns: Mapping[str, str]) -> None:
        """Create `relation` with these columns from the files, one select per file schema."""
        groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
        for path in paths:
            kinds = self._types(f"SELECT * FROM read_parquet({literal(path)})")
            if faults := [n for n, kind in columns.items() if not _fits(kinds.get(n), kind)]:
                self._schema_errors += 1
                self._details.append(f"schema of {path}: {faults}")
            groups.setdefault(tuple(kinds.items()), []).append(path)
        empty = ", ".join(f"NULL::{kind} AS {quoted(n)}" for n, kind in columns.items())
        nowhere = 'NULL::VARCHAR AS "#path", NULL::BIGINT AS "#row" WHERE false'
        selects = [f"SELECT {empty}, {nowhere}"]
        for signature, members in groups.items():
            kinds = dict(signature)
            names = ", ".join(_read_as(n, kinds.get(n), kind) for n, kind in columns.items())
            listed = ", ".join(map(literal, members))
            selects.append(
                f'SELECT {names}, "#path", file_row_number FROM read_parquet([{listed}], '
                "filename = '#path', file_row_number = true, hive_partitioning = false)"
            )
        self._connection.execute(f"CREATE TEMP TABLE {relation} AS {' UNION ALL '.join(selects)}")


def _fits(found: str | None, wanted: str) -> bool:
    """INT96 and zoned timestamps are the same instants as plain ones."""
    if wanted == "TIMESTAMP":
        return found in ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
    return found == wanted


def _read_as(name: str, found: str | None, wanted: str) -> str:
    column = quoted(name)
    if found is None:
        return f"NULL::{wanted}"
    if wanted == "TIMESTAMP" and _fits(found, wanted):
        return f"make_timestamp(epoch_us({column}))"
    return column if found == wanted else f"TRY_CAST({column} AS {wanted})"


# ---- the real broker and metastore ---------------------------------------------------------


def broker_records(bootstrap_servers: str, topics: Sequence[str]) -> Iterator[BrokerRecord]:
    """All committed records from the logs' starts to the ends of this moment."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "independent-reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.queue.backoff.ms": 5,
        }
    )
    try:
        ends: dict[tuple[str, int], int] = {}
        positions: list[TopicPartition] = []
        for topic in topics:
            found = consumer.list_topics(topic, timeout=REQUEST_TIMEOUT_S).topics[topic]
            if found.error is not None:
                raise KafkaException(found.error)
            for partition in found.partitions:
                start, end = consumer.get_watermark_offsets(
                    TopicPartition(topic, partition), timeout=REQUEST_TIMEOUT_S
                )
                if start < end:
                    ends[topic, partition] = end
                    positions.append(TopicPartition(topic, partition, start))
        consumer.assign(positions)
        yield from _until(consumer, ends)
    finally:
        consumer.close()


def _until(consumer: Consumer, ends: dict[tuple[str, int], int]) -> Iterator[BrokerRecord]:
    """Consume until every partition reached its end; `ends` empties."""
    heard = time.monotonic()
    while ends:
        messages = consumer.consume(10_000, timeout=0.5)
        if messages:
            heard = time.monotonic()
        elif time.monotonic() - heard > IDLE_TIMEOUT_S:
            raise TimeoutError(f"the broker fell silent before the ends {ends}")
        for message in messages:
            log = (message.topic(), message.partition())
            error = message.error()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                ends.pop(log, None)
                continue
            offset = message.offset()
            if log not in ends or offset >= ends[log]:
                ends.pop(log, None)
                continue
            if offset + 1 == ends[log]:
                del ends[log]
            kind, moment = message.timestamp()
            yield BrokerRecord(
                log[0],
                log[1],
                offset,
                moment if kind else None,
                message.key(),
                message.value(),
                tuple(message.headers() or ()),
            )


def _local(location: str, at: tuple[str, Path] | None) -> Path:
    """Folder of a location; metastores write paths as they are, without percent coding."""
    if at is not None and f"{location}/".startswith(f"{at[0]}/"):
        return at[1] / location[len(at[0]) :].lstrip("/")
    if location.startswith("file:"):
        location = "/" + location.removeprefix("file:").lstrip("/")
    return Path(location)


def _data_files(folder: Path, values: tuple[str, ...]) -> list[TableFile]:
    if not folder.is_dir():
        return []
    return [
        TableFile(str(path), values)
        for path in sorted(folder.iterdir())
        if path.is_file() and not path.name.startswith(("_", "."))
    ]


def table_view(
    metastore_uri: str,
    *,
    database: str,
    table: str,
    dirty_glob: str | None = None,
    at: tuple[str, Path] | None = None,
) -> TableView:
    """The table as the metastore lists it, with the files of its partitions' folders.

    Args:
        metastore_uri: `thrift://host:port`.
        database: Its database.
        table: Its name.
        dirty_glob: Where the files of dirty rows are; None: next to the ledger.
        at: A location and the folder of this machine that holds what lies there.
    """
    address = urlsplit(metastore_uri)
    socket = TSocket.TSocket(address.hostname, address.port)
    socket.setTimeout(REQUEST_TIMEOUT_S * 1000)
    transport = TTransport.TBufferedTransport(socket)
    client = ThriftHiveMetastore.Client(TBinaryProtocol.TBinaryProtocol(transport))
    transport.open()
    try:
        found = client.get_table(database, table)
        keys = tuple(key.name for key in found.partitionKeys)
        partitions = client.get_partitions(database, table, -1) if keys else []
    finally:
        transport.close()
    root = _local(found.sd.location, at)
    files = [] if keys else _data_files(root, ())
    for partition in partitions:
        files += _data_files(_local(partition.sd.location, at), tuple(partition.values))
    if dirty_glob is None:
        dirty_files = [str(path) for path in root.glob("_sluiceway/*/dirty/**/*.parquet")]
    else:
        dirty_files = glob.glob(dirty_glob, recursive=True)  # noqa: PTH207 - may be absolute
    return TableView(
        {column.name: column.type for column in found.sd.cols},
        keys,
        tuple(files),
        tuple(sorted(dirty_files)),
        passages(root),
        replayed_rows(root),
    )


def verify(
    bootstrap_servers: str,
    metastore_uri: str,
    database: str,
    table: str,
    topics: Sequence[str],
    expectation: Expectation | None = None,
) -> Report:
    """Judge a table of a real metastore against topics of a real broker."""
    spec = expectation or Expectation()
    view = table_view(metastore_uri, database=database, table=table, dirty_glob=spec.dirty_glob)
    return check(broker_records(bootstrap_servers, topics), view, spec)


def read_expectation(path: Path | None, dirty_glob: str | None) -> Expectation:
    """Read an expectation from a JSON file whose keys are the attributes of `Expectation`."""
    given: dict[str, Any] = json.loads(path.read_text()) if path else {}
    if "required" in given:
        given["required"] = frozenset(given["required"])
    if "event_time" in given:
        given["event_time"] = tuple(given["event_time"].split("."))
    if "paths" in given:
        given["paths"] = {name: tuple(text.split(".")) for name, text in given["paths"].items()}
    return Expectation(**(given | ({"dirty_glob": dirty_glob} if dirty_glob else {})))


def main() -> int:
    """Read the arguments, verify, print the line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--metastore", required=True, help="thrift://host:port")
    parser.add_argument("--table", required=True, help="database.table")
    parser.add_argument("--topic", required=True, action="append")
    parser.add_argument("--spec", type=Path, help="JSON file with what the job file says")
    parser.add_argument("--dirty-glob", help="where the files of the dirty rows are")
    parser.add_argument(
        "--at",
        nargs=2,
        metavar=("LOCATION", "FOLDER"),
        help="of a table elsewhere: its location, and a folder here that holds its files",
    )
    given = parser.parse_args()
    database, _, table = given.table.rpartition(".")
    spec = read_expectation(given.spec, given.dirty_glob)
    view = table_view(
        given.metastore,
        database=database or "default",
        table=table,
        dirty_glob=spec.dirty_glob,
        at=(given.at[0], Path(given.at[1])) if given.at else None,
    )
    report = check(broker_records(given.bootstrap_servers, given.topic), view, spec)
    for detail in report.details:
        print(detail, file=sys.stderr)
    print(report.line())
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
