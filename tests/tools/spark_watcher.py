"""A reader on Spark that looks at a table again and again, and notes each thing it has seen.

    python -m tools.spark_watcher METASTORE_URI TABLE        until its standard input ends

A line of JSON for each look that finds something else than the one before: by hour, how many rows
it has, how many different ids, and how many whose own time is of another hour.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[1]
_CONF = {
    "spark.sql.catalogImplementation": "hive",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
}
_QUERY = """
SELECT concat(dt, '/', hr), count(*), count(DISTINCT _partition, _offset),
  count_if(date_format(timestamp_millis(ts), 'yyyyMMdd/HH') <> concat(dt, '/', hr))
FROM {table} GROUP BY 1
"""

Hours = dict[str, tuple[int, int, int]]
"""Rows, different ones and strays of each hour."""


class SparkWatcher:
    """A watcher in a process of its own, and what it has reported so far."""

    def __init__(self, process: "subprocess.Popen[str]", errors: Path) -> None:
        self._process = process
        self._errors = errors
        self._looks: list[Hours] = []
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def looks(self) -> list[Hours]:
        """Each thing that it has seen, in order; the first is a table that is not there.

        Raises:
            AssertionError: It has failed: a query of a user would have, too.
        """
        assert self._process.poll() is None, self._errors.read_text()[-3000:]
        return list(self._looks)

    def end(self) -> list[Hours]:
        """Have it end; all that it has seen."""
        assert self._process.stdin is not None
        self.looks()
        self._process.stdin.close()
        code = self._process.wait()
        self._thread.join()
        assert code == 0, self._errors.read_text()[-3000:]
        return list(self._looks)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._looks.append({hour: tuple(found) for hour, found in json.loads(line).items()})


@contextmanager
def spark_watcher(metastore_uri: str, table: str, folder: Path) -> Iterator[SparkWatcher]:
    """A watcher that begins to look once its Spark is up, and is gone after the block."""
    errors = folder / "watcher.log"
    command = [sys.executable, "-m", "tools.spark_watcher", metastore_uri, table]
    with (
        errors.open("w") as stream,
        subprocess.Popen(
            command,
            cwd=_TESTS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stream,
            text=True,
        ) as process,
    ):
        try:
            yield SparkWatcher(process, errors)
        finally:
            # Its JVM ends with it.
            process.kill()


def main() -> int:
    """Look until its input is closed."""
    from sluiceway.driver.spark.session import start_session  # noqa: PLC0415 - heavy, and here only
    from sluiceway.host.java import find_java  # noqa: PLC0415

    metastore_uri, table = sys.argv[1:]
    over = threading.Event()
    threading.Thread(target=_wait_for_end, args=(over,), daemon=True).start()
    conf = _CONF | {"spark.hadoop.hive.metastore.uris": metastore_uri}
    session, log = start_session("watcher", "local", conf, find_java())
    seen: object = None
    while not over.is_set():
        found: dict[str, list[int]] = {}
        if session.catalog.tableExists(table):
            session.catalog.refreshTable(table)
            rows = session.sql(_QUERY.format(table=table)).collect()
            found = {hour: list(counts) for hour, *counts in map(tuple, rows)}
        if found != seen:
            seen = found
            sys.stdout.write(json.dumps(found, sort_keys=True) + "\n")
            sys.stdout.flush()
    session.stop()
    log.unlink(missing_ok=True)
    return 0


def _wait_for_end(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


if __name__ == "__main__":
    sys.exit(main())
