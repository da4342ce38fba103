"""Routes that halted come back when the cause is gone, beside others that go on."""

import errno
import gc
import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from sluiceway.audit.job_status import job_status
from sluiceway.driver.status_board import StatusBoard
from sluiceway.driver.stop import StopSignal
from sluiceway.errors import TableNotFoundError, UnhealthyEnvironmentError
from sluiceway.followers.runner import FollowerRunner
from sluiceway.ledger.records import FenceRecord
from sluiceway.observe.log import stderr_log
from sluiceway.route.status import RouteState, RouteStatus
from sluiceway.storage.contract import StagedWriter
from sluiceway.storage.local import LocalStorage
from tools.job_files import event, write_routes
from tools.raw_metastore import raw_client
from tools.read_only import read_only
from tools.route_faults import wait_until
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

_TIMEOUT_S = 180.0


@dataclass(slots=True)
class Pair:
    """A job of two routes, one that is disturbed and one that has to go on."""

    job: RouteRun
    names: tuple[str, str]
    writer: TopicWriter
    board: StatusBoard

    @property
    def sick(self) -> RouteRun:
        return self.job.of(f"ods-{self.names[0]}")

    @property
    def well(self) -> RouteRun:
        return self.job.of(f"ods-{self.names[1]}")

    def write(self, *numbers: int, both: bool = True) -> None:
        for name in self.names if both else self.names[1:]:
            self.writer.write(name, [event(n) for n in numbers])

    def status(self) -> RouteStatus:
        seen = (s for s in self.board.snapshot() if s.route == f"ods-{self.names[0]}")
        return next(seen, RouteStatus())

    def has_halted(self, code: str) -> bool:
        return (self.status().state, self.status().code) == (RouteState.HALTED, code)

    def wait_for_rows(self, run: RouteRun, count: int) -> None:
        wait_until(lambda: offsets(run) == list(range(count)))

    @contextmanager
    def running(self) -> Iterator[None]:
        """The job runs beside the block and does not end before it."""
        stop, ended = StopSignal(), list[BaseException]()

        def drive() -> None:
            try:
                self.job.run_until(stop, board=self.board)
            except BaseException as error:  # noqa: BLE001 - handed to the test
                ended.append(error)

        driver = threading.Thread(target=drive)
        driver.start()
        try:
            yield
            assert driver.is_alive()
        finally:
            stop.ask()
            driver.join(_TIMEOUT_S)
        assert not driver.is_alive()
        assert ended == []


