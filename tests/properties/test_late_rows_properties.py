"""Late rows of any batches, policies, bounds and closed partitions, against one look at each row.

The oracle knows nothing of arrays: it takes rows one by one, as commit rules 17 and 23 say.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from sluiceway.worker.plan import EpochTimes, LatePolicy, LateRule
from tools.small_task import BY_HOUR, HOUR_US, NOW_US, made_batch, run_task

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SIDE = "_sluiceway/orders/late/"
HOURS = range(-30, 2)


def folder_of(time_us: int) -> str:
    wall = EPOCH + timedelta(microseconds=time_us)
    return f"dt={wall:%Y%m%d}/hr={wall:%H}"


@dataclass(frozen=True)
class Case:
    """What an epoch is planned with, and its rows by read and split, as times."""

    policy: LatePolicy
    closed: frozenset[str]
    bounds: tuple[int | None, ...]
    watermark_us: int | None
    reads: list[list[tuple[int, list[int]]]]


def is_closed(case: Case, folder: str) -> bool:
    """Hours of this shape sort as text; what ends before a closed one is closed as well."""
    return bool(case.closed) and folder <= max(case.closed)


def fate(case: Case, split: int, time_us: int) -> tuple[str, str]:
    """(where the row goes, what it counts as)."""
    own, bound = folder_of(time_us), case.bounds[split]
    too_old = bound is not None and time_us < bound
    if not too_old and not is_closed(case, own):
        return own, ""
    if case.policy is LatePolicy.DIRTY:
        return "", "dirty"
    if case.policy is LatePolicy.REOPEN and not too_old:
        return own, "reopen"
    if case.policy is LatePolicy.REDIRECT and case.watermark_us is not None:
        target = folder_of(case.watermark_us)
        if not is_closed(case, target):
            return target, "redirect"
    return SIDE + own, "side"


TIMES = st.builds(
    lambda hour, shift: NOW_US + hour * HOUR_US + shift,
    st.sampled_from(HOURS),
    st.sampled_from([-1, 0, 1, 17, HOUR_US - 1]),
).filter(lambda time_us: time_us <= NOW_US + HOUR_US)
FOLDERS = st.sampled_from([folder_of(NOW_US + hour * HOUR_US) for hour in HOURS])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    splits = draw(st.integers(1, 3))
    rows = st.lists(TIMES, min_size=1, max_size=12)
    reads = draw(
        st.lists(
            st.lists(st.sampled_from(range(splits)), min_size=1, max_size=splits, unique=True),
            min_size=1,
            max_size=4,
        )
    )
    return Case(
        draw(st.sampled_from(LatePolicy)),
        draw(st.frozensets(FOLDERS, max_size=3)),
        tuple(draw(st.lists(TIMES | st.none(), min_size=splits, max_size=splits))),
        draw(TIMES | st.none()),
        [[(split, draw(rows)) for split in read] for read in reads],
    )


@settings(max_examples=60, deadline=None)
@given(cases())
def test_every_row_is_where_one_look_at_it_says(case: Case) -> None:
    wanted: dict[str, list[int]] = {}
    dirty: list[int] = []
    fates: Counter[str] = Counter()
    newest: dict[int, int] = {}
    reads, number = [], 0
    for read in case.reads:
        batches = []
        for split, times in read:
            rows: list[dict[str, object]] = []
            for time_us in times:
                where, what = fate(case, split, time_us)
                fates[what] += 1
                if where:
                    wanted.setdefault(where, []).append(number)
                    newest[split] = max(newest.get(split, time_us), time_us)
                else:
                    dirty.append(number)
                rows.append({"id": number, "ts": time_us})
                number += 1
            batches.append(made_batch(split, rows))
        reads.append(batches)
    planned = EpochTimes(NOW_US, tuple(sorted(case.closed)), case.bounds, case.watermark_us)
    found = run_task(
        reads,
        splits=len(case.bounds),
        times=planned,
        partitions=BY_HOUR,
        late=LateRule(case.policy),
    )
    assert {where: sorted(ids) for where, ids in found.ids.items()} == wanted
    assert sorted(found.dirty) == [(each, "late") for each in dirty]
    told, counts = found.written.late_rows, found.written.counts
    assert told.as_counts() == {name: rows for name, rows in fates.items() if name}
    assert counts.balanced()
    assert (counts.read, counts.late, counts.dirty) == (number, fates["side"], fates["dirty"])
    for split, totals in enumerate(found.written.totals):
        greatest = newest.get(split)
        if greatest is None or greatest <= NOW_US:
            assert totals.max_event_time_us == greatest
        else:
            # Ahead of the clock: no more than when it was read, and the test takes no hour.
            assert totals.max_event_time_us is not None
            assert NOW_US <= totals.max_event_time_us <= greatest
