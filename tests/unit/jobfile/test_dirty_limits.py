"""When an epoch is refused for its dirty rows, and what the refusal says."""

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from sluiceway.errors import DirtyLimitError
from sluiceway.jobfile.compile.dirty_limits import (
    MOST_RECORDS,
    PREPARED_AT,
    DirtyLimits,
    DirtyWatch,
)
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.records import DataRecord
from sluiceway.route.halt_report import halt_report
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.plan import DirtySample, TaskResult
from tools.ledger_records import data, span

if TYPE_CHECKING:
    from sluiceway.ledger.log import LedgerLog

TABLE = "ods.orders"


@dataclass(slots=True)
class _Clock:
    now_ms: int = 1_000_000_000

    def __call__(self) -> int:
        return self.now_ms


def _watch(clock: _Clock, **limits: Any) -> DirtyWatch:
    return DirtyWatch(DirtyLimits(**limits), clock)


def _epoch(read: int, **reasons: int) -> DataRecord:
    record = data(1, 0, span(0, 0, read), dirty=sum(reasons.values()))
    return replace(record, dirty_reasons={f"{name} amount": n for name, n in reasons.items()})


def _commit(watch: DirtyWatch, record: DataRecord) -> DataRecord:
    checked = watch.checked(record, (), TABLE)
    watch.count(checked)
    return checked


def _result(*samples: DirtySample) -> TaskResult:
    return cast("TaskResult", type("Answer", (), {"dirty_samples": samples})())


def test_share_is_taken_over_the_window_and_not_of_one_epoch() -> None:
    clock = _Clock()
    watch = _watch(clock, ratio=0.01, ratio_window_ms=60_000)
    _commit(watch, _epoch(1000))
    _commit(watch, _epoch(100, overflow=11))
    with pytest.raises(DirtyLimitError, match=r"12 of the 1,101 rows of the last 1m.* allows 1%"):
        watch.checked(_epoch(1, overflow=1), (), TABLE)
    # A minute later the clean rows are forgotten, and so are the dirty ones.
    clock.now_ms += 60_001
    _commit(watch, _epoch(100, overflow=1))


def test_share_of_few_rows_is_not_judged() -> None:
    watch = _watch(_Clock(), ratio=0.01, ratio_min_rows=100)
    _commit(watch, _epoch(99, broken=99))
    with pytest.raises(DirtyLimitError, match=r"100 of the 100 rows"):
        watch.checked(_epoch(1, broken=1), (), TABLE)


def test_share_of_nothing_takes_no_dirty_row_at_all() -> None:
    watch = _watch(_Clock(), ratio=0.0, ratio_min_rows=0)
    _commit(watch, _epoch(10))
    with pytest.raises(DirtyLimitError, match=r"dirty\.max_rate allows 0%"):
        watch.checked(_epoch(10, broken=1), (), TABLE)


def test_rows_are_counted_up_to_the_limit_and_not_beyond() -> None:
    watch = _watch(_Clock(), rows=5)
    _commit(watch, _epoch(10, overflow=3))
    _commit(watch, _epoch(10, scale=2))
    with pytest.raises(DirtyLimitError, match=r"6 of the 30 rows .* dirty\.max_rows allows 5"):
        watch.checked(_epoch(10, scale=1), (), TABLE)


def test_reasons_have_limits_of_their_own() -> None:
    watch = _watch(_Clock(), reasons=(("overflow", 0),))
    _commit(watch, _epoch(10, scale=9))
    with pytest.raises(DirtyLimitError, match=r"1 of .* dirty\.reasons\.overflow allows 0"):
        watch.checked(_epoch(10, overflow=1), (), TABLE)


def test_epoch_without_such_rows_is_not_refused_for_those_before_it() -> None:
    clock = _Clock()
    before = _watch(clock, rows=100)
    told = _commit(before, _epoch(10, overflow=9))
    for limits in ({"rows": 5}, {"reasons": (("overflow", 5),)}, {"ratio": 0.0}):
        watch = _watch(clock, **limits)
        watch.count(told)
        _commit(watch, _epoch(1000))
    watch = _watch(clock, reasons=(("overflow", 5),))
    watch.count(told)
    _commit(watch, _epoch(1000, scale=3))


def test_without_limits_nothing_is_refused_and_every_record_tells_its_time() -> None:
    clock = _Clock()
    watch = _watch(clock)
    assert _commit(watch, _epoch(10, broken=10)).timings_ms == {PREPARED_AT: clock.now_ms}


