"""The fuzzer of formats: a small run of each, and that it sees what it looks for."""

from typing import Any

import pytest

from sluiceway.formats.contract import Decoded, DirtyRow, RowDecoder
from sluiceway.formats.registry import open_decoder
from sluiceway.types.dirty import DirtyReason
from tools import format_fuzz
from tools.format_fuzz import Batches, FuzzReport, Work, fuzz, judge, outcomes
from tools.fuzz_stand_in import end_badly
from tools.fuzz_subjects import KINDS, SUBJECTS
from tools.payload_damage import DAMAGES

SMALL = 300
HUGE_BYTES = 300_000


@pytest.mark.parametrize("name", SUBJECTS)
def test_damaged_payloads_have_one_outcome_each_as_alone(name: str) -> None:
    report, batches = FuzzReport(name), Batches(SUBJECTS[name], HUGE_BYTES)
    for number in range(12):
        report.add(batches.run(number, SMALL, with_huge=number % 3 == 0))
    assert (report.unaccounted, report.examples) == (0, [])
    assert report.rows + report.dirty + report.skipped == report.payloads == 12 * SMALL
    assert min(report.rows, report.dirty) > 50


def test_every_built_in_format_is_fuzzed() -> None:
    assert len(DAMAGES) > 8
    assert len(KINDS) > 5
    # Rows of a table have no payloads.
    assert set(open_decoder.__globals__["_BUILT_IN"]) - {"table"} <= set(SUBJECTS)


class _Wrong(RowDecoder):
    """Does what no decoder may: forgets payloads, or looks at their neighbours."""

    def __init__(self, right: RowDecoder, fault: str) -> None:
        self._right, self._fault = right, fault

    @property
    def arrow_schema(self) -> Any:
        return self._right.arrow_schema

    def decode(self, payloads: Any) -> Decoded:
        found = self._right.decode(payloads)
        dirty, skipped = list(found.dirty), found.skipped
        match self._fault:
            case "forgets":
                dirty = dirty[1:]
            case "doubles":
                dirty = dirty[:1] + dirty
            case "counts":
                skipped += 1
            case _:
                first = dirty[0]
                dirty[0] = DirtyRow(
                    first.index, "decode", DirtyReason.BROKEN, "", str(len(payloads))
                )
        return Decoded(found.rows, found.indices, tuple(dirty), skipped)


@pytest.mark.parametrize("fault", ["forgets", "doubles", "counts", "neighbours"])
def test_decoder_that_miscounts_or_looks_at_neighbours_is_seen(fault: str) -> None:
    make = SUBJECTS["json"].decoders[0]
    payloads = [b"{", b'{"id":1}', b"[]"]
    sound = judge(make(), payloads, [(0, make()), (1, make())])
    assert (sound["unaccounted"], sound["rows"], sound["dirty"]) == (0, 1, 2)
    assert judge(_Wrong(make(), fault), payloads, [(0, make())])["unaccounted"] > 0


def test_outcomes_name_every_payload() -> None:
    decoded = SUBJECTS["json"].decoders[0]().decode([b'{"id":1}', None, b"x"])
    row, tombstone, broken = outcomes(decoded, 3)
    assert "'id': 1" in str(row)
    assert "empty" in str(tombstone)
    assert "broken" in str(broken)


def test_process_that_dies_or_hangs_is_counted_and_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(format_fuzz, "run_batches", end_badly)
    report = fuzz([Work("json", 0, 1, 8, 0, 0, batch=10)], hang_s=10.0)
    assert (report.payloads, report.crashes, report.hangs, report.rows) == (80, 2, 1, 50)
    assert report.peak_mib == 7
    assert not report.sound


def test_report_ends_in_what_was_promised() -> None:
    shown = FuzzReport("json").shown()
    assert {"format", "payloads", "crashes", "hangs", "unaccounted", "peak_mib"} <= shown.keys()
    assert FuzzReport("json").sound