@pytest.fixture
def pair(
    bootstrap_servers: str,
    metastore_uri: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Pair:
    monkeypatch.setattr("sluiceway.driver.route_slot._FIRST_TRY_S", 0.3)
    monkeypatch.setattr("sluiceway.driver.route_slot._LONGEST_TRY_S", 1.0)
    prefix = f"c{uuid.uuid4().hex[:8]}"
    names = (f"{prefix}_sick", f"{prefix}_well")
    routes = "\n".join(f"  - {{topics: [{name}], table: ods.{name}}}" for name in names)
    job = write_routes(
        tmp_path, routes, bootstrap_servers=bootstrap_servers, metastore_uri=metastore_uri
    )
    return Pair(RouteRun(job), names, TopicWriter(bootstrap_servers), StatusBoard())


@pytest.fixture
def topics(bootstrap_servers: str) -> Callable[..., None]:
    """Creates topics, and deletes those of `gone`; returns when the broker says so."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})

    def change(*made: str, gone: tuple[str, ...] = ()) -> None:
        if made:
            for future in admin.create_topics([NewTopic(one, 1) for one in made]).values():
                future.result(_TIMEOUT_S)
        if gone:
            for future in admin.delete_topics(list(gone)).values():
                future.result(_TIMEOUT_S)
        wait_until(lambda: _shows(admin, made, gone))

    return change


def _shows(admin: AdminClient, made: tuple[str, ...], gone: tuple[str, ...]) -> bool:
    found = admin.list_topics(timeout=_TIMEOUT_S).topics
    leaders = [p.leader for one in made if one in found for p in found[one].partitions.values()]
    return len(leaders) == len(made) and min(leaders, default=0) >= 0 and not found.keys() & gone


def offsets(run: RouteRun) -> list[object]:
    """Of the table's rows, in order; none while there is no table."""
    try:
        return [offset for (offset,) in run.rows("_offset")]
    except TableNotFoundError:
        return []


def rename(uri: str, table: str, to: str) -> None:
    """The table is gone under its old name and is otherwise what it was."""
    with raw_client(uri) as client:
        found = client.get_table("ods", table)
        found.tableName = to
        client.alter_table("ods", table, found)


def has_table(uri: str, table: str) -> bool:
    with raw_client(uri) as client:
        return table in client.get_all_tables("ods")


def routes_at_work() -> int:
    """Routes whose followers have turns."""
    runners = (each for each in gc.get_objects() if isinstance(each, FollowerRunner))
    return sum(not each._closed for each in runners)


def has_given_back_its_lease(root: Path) -> bool:
    (path,) = root.glob("_sluiceway/*/lease.json")
    return bool(json.loads(path.read_bytes())["released"])


def test_route_whose_table_went_and_came_back_comes_back_with_all_rows(
    pair: Pair, topics: Callable[..., None], metastore_uri: str
) -> None:
    topics(*pair.names)
    pair.write(0)
    sick = pair.names[0]
    with pair.running():
        pair.wait_for_rows(pair.sick, 1)
        pair.wait_for_rows(pair.well, 1)
        sick_root = pair.sick.root()
        rename(metastore_uri, sick, f"{sick}_away")
        pair.write(1)
        wait_until(lambda: pair.has_halted("SW404"))
        first_try = pair.status().next_try_ms
        assert first_try is not None
        pair.wait_for_rows(pair.well, 2)
        # It was tried again, in vain, and holds nothing meanwhile.
        wait_until(lambda: (pair.status().next_try_ms or 0) > first_try)
        wait_until(lambda: routes_at_work() == 1)
        assert has_given_back_its_lease(sick_root)
        assert not has_table(metastore_uri, sick)
        pair.write(2, both=False)
        pair.wait_for_rows(pair.well, 3)
        rename(metastore_uri, f"{sick}_away", sick)
        wait_until(lambda: pair.status().state is RouteState.RUNNING)
        assert pair.status().message is None
        pair.wait_for_rows(pair.sick, 2)
        pair.write(3)
        pair.wait_for_rows(pair.sick, 3)
        pair.wait_for_rows(pair.well, 4)
    fences = [r.body for r in pair.sick.records() if isinstance(r.body, FenceRecord)]
    assert len(fences) > 1
    # One driver all the time: it must know its own fences when it comes back.
    assert len({fence.driver for fence in fences}) == 1
    pair.sick.assert_verified()
    pair.well.assert_verified()


def test_halted_route_is_shown_by_status_while_its_driver_lives_and_afterwards(
    pair: Pair, topics: Callable[..., None]
) -> None:
    topics(*pair.names)
    pair.write(0)

    def seen() -> RouteStatus:
        routes = job_status(pair.job.job.spec, stderr_log(level="warning")).routes
        return next(one.status for one in routes if one.config.route == f"ods-{pair.names[0]}")

    with pair.running():
        pair.wait_for_rows(pair.sick, 1)
        topics(gone=(pair.names[0],))
        wait_until(lambda: seen().state is RouteState.HALTED)
        assert seen().code == "SW405"
        assert seen().next_try_ms is not None
        fences = [r for r in pair.sick.records() if isinstance(r.body, FenceRecord)]
        before = pair.status().next_try_ms or 0
        wait_until(lambda: (pair.status().next_try_ms or 0) > before)
        # The topic is asked for before the ledger is taken: a try in vain leaves no record.
        assert [r for r in pair.sick.records() if isinstance(r.body, FenceRecord)] == fences
        # Another topic of the same name is never taken for the one that was read.
        topics(pair.names[0])
        wait_until(lambda: pair.has_halted("SW455"))
        assert pair.status().next_try_ms is None
        wait_until(lambda: seen().code == "SW455")
        pair.write(1, both=False)
        pair.wait_for_rows(pair.well, 2)
    assert (seen().state, seen().code, seen().next_try_ms) == (RouteState.STOPPED, "SW455", None)
    assert offsets(pair.sick) == [0]


def test_topic_that_comes_late_is_read_from_its_first_row_on(
    pair: Pair, topics: Callable[..., None]
) -> None:
    topics(pair.names[1])
    with pair.running():
        wait_until(lambda: pair.has_halted("SW405"))
        topics(pair.names[0])
        pair.write(0, 1)
        pair.wait_for_rows(pair.sick, 2)
        pair.wait_for_rows(pair.well, 2)
    pair.sick.assert_verified()


def test_table_that_does_not_fit_and_is_mended_is_filled(
    pair: Pair, topics: Callable[..., None], metastore_uri: str
) -> None:
    topics(*pair.names)
    pair.write(0)
    table = pair.names[0]

    def set_format(name: str) -> str:
        with raw_client(metastore_uri) as client:
            found = client.get_table("ods", table)
            before: str = found.sd.inputFormat
            found.sd.inputFormat = name
            client.alter_table("ods", table, found)
        return before

    with pair.running():
        pair.wait_for_rows(pair.sick, 1)
    parquet = set_format("org.apache.hadoop.mapred.TextInputFormat")
    with pair.running():
        wait_until(lambda: pair.has_halted("SW404"))
        pair.write(1)
        pair.wait_for_rows(pair.well, 2)
        set_format(parquet)
        pair.wait_for_rows(pair.sick, 2)
    pair.sick.assert_verified()


def test_table_that_was_dropped_is_not_made_again_unasked_but_a_new_one_is_filled(
    pair: Pair, topics: Callable[..., None], metastore_uri: str, warehouse: Path
) -> None:
    topics(*pair.names)
    pair.write(0)
    table = pair.names[0]
    with pair.running():
        pair.wait_for_rows(pair.sick, 1)
        with raw_client(metastore_uri) as client:
            dropped = client.get_table("ods", table)
            client.drop_table("ods", table, False)  # noqa: FBT003 - thrift has no names
        pair.write(1)
        wait_until(lambda: pair.has_halted("SW404"))
        tried = pair.status().next_try_ms or 0
        wait_until(lambda: (pair.status().next_try_ms or 0) > tried)
        assert not has_table(metastore_uri, table)
        # An empty table elsewhere has no ledger yet: it gets what the topic has.
        dropped.sd.location = f"file:{warehouse}/{table}_anew"
        dropped.parameters = {"EXTERNAL": "TRUE"}
        with raw_client(metastore_uri) as client:
            client.create_table(dropped)
        pair.wait_for_rows(pair.sick, 2)
        pair.wait_for_rows(pair.well, 2)
    pair.sick.assert_verified()


def test_route_that_halts_for_good_is_not_tried_again(
    pair: Pair, topics: Callable[..., None]
) -> None:
    topics(*pair.names)
    pair.write(0)
    with pair.running():
        pair.wait_for_rows(pair.sick, 1)
        pair.wait_for_rows(pair.well, 1)
        log = pair.sick.root() / "_sluiceway" / f"ods-{pair.names[0]}" / "log"
        slots = sorted(log.rglob("*.json"))
        last = slots[-1].read_bytes()
        slots[-1].unlink()
        pair.write(1)
        wait_until(lambda: pair.has_halted("SW453"))
        assert pair.status().next_try_ms is None
        slots[-1].write_bytes(last)
        pair.wait_for_rows(pair.well, 2)
        time.sleep(1.5)
        assert pair.has_halted("SW453")
    with pair.running():
        pair.wait_for_rows(pair.sick, 2)
    pair.sick.assert_verified()


def test_table_that_is_read_only_for_a_while_delays_its_route_alone(
    pair: Pair, topics: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluiceway.schedule.task_failures.FIRST_RETRY_S", 0.3)
    topics(*pair.names)
    pair.write(0)
    with pair.running():
        pair.wait_for_rows(pair.sick, 1)
        with read_only(pair.sick.root()) as restore:
            pair.write(1, 2)
            wait_until(lambda: pair.status().state is RouteState.WAITING)
            assert pair.status().code == "SW202"
            pair.wait_for_rows(pair.well, 3)
            pair.write(3)
            pair.wait_for_rows(pair.well, 4)
            assert offsets(pair.sick) == [0]
            restore()
            pair.wait_for_rows(pair.sick, 4)
            wait_until(lambda: pair.status().state is RouteState.RUNNING)
    pair.sick.assert_verified()
    pair.well.assert_verified()


def test_store_that_refuses_the_start_halts_the_route_until_it_takes_writes(
    pair: Pair, topics: Callable[..., None]
) -> None:
    topics(*pair.names)
    pair.write(0)
    with pair.running():
        pair.wait_for_rows(pair.sick, 1)
    pair.write(1)
    with read_only(pair.sick.root()) as restore, pair.running():
        wait_until(lambda: pair.has_halted("SW403"))
        assert "the store refuses" in (pair.status().message or "")
        pair.wait_for_rows(pair.well, 2)
        restore()
        pair.wait_for_rows(pair.sick, 2)
    pair.sick.assert_verified()


def test_job_whose_only_table_cannot_be_written_ends_with_the_environments_code(
    pair: Pair, topics: Callable[..., None]
) -> None:
    topics(*pair.names)
    pair.write(0)
    pair.job.catch_up()
    with (
        read_only(pair.sick.root()),
        read_only(pair.well.root()),
        pytest.raises(UnhealthyEnvironmentError, match="the store refuses") as raised,
    ):
        pair.job.run_until(StopSignal())
    assert raised.value.exit_code == 5


def test_full_disk_is_waited_for_with_growing_pauses(
    pair: Pair,
    topics: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sluiceway.schedule.task_failures.FIRST_RETRY_S", 0.1)
    topics(*pair.names)
    pair.write(0)
    begin = LocalStorage.create_staged
    full = threading.Event()

    def create_staged(storage: LocalStorage, path: str) -> StagedWriter:
        writer = begin(storage, path)
        if full.is_set() and pair.names[0] in path:
            stream = writer.handle()
            monkeypatch.setattr(stream, "write", no_space, raising=False)
        return writer

    def no_space(data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(LocalStorage, "create_staged", create_staged)
    with pair.running():
        pair.wait_for_rows(pair.sick, 1)
        full.set()
        capsys.readouterr()
        pair.write(1)
        waits: list[float] = []

        def has_waited() -> bool:
            lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
            told = [line for line in lines if line["event"] == "route_waits"]
            assert {line["code"] for line in told} <= {"SW201"}
            waits.extend(line["retry_in_s"] for line in told)
            # More often than a route may fail on its own rows before it halts.
            return len(waits) >= 6

        wait_until(has_waited)
        assert waits[:6] == sorted(waits[:6])
        assert waits[5] > 4 * waits[0]
        pair.wait_for_rows(pair.well, 2)
        full.clear()
        pair.wait_for_rows(pair.sick, 2)
    pair.sick.assert_verified()
