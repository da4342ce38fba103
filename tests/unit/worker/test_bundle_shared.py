"""Routes of one bundle with equal splits: fetched once, written apart, failures apart."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest

from sluiceway.errors import OffsetsLostError, TaskFailedError
from sluiceway.sources.contract import SourceBatch, SourcePartition, Split
from sluiceway.types.schema import Schema
from sluiceway.worker import bundle
from sluiceway.worker.bundle import run_bundle
from sluiceway.worker.pipeline import RowPipeline
from sluiceway.worker.plan import TaskPlan, TaskResult
from sluiceway.worker.row_batch import RowBatch
from sluiceway.worker.row_stages import DecodeRows
from tools.small_bundle import ROWS, FourRowsReader, bundle_plan

LOG = SourcePartition("events", 0)


class Readers:
    """Opens readers.

    Attributes:
        opened: Those, with the splits of each.
    """

    def __init__(self) -> None:
        self.opened: list[tuple[FourRowsReader, list[Split]]] = []

    def open(self, access: object, splits: Sequence[Split], *, owner: str) -> FourRowsReader:
        """Instead of `open_reader`."""
        del access, owner
        self.opened.append((FourRowsReader(len(splits)), list(splits)))
        return self.opened[-1][0]


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> Readers:
    made = Readers()
    monkeypatch.setattr(bundle, "open_reader", made.open)
    return made


def reading(root: Path, route: str, start: int = 0, *, others: int = 0) -> TaskPlan:
    """A route's plan of the same log as the others'; `others` splits of its own come before."""
    first = [Split(SourcePartition(route, n), 0, ROWS) for n in range(others)]
    return replace(bundle_plan(root / route, route), splits=(*first, Split(LOG, start, ROWS)))


def ids(root: Path, answer: TaskResult) -> list[int]:
    stage = root / answer.ledger / "_sluiceway" / answer.ledger / "stage"
    return sorted(
        row for file in answer.files for row in pq.read_table(stage / file.staged)["id"].to_pylist()
    )


def test_equal_splits_are_fetched_once_and_written_by_each_route(
    tmp_path: Path, readers: Readers
) -> None:
    answers = run_bundle([reading(tmp_path, route) for route in ("a", "b", "c")])
    assert [answer.failure for answer in answers] == [None] * 3
    assert [(len(splits), reader.kept) for reader, splits in readers.opened] == [(1, True)]
    for answer in answers:
        assert ids(tmp_path, answer) == list(range(ROWS))
        assert [int(split.end) for split in answer.splits] == [ROWS]
    assert len({split.offset_sum for answer in answers for split in answer.splits}) == 1


def test_shared_split_has_its_own_number_in_each_plan(tmp_path: Path, readers: Readers) -> None:
    one, two = run_bundle([reading(tmp_path, "a"), reading(tmp_path, "b", others=1)])
    assert len(readers.opened[0][1]) == 2
    assert [split.topic for split in one.splits] == ["events"]
    assert [(split.topic, int(split.rows)) for split in two.splits] == [
        ("b", ROWS),
        ("events", ROWS),
    ]


def test_route_at_another_offset_has_a_reader_of_its_own(tmp_path: Path, readers: Readers) -> None:
    run_bundle([reading(tmp_path, "a"), reading(tmp_path, "b"), reading(tmp_path, "c", 4)])
    starts = [[split.start_offset for split in splits] for _, splits in readers.opened]
    assert starts == [[0], [4]]


def test_route_that_fails_ends_neither_the_others_nor_their_reader(
    tmp_path: Path, readers: Readers
) -> None:
    sound, broken = reading(tmp_path, "a"), reading(tmp_path, "b")
    stage = Path(broken.route.layout.stage)
    stage.mkdir(parents=True, exist_ok=True)
    plans = [sound, replace(broken, route=replace(broken.route, event_time=None))]

    def fail(read: int) -> None:
        if read == 1:
            Path(broken.result_path).mkdir()

    opened = readers.open

    def open_failing(*args: object, **more: object) -> FourRowsReader:
        reader = opened(*args, **more)  # type: ignore[arg-type]
        reader.act = fail
        return reader

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundle, "open_reader", open_failing)
        answers = {answer.ledger: answer for answer in run_bundle(plans)}
    assert answers["b"].failure is not None
    assert answers["a"].failure is None
    assert ids(tmp_path, answers["a"]) == list(range(ROWS))
    assert readers.opened[0][0].kept is True


def test_log_that_fails_fails_all_its_routes(tmp_path: Path, readers: Readers) -> None:
    del readers

    class Lost(FourRowsReader):
        def read(self, timeout_s: float) -> list[object]:  # type: ignore[override]
            raise OffsetsLostError("gone", where=str(LOG))

    reader = Lost()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundle, "open_reader", lambda *_, **__: reader)
        answers = run_bundle([reading(tmp_path, "a"), reading(tmp_path, "b")])
    assert [answer.failure.kind for answer in answers if answer.failure] == ["OffsetsLostError"] * 2
    assert reader.kept is False


class CountedDecodes:
    """Counts what is decoded: rows of each call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[int] = []
        decode = DecodeRows.decode

        def counted(
            self_: DecodeRows, batches: Sequence[SourceBatch], bounds: Sequence[int], now_us: int
        ) -> RowBatch:
            self.rows.append(bounds[-1])
            return decode(self_, batches, bounds, now_us)

        monkeypatch.setattr(DecodeRows, "decode", counted)


