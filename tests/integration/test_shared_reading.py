"""Routes of one topic on a real broker and metastore: read once, each exact; tasks in threads."""

import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sluiceway.errors import TableNotFoundError
from sluiceway.sources.contract import SourceBatch, Split, SplitReader
from sluiceway.sources.registry import SourceAccess, open_reader
from sluiceway.worker import bundle
from tools.job_files import event, write_routes
from tools.lab_fixture import TopicFactory
from tools.raw_metastore import raw_client
from tools.route_runs import RouteRun, running
from tools.topic_writer import TopicWriter
from tools.waiting import wait_for


class CountedReads:
    """Counts the rows that readers return, as `open_reader` does it else."""

    def __init__(self) -> None:
        self.rows = 0
        self._lock = threading.Lock()

    def open(self, access: SourceAccess, splits: list[Split], *, owner: str) -> SplitReader:
        reader = open_reader(access, splits, owner=owner)
        read = reader.read

        def counted(timeout_s: float) -> list[SourceBatch]:
            batches = read(timeout_s)
            with self._lock:
                self.rows += sum(len(batch.values) for batch in batches)
            return batches

        reader.read = counted  # type: ignore[method-assign]
        return reader


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> CountedReads:
    found = CountedReads()
    monkeypatch.setattr(bundle, "open_reader", found.open)
    return found


@pytest.fixture
def prefix() -> str:
    return f"s{uuid.uuid4().hex[:8]}"


MakeRun = Callable[[Sequence[str]], RouteRun]


@pytest.fixture
def make_run(
    bootstrap_servers: str, metastore_uri: str, new_topic: TopicFactory, tmp_path: Path, prefix: str
) -> tuple[str, MakeRun]:
    """A topic of two partitions, and jobs that fill these tables from it."""
    topic = new_topic(2)

    def make(names: Sequence[str]) -> RouteRun:
        routes = [f"  - {{topics: [{topic}], table: ods.{prefix}_{name}}}" for name in names]
        return RouteRun(
            write_routes(
                tmp_path,
                "\n".join(routes),
                bootstrap_servers=bootstrap_servers,
                metastore_uri=metastore_uri,
            )
        )

    return topic, make


def write(bootstrap_servers: str, topic: str, numbers: range) -> None:
    writer = TopicWriter(bootstrap_servers)
    for partition in range(2):
        writer.write(topic, [event(n) for n in numbers], partition=partition)


def assert_exact(run: RouteRun, names: Sequence[str], prefix: str, rows: int) -> None:
    for name in names:
        route = run.of(f"ods-{prefix}_{name}")
        assert route.rows() == [(p, n) for p in range(2) for n in range(rows)], name
        route.assert_verified()


def test_topic_is_read_once_for_all_its_tables_and_a_late_one_joins(
    make_run: tuple[str, MakeRun], bootstrap_servers: str, prefix: str, reads: CountedReads
) -> None:
    topic, make = make_run
    write(bootstrap_servers, topic, range(400))
    make(["a", "b"]).catch_up()
    assert reads.rows == 800
    # A new table reads what was there by itself, then what is new with the others.
    everyone = make(["a", "b", "c"])
    everyone.catch_up()
    assert reads.rows == 1600
    write(bootstrap_servers, topic, range(400, 500))
    everyone.catch_up()
    assert reads.rows == 1800
    assert_exact(everyone, ["a", "b", "c"], prefix, 500)


def rows_of(run: RouteRun, prefix: str, name: str) -> int:
    try:
        return len(run.of(f"ods-{prefix}_{name}").rows())
    except TableNotFoundError:
        return 0


def test_one_route_halts_and_one_lags_while_the_others_read_on(
    make_run: tuple[str, MakeRun],
    bootstrap_servers: str,
    metastore_uri: str,
    prefix: str,
    reads: CountedReads,
) -> None:
    topic, make = make_run
    write(bootstrap_servers, topic, range(300))
    make(["a", "b"]).catch_up()
    everyone, sound = make(["a", "b", "late"]), ("a", "late")
    with running(everyone) as ended:
        wait_for(lambda: rows_of(everyone, prefix, "late") == 600)
        with raw_client(metastore_uri) as client:
            client.drop_table("ods", f"{prefix}_b", deleteData=False)
        write(bootstrap_servers, topic, range(300, 400))
        wait_for(lambda: all(rows_of(everyone, prefix, name) == 800 for name in sound))
        rows = 400

        def are_read_once() -> bool:
            """More rows, which reach both tables; whether they were read once."""
            nonlocal rows
            before = reads.rows
            write(bootstrap_servers, topic, range(rows, rows + 100))
            rows += 100
            wait_for(lambda: {rows_of(everyone, prefix, name) for name in sound} == {2 * rows})
            return reads.rows - before == 200

        # The halted one takes no part. A commit that is slow may part the others for an epoch.
        wait_for(are_read_once)
    assert ended == []
    assert_exact(everyone, sound, prefix, rows)
