"""A driver that dies at any step, or is replaced while it lives: every row once, nothing left."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from sluiceway.driver.stop import StopSignal
from sluiceway.errors import FencedError, LeaseHeldError, StorageUnavailableError
from sluiceway.ledger import lease
from sluiceway.ledger.records import RecordType, decode_record
from sluiceway.observe.steps import Step
from sluiceway.storage.contract import PutResult
from sluiceway.storage.local import LocalStorage
from tools.job_files import event
from tools.route_faults import Crash, CrashAt, NewRun, Pause, data_records, live
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

_TIMEOUT_S = 120.0
_FIRST_RUN = [RecordType.FENCE, RecordType.SOURCES, RecordType.DATA, RecordType.SNAPSHOT]
_HOUR_MS = 3_600_000


def _events(span: range, *, hour: int = 0) -> list[bytes]:
    """One broken row in five."""
    return [
        event(n, ts_ms=1_795_161_600_000 + hour * _HOUR_MS) if n % 5 else b"{%d" % n for n in span
    ]


def _assert_each_row_once(run: RouteRun, partitions: int, rows: range) -> None:
    expected = [(part, n) for part in range(partitions) for n in rows]
    assert run.rows() == [(part, n) for part, n in expected if n % 5]
    assert run.dirty('partition, "offset"') == [(part, n) for part, n in expected if not n % 5]
    run.assert_verified()
    root = run.root()
    named = {file.final for r in data_records(run) for file in (*r.files, *r.dirty_files)}
    found = {str(path.relative_to(root)) for path in root.rglob("*.parquet")}
    staged = {name for name in found if "/stage/" in name}
    assert found - staged == named


class _Feeder:
    """Observer that writes more rows, of another hour, after each of the first two epochs."""

    def __init__(self, topic: str, bootstrap_servers: str, stop: StopSignal) -> None:
        self._topic = topic
        self._servers = bootstrap_servers
        self._stop = stop
        self.epochs = 0

    def __call__(self, step: Step) -> None:
        if step is not Step.REPORTED:
            return
        self.epochs += 1
        if self.epochs == 1:
            self.add_partition()
        else:
            self._stop.ask()

    def add_partition(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._servers, "log_level": 0})
        admin.create_partitions([NewPartitions(self._topic, 2)])[self._topic].result(_TIMEOUT_S)
        writer = TopicWriter(self._servers)
        writer.write(self._topic, _events(range(10, 20), hour=1), partition=0)
        writer.write(self._topic, _events(range(20), hour=2), partition=1)


# The crash matrix meets each step; these three have a new source partition after the crash too.
@pytest.mark.parametrize("step", [Step.WRITTEN, Step.COMMITTED, Step.PUBLISHED])
def test_recovery_after_a_crash_has_every_row_once(
    new_run: NewRun, bootstrap_servers: str, writer: TopicWriter, step: Step
) -> None:
    run, topic = new_run(1)
    writer.write(topic, _events(range(10)))
    stop = StopSignal()
    feeder = _Feeder(topic, bootstrap_servers, stop)
    crash = CrashAt(step, 1, then=feeder)
    with pytest.raises(Crash):
        run.run_until(stop, observe=crash)
    if feeder.epochs == 0:
        feeder.add_partition()
    run.catch_up()
    assert run.rows() == [
        *((0, n) for n in range(20) if n % 5),
        *((1, n) for n in range(20) if n % 5),
    ]
    _assert_each_row_once(run, 2, range(20))
    run.catch_up()
    assert [record.type for record in run.records()][-1] is RecordType.FENCE


def test_crash_in_the_middle_of_publishing_is_finished_by_the_next_start(
    new_run: NewRun, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, topic = new_run(2)
    for part in range(2):
        for hour in range(4):
            span = range(hour * 5, hour * 5 + 5)
            writer.write(topic, _events(span, hour=hour), partition=part)
    publish = LocalStorage.publish
    done: list[str] = []

    def dies(storage: LocalStorage, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
        # The probe of a start publishes too.
        if dst.endswith(".parquet"):
            if len(done) == 3:
                raise Crash(dst)
            done.append(dst)
        publish(storage, src, dst, size_bytes=size_bytes, crc32c=crc32c)

    monkeypatch.setattr(LocalStorage, "publish", dies)
    with pytest.raises(Crash):
        run.catch_up()
    monkeypatch.setattr(LocalStorage, "publish", publish)
    assert len(done) == 3
    run.catch_up()
    _assert_each_row_once(run, 2, range(20))


@pytest.mark.parametrize("at", ["link", "unlink"])
def test_crash_between_the_two_names_of_a_published_file_leaves_one(
    new_run: NewRun, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    publish = LocalStorage.publish

    def dies(storage: LocalStorage, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
        if not dst.endswith(".parquet"):
            return publish(storage, src, dst, size_bytes=size_bytes, crc32c=crc32c)
        Path(dst).parent.mkdir(parents=True, exist_ok=True)
        Path(dst).hardlink_to(src)
        if at == "unlink":
            Path(src).unlink()
        raise Crash(dst)

    monkeypatch.setattr(LocalStorage, "publish", dies)
    with pytest.raises(Crash):
        run.catch_up()
    monkeypatch.setattr(LocalStorage, "publish", publish)
    run.catch_up()
    _assert_each_row_once(run, 1, range(10))
    assert not list(run.root().rglob("stage/*-*/*"))


def test_publish_that_fails_for_a_while_is_repeated_until_it_is_done(
    new_run: NewRun, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    publish = LocalStorage.publish
    failures: list[str] = []

    def fails(storage: LocalStorage, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
        if dst.endswith(".parquet") and len(failures) < 3:
            failures.append(dst)
            if len(failures) == 2:
                # It worked, and the answer was lost.
                publish(storage, src, dst, size_bytes=size_bytes, crc32c=crc32c)
            raise StorageUnavailableError("the store is away", where=dst)
        publish(storage, src, dst, size_bytes=size_bytes, crc32c=crc32c)

    monkeypatch.setattr("sluiceway.schedule.task_failures.FIRST_RETRY_S", 0.1)
    monkeypatch.setattr(LocalStorage, "publish", fails)
    run.catch_up()
    assert len(failures) == 3
    assert len(data_records(run)) == 1
    _assert_each_row_once(run, 1, range(10))


@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize("kind", _FIRST_RUN)
def test_put_of_a_record_with_unknown_outcome_is_settled_by_the_slot(
    new_run: NewRun,
    writer: TopicWriter,
    monkeypatch: pytest.MonkeyPatch,
    kind: RecordType,
    *,
    landed: bool,
) -> None:
    monkeypatch.setattr("sluiceway.ledger.upkeep.SNAPSHOT_EVERY", 3)
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    put = LocalStorage.put_if_absent
    failures: list[str] = []

    def fails(storage: LocalStorage, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        wanted = "/log/" in path and decode_record(content, path).type is kind
        if wanted and len(failures) < 2:
            failures.append(path)
            if landed:
                put(storage, path, content, tmp_folder=tmp_folder)
            raise StorageUnavailableError("no answer", where=path)
        return put(storage, path, content, tmp_folder=tmp_folder)

    monkeypatch.setattr(LocalStorage, "put_if_absent", fails)
    run.catch_up()
    assert len(failures) == 2
    assert failures[0] == failures[1]
    assert [record.type for record in run.records()] == _FIRST_RUN
    _assert_each_row_once(run, 1, range(10))


def test_staged_file_that_vanished_throws_the_epoch_away_and_it_is_read_again(
    new_run: NewRun, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluiceway.schedule.task_failures.FIRST_RETRY_S", 0.1)
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    removed: list[Path] = []

    def remove_one(step: Step) -> None:
        if step is Step.WRITTEN and not removed:
            removed.append(next(run.root().glob("_sluiceway/*/stage/*/*.parquet")))
            removed[0].unlink()

    run.catch_up(observe=remove_one)
    assert removed
    (record,) = data_records(run)
    assert record.epoch == 1
    _assert_each_row_once(run, 1, range(10))


@pytest.fixture
def _silent_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases that stand still, as those of stopped processes, and are called dead soon."""
    monkeypatch.setattr(lease.LeaseKeeper, "renew", lambda keeper: None)
    monkeypatch.setattr(lease, "DEAD_AFTER_S", 1.0)


