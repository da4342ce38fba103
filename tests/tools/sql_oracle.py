"""`make proofs NAME=sql-oracle`: SQL of a route against plain Spark SQL, row by row.

Random queries run over random rows as a route runs them: the untouched plan, after a data error the
guarded one, else by halving. The oracle is Spark itself: a row for which plain Spark SQL fails has
to be dirty, and all others have to be written as plain Spark SQL returns them. Where neither guard
nor halving finds all bad rows, a route halts; that query runs again over rows of which two fail.

What was written is compared with one plain job over those rows, which fails if one of them does. A
dirty row has to fail in a plain job of its own; rows that are alike in all that the query reads
share one.
"""

import argparse
import json
import random
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions

from sluiceway.driver.spark.session import start_context
from sluiceway.driver.spark.spark_sql import SparkSql
from sluiceway.driver.spark.sql_types import spark_type
from sluiceway.errors import SqlFailedError
from sluiceway.host.java import find_java
from sluiceway.jobfile.blocks.transform import SqlPlaces
from sluiceway.jobfile.compile.sql_rule import FunctionRule, SqlRule
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema
from tools.landed_epoch import land_epoch

DECODED = Schema(
    tuple(
        Field(name, parse_hive_type(kind))
        for name, kind in (
            ("id", "bigint"),
            ("a", "int"),
            ("b", "int"),
            ("s", "string"),
            ("arr", "array<int>"),
        )
    )
)
VALUES = (
    *("a + b", "a / b", "a % b", "a * 100000", "CAST(s AS INT)", "CAST(s AS DATE)"),
    *("element_at(arr, a)", "arr[b]", "try_divide(a, b)", "upper(s)", "length(s) / b"),
    *("CASE WHEN b = 0 THEN 0 ELSE a / b END", "coalesce(a, b)", "CAST(a AS TINYINT)"),
    *("CAST(s AS INT) + a / b", "if(a > 3, CAST(s AS INT), 0)", "size(arr)", "concat(s, a)"),
)
FILTERS = (
    "",
    "",
    "b <> 0",
    "a / b > 0",
    "CAST(s AS INT) > 2",
    "a > 2 AND 10 / b > 1",
    "s IS NOT NULL",
)
SOURCES = (
    *("input", "input", "input"),
    "(SELECT *, a / b AS q FROM input)",
    "(SELECT * FROM input WHERE b <> 0)",
    "(SELECT *, CAST(s AS INT) AS q FROM input WHERE a > 1)",
)
VIEWS = (
    *("", "", ""),
    " LATERAL VIEW explode(arr) v AS x",
    " LATERAL VIEW OUTER explode(arr) v AS x",
    " LATERAL VIEW posexplode(array(a, a / b)) v AS p, x",
)
JOINS = (
    *("", "", ""),
    " LEFT JOIN dims d ON d.k = i.a",
    " JOIN dims d ON d.k = i.a",
    " LEFT SEMI JOIN dims d ON d.k = i.b",
    " LEFT ANTI JOIN dims d ON d.k = i.b",
    " JOIN dims d ON d.k = i.a / i.b",
)
DIMS = [(number, f"d{number}") for number in range(0, 12, 2)] + [(2, "again")]


def picky(value: int | None) -> int | None:
    """A function of a user that does not like 7."""
    if value == 7:
        raise ValueError("seven")
    return None if value is None else value * 2


def random_query(rng: random.Random) -> str:
    """A query with a column `id`, that works row by row."""
    source, view, join, where = map(rng.choice, (SOURCES, VIEWS, JOINS, FILTERS))
    values = rng.sample(VALUES, rng.randint(1, 3))
    # It has no guard: each costs dozens of jobs.
    if rng.random() < 0.06:
        values.append("picky(a)")
    if " q " in source:
        values.append("q")
    columns = [f"{value} AS c{number}" for number, value in enumerate(values)]
    more = ["x"] if view else []
    more += ["d.name"] if join and "SEMI" not in join and "ANTI" not in join else []
    chosen = ", ".join(["id", *columns, *more])
    text = f"SELECT {chosen} FROM {source} i{join}{view}"  # noqa: S608 - of fixed parts
    return f"{text} WHERE {where}" if where else text


def random_row(rng: random.Random, number: int) -> dict[str, Any]:
    """A row of `input`, some of whose values make expressions fail."""
    texts = ["1", "22", "x7", "", "2026-11-20", None, "3"]
    lists = [[], None, [1], [4, 5, 6], [7, None]]
    return {
        "id": number,
        "a": rng.choice([None, 0, 1, 2, 3, 7, 300, 2_000_000_000]),
        "b": rng.choice([None, 0, 1, 1, 2, 2, 3]),
        "s": rng.choice(texts),
        "arr": rng.choice(lists),
    }