@pytest.fixture
def decodes(monkeypatch: pytest.MonkeyPatch) -> CountedDecodes:
    return CountedDecodes(monkeypatch)


@pytest.mark.usefixtures("readers")
def test_routes_that_decode_alike_decode_once(tmp_path: Path, decodes: CountedDecodes) -> None:
    plans = [reading(tmp_path, route) for route in ("a", "b")]
    answers = run_bundle(plans)
    assert decodes.rows == [4, 4, 4]
    assert [ids(tmp_path, answer) for answer in answers] == [list(range(ROWS))] * 2
    assert [int(answer.counts.read) for answer in answers] == [ROWS] * 2


@pytest.mark.usefixtures("readers")
def test_routes_of_other_columns_share_the_fetch_alone(
    tmp_path: Path, decodes: CountedDecodes, readers: Readers
) -> None:
    one, two = reading(tmp_path, "a"), reading(tmp_path, "b", others=1)
    three = reading(tmp_path, "c")
    fewer = Schema(three.route.schema.fields[:1])
    three = replace(three, route=replace(three.route, schema=fewer, partitions=()))
    answers = run_bundle([one, two, three])
    assert len(readers.opened) == 1
    # The split is number 0 in two plans and number 1 in one, at one time.
    assert decodes.rows == [4, 8, 4] * 3
    assert [ids(tmp_path, answer) for answer in answers if answer.ledger != "b"] == [
        list(range(ROWS))
    ] * 2
    assert [[int(split.rows) for split in answer.splits] for answer in answers] == [
        [ROWS],
        [ROWS, ROWS],
        [ROWS],
    ]


@pytest.mark.usefixtures("readers")
def test_rows_of_many_routes_wait_for_more(
    tmp_path: Path, decodes: CountedDecodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Also while the task looks for a stop, at each read.
    monkeypatch.setattr(bundle, "_STOP_POLL_S", 0.0)
    names = ("a", "b", "c", "d")
    answers = run_bundle([reading(tmp_path, route) for route in names])
    assert decodes.rows == [ROWS]
    assert [ids(tmp_path, answer) for answer in answers] == [list(range(ROWS))] * 4


@pytest.mark.usefixtures("readers")
def test_route_whose_stages_fail_leaves_the_decoded_rows_to_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rows = RowPipeline.write_rows
    seen: list[RowPipeline] = []

    def failing(pipeline: RowPipeline, rows: RowBatch) -> None:
        if pipeline not in seen:
            seen.append(pipeline)
        if pipeline is seen[0]:
            # It may change what it was given.
            rows.dirty.append(cast("Any", None))
            rows.columns = rows.columns.slice(0, 0)
            raise TaskFailedError("a bug")
        write_rows(pipeline, rows)

    monkeypatch.setattr(RowPipeline, "write_rows", failing)
    broken, *sound = run_bundle([reading(tmp_path, route) for route in ("a", "b", "c")])
    assert broken.failure is not None
    assert [ids(tmp_path, answer) for answer in sound] == [list(range(ROWS))] * 2
