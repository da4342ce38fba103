"""Faults planted in a sound partitioner: a named test of the suite finds each."""

import ctypes
import random
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pytest

from sluiceway.conformance.partitioners import PartitionerConformance
from sluiceway.partitioners import registry
from sluiceway.partitioners.contract import Partitioner, PartitionTexts
from tools.region_partitioner import Regions

Fault = Callable[[Partitioner, pa.RecordBatch], object]
ROWS = pa.record_batch(
    {
        "id": pa.array(range(40)),
        "city": pa.array([None if n % 7 == 0 else f"r{n % 5}-x" for n in range(40)]),
    }
)


def _sound(partitioner: Partitioner, rows: pa.RecordBatch) -> PartitionTexts:
    return partitioner.assign(rows)


def _changed(change: Callable[[list[str | None], pa.RecordBatch], list[str | None]]) -> Fault:
    def fault(partitioner: Partitioner, rows: pa.RecordBatch) -> PartitionTexts:
        region, bucket = partitioner.assign(rows).values
        return PartitionTexts([pa.array(change(region.to_pylist(), rows), pa.string()), bucket])

    return fault


_CALLS = iter(range(10**9))
FAULTS: list[tuple[str, Fault, str]] = [
    ("one short", _changed(lambda texts, _: texts[1:]), "test_answers_have"),
    ("a column too few", lambda p, r: PartitionTexts(p.assign(r).values[:1]), "test_answers_have"),
    ("no answer", lambda _p, _r: None, "test_answers_have"),
    (
        "numbers",
        lambda p, r: PartitionTexts([r.column("id"), p.assign(r).values[1]]),
        "test_answers_have",
    ),
    (
        "lists",
        lambda p, r: PartitionTexts([v.to_pylist() for v in p.assign(r).values]),
        "test_answers_have",
    ),
    (
        "row that is none",
        lambda p, r: PartitionTexts(p.assign(r).values, {r.num_rows: "x"}),
        "test_answers_have",
    ),
    ("raises", lambda _p, _r: 1 / 0, "test_answers_have"),
    ("by position", _changed(lambda texts, _: [str(n) for n in range(len(texts))]), "test_row_al"),
    ("by size", _changed(lambda texts, r: [str(r.num_rows)] * len(texts)), "test_row_alone"),
    (
        "by neighbour",
        _changed(lambda texts, _: [texts[0], *texts[:-1]]),
        "test_rows_in_another_order",
    ),
    (
        "by chance",
        _changed(lambda texts, _: [str(random.random()) for _ in texts]),  # noqa: S311 - as meant
        "test_outcomes_are_the_same_again",
    ),
    (
        "by call",
        _changed(lambda texts, _: [f"{next(_CALLS)}"] * len(texts)),
        "test_outcomes_are_the_same_again",
    ),
    ("at most 100", lambda p, r: p.assign(r.slice(0, 100)), "test_large_batch"),
    ("all empty", _changed(lambda texts, _: [""] * len(texts)), "test_some_rows_have"),
    ("all too long", _changed(lambda texts, _: ["x" * 999] * len(texts)), "test_some_rows_have"),
]


def _run(fault: Fault, monkeypatch: pytest.MonkeyPatch, *, lenient: bool = False) -> set[str]:
    """Names of the tests of the suite that fail."""

    class _Faulty(Partitioner):
        def __init__(self, columns: Sequence[str]) -> None:
            self._sound = Regions(columns, 4)

        def assign(self, rows: pa.RecordBatch) -> PartitionTexts:
            return fault(self._sound, rows)  # type: ignore[return-value]

    def opened(columns: Sequence[str], _: pa.Schema, options: Mapping[str, str]) -> Partitioner:
        if options and not lenient:
            raise ValueError("no options")
        return _Faulty(columns)

    class Suite(PartitionerConformance):
        name = "faulty"
        columns = ("region", "bucket")

        def rows(self) -> pa.RecordBatch:
            return ROWS

    monkeypatch.setattr(registry, "_BUILT_IN", {"faulty": opened})
    failed = set()
    for name in dir(Suite):
        if name.startswith("test_"):
            try:
                getattr(Suite(), name)()
            except Exception:  # noqa: BLE001 - whatever it is, the test failed
                failed.add(name)
    return failed


def test_sound_partitioner_passes_the_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _run(_sound, monkeypatch) == set()


@pytest.mark.parametrize(("fault", "found_by"), [pytest.param(f, n, id=i) for i, f, n in FAULTS])
def test_fault_is_found(fault: Fault, found_by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = _run(fault, monkeypatch)
    assert any(name.startswith(found_by) for name in failed), failed


def test_option_that_is_ignored_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = _run(_sound, monkeypatch, lenient=True)
    assert failed == {"test_options_that_it_does_not_have_are_refused_in_words"}


def test_changed_rows_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(partitioner: Partitioner, rows: pa.RecordBatch) -> PartitionTexts:
        found = partitioner.assign(rows)
        buffer = rows.column("id").buffers()[1]
        address, size = buffer.address, buffer.size
        view = (ctypes.c_uint8 * size).from_address(address)
        view[0] ^= 1
        return found

    failed = _run(spoil, monkeypatch)
    assert "test_rows_are_left_as_they_are" in failed