class Oracle:
    """Plain Spark SQL over single rows.

    Args:
        session: Session of the query.
        text: The query.
    """

    def __init__(self, session: SparkSession, text: str) -> None:
        self._session = session
        self.text = text
        self.written: dict[int, list[str]] = {}
        self.failed: set[int] = set()

    def judge_each(self, rows: Sequence[dict[str, Any]]) -> None:
        """Run the query over each row alone."""
        read = [
            each.name for each in DECODED.fields[1:] if re.search(rf"\b{each.name}\b", self.text)
        ]
        failed: set[str] = set()
        for row in rows:
            alike = shown({name: row[name] for name in read})
            if alike in failed:
                self.failed.add(row["id"])
                continue
            self.judge([row])
            if row["id"] in self.failed:
                failed.add(alike)

    def judge(self, rows: Sequence[dict[str, Any]]) -> None:
        """Run the query over rows; over fewer at a time where it fails."""
        if not rows:
            return
        try:
            found = self._frame(rows).collect()
        except (PySparkException, Py4JJavaError):
            # Java's own where the small table fails: Spark infers filters of it from those of rows.
            if len(rows) == 1:
                self.failed.add(rows[0]["id"])
                return
            middle = len(rows) // 2
            self.judge(rows[:middle])
            self.judge(rows[middle:])
            return
        for row in found:
            self.written.setdefault(row["id"], []).append(shown(row.asDict(recursive=True)))

    def _frame(self, rows: Sequence[dict[str, Any]]) -> DataFrame:
        names = [each.name for each in DECODED.fields]
        kinds = ", ".join(
            f"{each.name} {spark_type(each.type).simpleString()}" for each in DECODED.fields
        )
        values = [tuple(row[name] for name in names) for row in rows]
        self._session.createDataFrame(values, kinds).createOrReplaceTempView("input")
        return self._session.sql(self.text)


def shown(row: dict[str, Any]) -> str:
    """A row for comparison."""
    return json.dumps(row, default=str, sort_keys=True)


def check(engine: SparkSql, text: str, rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Compare one query over some rows; over fewer where it halts because too many fail."""
    picks = FunctionRule("picky", f"{__name__}:picky", "int", vectorised=False)
    rule = SqlRule(text, "UTC", (), (picks,), of_table=False, places=SqlPlaces())
    session = engine.session(rule)
    dims = functions.broadcast(session.createDataFrame(DIMS, "k int, name string"))
    dims.createOrReplaceTempView("dims")
    columns = engine.columns(rule, DECODED)
    made = Schema(tuple(Field(name, parse_hive_type(kind)) for name, kind in columns))
    oracle = Oracle(session, text)
    try:
        found = run(engine, rule, made, rows)
    except SqlFailedError:
        oracle.judge_each(rows)
        bad = [row for row in rows if row["id"] in oracle.failed]
        few = [row for row in rows if row not in bad[2:]]
        try:
            found = run(engine, rule, made, few)
        except SqlFailedError:
            if len(bad) < len(rows):
                raise
            # It fails over no row, because of the small table: nothing is written, nothing dirty.
            return {"checked": len(rows), "failing": len(rows), "halted": 1}
        return {**compare(oracle, found, few), "halted": 1}
    dirty = found.dirty
    oracle.judge([row for row in rows if row["id"] not in dirty])
    oracle.judge_each([row for row in rows if row["id"] in dirty])
    return compare(oracle, found, rows)


@dataclass(frozen=True)
class Found:
    """What a route makes of rows.

    Attributes:
        written: Id of a row -> what was written of it.
        dirty: Ids of dirty rows.
        by_guard: Whether the guarded plan has run.
    """

    written: dict[int, list[str]]
    dirty: set[int]
    by_guard: bool


def run(engine: SparkSql, rule: SqlRule, made: Schema, rows: Sequence[dict[str, Any]]) -> Found:
    """Run a query as a route does.

    Raises:
        SqlFailedError: Too many rows fail.
    """
    with tempfile.TemporaryDirectory(prefix="sql-oracle-") as folder:
        epoch = land_epoch(Path(folder), DECODED, made, rows)
        results = epoch.transformed(rule, engine)
        written: dict[int, list[str]] = {}
        for row in epoch.rows(results):
            written.setdefault(row["id"], []).append(shown(row))
        dirty = {rows[offset]["id"] for offset in epoch.dirty(results)}
    return Found(written, dirty, "sql_guarded" in epoch.log.getvalue())


def compare(oracle: Oracle, ours: Found, rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """How many rows are other than the oracle says; its rows are all judged."""
    written, dirty, text = ours.written, ours.dirty, oracle.text
    wrongly_written = [
        n for n in written if sorted(written[n]) != sorted(oracle.written.get(n, []))
    ]
    ids = {row["id"] for row in rows}
    lost = [n for n in oracle.written if n in ids and n not in written and n not in dirty]
    unseen = (oracle.failed & ids) - dirty - written.keys()
    found = {
        "checked": len(rows),
        "wrongly_written": len({*wrongly_written, *lost, *unseen}),
        "wrongly_dirty": len(dirty - oracle.failed),
        "failing": len(oracle.failed & ids),
        "by_guard": int(ours.by_guard),
    }
    if found["wrongly_written"] or found["wrongly_dirty"]:
        odd = {*wrongly_written, *lost, *unseen, *(dirty - oracle.failed)}
        sys.stderr.write(f"{text}\n  {[row for row in rows if row['id'] in odd][:3]}\n")
    return found


def main() -> None:
    """Run the proof at the sizes of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--checked", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no query after them")
    options = parser.parse_args()
    rng = random.Random(options.seed)  # noqa: S311 - a reproducible order
    settings = {"spark.ui.enabled": "false", "spark.default.parallelism": "1"}
    context, log = start_context("sql-oracle", "local[2]", settings, find_java())
    engine = SparkSql(context, "sql-oracle")
    total: dict[str, int] = {}
    end_s = time.monotonic() + options.seconds
    while total.get("checked", 0) < options.checked and time.monotonic() < end_s:
        text = random_query(rng)
        rows = [random_row(rng, number) for number in range(options.rows)]
        for name, count in check(engine, text, rows).items():
            total[name] = total.get(name, 0) + count
        sys.stderr.write(f"{json.dumps(total)}\n")
    context.stop()
    log.unlink(missing_ok=True)
    sys.stdout.write(json.dumps(total) + "\n")
    if total["wrongly_written"] or total["wrongly_dirty"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
