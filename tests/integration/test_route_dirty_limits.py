"""A route halts before it commits an epoch with too many dirty rows; nothing of it lands."""

import uuid
from collections import Counter
from pathlib import Path

import pytest

from sluiceway.errors import DirtyLimitError
from sluiceway.jobfile.compile.dirty_limits import PREPARED_AT
from sluiceway.observe.steps import Step
from sluiceway.route.prepare import prepare_record
from tools.job_files import event, write_routes
from tools.lab_fixture import TopicFactory
from tools.route_faults import NewRun, data_records, live, offsets, wait_until
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

BROKEN = b'{"id":1,"ts":1795161600000,"amount":"a'
_COMMITTER = "sluiceway.route.committer"


def test_epoch_over_the_limit_is_not_committed_and_is_read_again_under_another(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run, topic = new_run(dirty="{max_rows: 2}")
    writer.write(topic, [event(n) for n in range(10)])
    run.catch_up()
    before = run.records()
    writer.write(topic, [BROKEN, event(11), BROKEN, BROKEN])
    with pytest.raises(DirtyLimitError, match=r"3 of the 14 rows") as caught:
        run.catch_up()
    assert caught.value.exit_code == 6
    assert f"{topic}[0] offset 10" in caught.value.evidence["row_1"]
    # The fence of the second run is all that came.
    assert len(run.records()) == len(before) + 1
    assert (run.rows(), run.dirty()) == (offsets(0, range(10)), [])
    text = run.job.path.read_text().replace("max_rows: 2", "max_rows: 3")
    run.job.path.write_text(text)
    run.catch_up()
    assert run.rows() == offsets(0, range(10), range(11, 12))
    assert run.dirty('"offset"') == [(10,), (12,), (13,)]
    assert data_records(run)[-1].dirty_reasons == {"broken": 3}
    run.assert_verified()


def test_window_survives_a_restart_by_the_ledger_alone(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run, topic = new_run(dirty="{reasons: {scale: 2}, window: 1h}")
    for number in range(2):
        writer.write(topic, [event(number), b'{"id":1,"ts":1,"amount":"0.125"}'])
        run.catch_up()
    assert all(record.timings_ms[PREPARED_AT] > 1_700_000_000_000 for record in data_records(run))
    writer.write(topic, [b'{"id":1,"ts":1,"amount":"0.125"}'])
    with pytest.raises(DirtyLimitError, match=r"dirty\.reasons\.scale allows 2"):
        run.catch_up()
    assert [record.dirty_reasons for record in data_records(run)] == [{"scale amount": 1}] * 2
    run.assert_verified()


def test_epoch_planned_ahead_of_a_refused_one_is_thrown_away(
    new_run: NewRun, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, topic = new_run(dirty="{max_rows: 0}")
    writer.write(topic, [event(n) for n in range(5)])
    seen: Counter[Step] = Counter()
    calls: list[int] = []

    def hold_up_the_second(*asked: object) -> object:
        calls.append(len(calls))
        if len(calls) == 1:
            writer.write(topic, [BROKEN])
            wait_until(lambda: seen[Step.WRITTEN] == 2)
        elif len(calls) == 2:
            # The epoch with the dirty row; a third one, which is clean, is read ahead of it.
            writer.write(topic, [event(n) for n in range(6, 9)])
            wait_until(lambda: seen[Step.WRITTEN] == 3)
        return prepare_record(*asked)  # type: ignore[arg-type]

    monkeypatch.setattr(f"{_COMMITTER}.prepare_record", hold_up_the_second)
    with live(run, lambda step: seen.update([step])) as running:
        error = running.error()
    assert isinstance(error, DirtyLimitError)
    assert [(int(s.start), int(s.end)) for r in data_records(run) for s in r.ranges] == [(0, 5)]
    assert (run.rows(), run.dirty()) == (offsets(0, range(5)), [])
    monkeypatch.undo()
    run.job.path.write_text(run.job.path.read_text().replace("max_rows: 0", "max_rows: 9"))
    run.catch_up()
    assert run.rows() == offsets(0, range(5), range(6, 9))
    assert run.dirty('"offset"') == [(5,)]
    run.assert_verified()


def test_only_the_route_with_too_many_dirty_rows_halts(
    new_topic: TopicFactory,
    writer: TopicWriter,
    bootstrap_servers: str,
    metastore_uri: str,
    tmp_path: Path,
) -> None:
    name = uuid.uuid4().hex[:8]
    strict, lax = new_topic(1), new_topic(1)
    routes = (
        f"  - {{name: strict, topics: [{strict}], table: ods.s_{name}, dirty: {{max_rows: 0}}}}\n"
        f"  - {{name: lax, topics: [{lax}], table: ods.l_{name}}}"
    )
    run = RouteRun(
        write_routes(
            tmp_path, routes, bootstrap_servers=bootstrap_servers, metastore_uri=metastore_uri
        )
    )
    for topic in (strict, lax):
        writer.write(topic, [event(0), BROKEN])
    with pytest.raises(DirtyLimitError):
        run.catch_up()
    assert (run.of("strict").rows(), run.of("strict").dirty()) == ([], [])
    assert run.of("lax").rows() == offsets(0, range(1))
    assert run.of("lax").dirty('"offset"') == [(1,)]
    run.of("lax").assert_verified()