def test_clock_that_was_set_back_forgets_nothing() -> None:
    clock = _Clock()
    watch = _watch(clock, rows=1, rows_window_ms=10_000)
    _commit(watch, _epoch(10, broken=1))
    clock.now_ms -= 3_600_000
    with pytest.raises(DirtyLimitError):
        watch.checked(_epoch(10, broken=1), (), TABLE)


class _Log:
    """Slots of a ledger, and how many were read."""

    def __init__(self, *bodies: Any) -> None:
        self._bodies = bodies
        self.read = 0

    def read_slot(self, seq: int) -> Any:
        self.read += 1
        body = self._bodies[seq % len(self._bodies)]
        return type("Found", (), {"body": body})(), b""


def test_window_is_read_back_from_the_ledger_and_no_further() -> None:
    clock = _Clock()

    def stamped(age_ms: int, record: DataRecord) -> DataRecord:
        return replace(record, timings_ms={PREPARED_AT: clock.now_ms - age_ms})

    log = _Log(
        stamped(700_000, _epoch(10, broken=10)),
        stamped(500_000, _epoch(10, overflow=2)),
        "a FENCE",
        stamped(1_000, _epoch(10, scale=1)),
    )
    watch = _watch(clock, rows=3)
    watch.recall(cast("Any", log), 4)
    assert log.read == 4
    with pytest.raises(DirtyLimitError, match=r"4 of the 30 rows"):
        watch.checked(_epoch(10, scale=1), (), TABLE)


def test_record_that_has_read_nothing_does_not_end_the_window() -> None:
    clock = _Clock()
    dirty = replace(_epoch(10, overflow=4), timings_ms={PREPARED_AT: clock.now_ms - 1_000})
    log = _Log(dirty, data(1, 0))
    watch = _watch(clock, rows=3)
    watch.recall(cast("Any", log), 2)
    with pytest.raises(DirtyLimitError, match=r"5 of the 20 rows"):
        watch.checked(_epoch(10, scale=1), (), TABLE)


def test_epochs_behind_the_window_are_let_go_though_none_is_dirty() -> None:
    clock = _Clock()
    watch = _watch(clock, rows=3, rows_window_ms=60_000)
    for _ in range(100):
        clock.now_ms += 10_000
        _commit(watch, _epoch(10))
    assert len(watch._epochs) <= 7


def test_start_reads_a_bounded_number_of_records_and_none_without_limits() -> None:
    clock = _Clock()
    record = replace(_epoch(10, broken=1), timings_ms={PREPARED_AT: clock.now_ms})
    log = _Log(record)
    _watch(clock).recall(cast("Any", log), 1_000_000)
    assert log.read == 0
    _watch(clock, rows=3).recall(cast("Any", log), 1_000_000)
    assert log.read == MOST_RECORDS


def test_report_names_rule_rows_of_each_reason_and_commands() -> None:
    samples = [
        DirtySample("t", 2, BigInt(offset), "convert", reason, "amount", "too great")
        for reason, offset in (("overflow", 7), ("overflow", 8), ("scale", 9))
    ]
    watch = _watch(_Clock(), rows=0)
    with pytest.raises(DirtyLimitError) as caught:
        watch.checked(_epoch(10, overflow=2, scale=1), [_result(*samples)], TABLE)
    report = halt_report(caught.value, "orders")
    assert caught.value.exit_code == 6
    assert not caught.value.mendable
    assert report.where == TABLE
    assert report.evidence["rule"] == "dirty.max_rows"
    assert report.evidence["reasons_of_the_epoch"] == "overflow 2, scale 1"
    assert report.evidence["row_1"] == "t[2] offset 7: overflow amount: too great"
    assert report.evidence["row_2"].startswith("t[2] offset 9: scale")
    # Nothing of the refused epoch can be shown: it is in the topic only.
    assert report.commands == ("sluiceway validate JOB", "sluiceway run JOB")


def test_report_shows_dirty_rows_only_where_some_were_committed_before() -> None:
    ledger = SimpleNamespace(layout=LedgerLayout("/t", "orders"), read_slot=lambda seq: None)
    watch = DirtyWatch.recalled(DirtyLimits(rows=1), cast("LedgerLog", ledger), 1)
    _commit(watch, _epoch(10, overflow=1))
    with pytest.raises(DirtyLimitError) as caught:
        watch.checked(_epoch(10, overflow=1), (), TABLE)
    assert caught.value.commands[0] == "sluiceway dirty show JOB --route orders"