@pytest.mark.usefixtures("_silent_leases")
@pytest.mark.parametrize("step", [Step.PLANNED, Step.WRITTEN, Step.PREPARED])
def test_driver_that_wakes_up_after_a_takeover_is_fenced_and_changes_nothing(
    new_run: NewRun, writer: TopicWriter, step: Step
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    pause = Pause(step)
    with live(run, pause) as zombie:
        assert pause.reached.wait(_TIMEOUT_S)
        run.catch_up()
        before = run.records()
        pause.goes_on.set()
        error = zombie.error()
    assert isinstance(error, FencedError)
    assert run.records() == before
    assert [(record.type, record.term) for record in before][-2:] == [
        (RecordType.FENCE, 2),
        (RecordType.DATA, 2),
    ]
    _assert_each_row_once(run, 1, range(10))
    writer.write(topic, _events(range(10, 15)))
    run.catch_up()
    _assert_each_row_once(run, 1, range(15))


@pytest.mark.usefixtures("_silent_leases")
@pytest.mark.parametrize("step", [Step.COMMITTED, Step.PUBLISHED, Step.APPLIED, Step.REPORTED])
def test_driver_that_wakes_up_after_its_commit_may_finish_it_and_is_fenced_at_the_next(
    new_run: NewRun, writer: TopicWriter, step: Step
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    pause = Pause(step)

    def only_after_the_commit(reached: Step) -> None:
        if reached is not step or data_records(run):
            pause(reached)

    with live(run, only_after_the_commit) as zombie:
        assert pause.reached.wait(_TIMEOUT_S)
        run.catch_up()
        _assert_each_row_once(run, 1, range(10))
        writer.write(topic, _events(range(10, 15)))
        pause.goes_on.set()
        error = zombie.error()
    assert isinstance(error, FencedError)
    run.catch_up()
    _assert_each_row_once(run, 1, range(15))


def test_second_driver_beside_a_live_one_is_refused(new_run: NewRun, writer: TopicWriter) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    published = Pause(Step.PUBLISHED)
    published.goes_on.set()
    with live(run, published) as first:
        assert published.reached.wait(_TIMEOUT_S)
        with pytest.raises(LeaseHeldError, match="a live driver runs this route"):
            run.catch_up()
        first.stop()
    assert run.records()[-1].term == 1
    run.catch_up()
    _assert_each_row_once(run, 1, range(10))
