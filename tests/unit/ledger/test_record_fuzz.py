"""A small run of the record fuzz; `make proofs NAME=fuzz` judges a million."""

from pathlib import Path

import pytest

from sluiceway.errors import LedgerCorruptError
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import MAX_RECORD_BYTES, decode_record
from sluiceway.storage.local import LocalStorage
from tools.record_fuzz import MUTATIONS, fuzz, judge, lawful_log


def test_mutated_records_are_refused_with_a_typed_error_or_break_the_chain() -> None:
    report = fuzz(2_000, seed=7)
    assert report.failures == []
    assert (report.accepted, report.untyped) == (0, 0)
    assert report.refused + report.unchained == report.records == 2_000
    assert report.unchained > 50, "some have to get past the decoder"
    assert set(report.by_kind) == set(MUTATIONS)


@pytest.mark.parametrize("slot", range(len(lawful_log()) - 1))
def test_judge_accepts_the_lawful_record_only(slot: int) -> None:
    assert judge(lawful_log()[slot], slot) == "accepted"
    assert judge(lawful_log()[slot + 1], slot) == "unchained"


def test_record_larger_than_any_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(LedgerCorruptError, match="bytes"):
        decode_record(b"[" * (MAX_RECORD_BYTES + 1), "slot")


@pytest.mark.parametrize("name", ["\u00b2.json", "\u0663.json", "x.json", ".json", "9" * 200])
def test_stray_names_beside_the_slots_do_not_end_a_start(tmp_path: Path, name: str) -> None:
    layout = LedgerLayout(str(tmp_path), "orders")
    for seq, raw in enumerate(lawful_log()):
        path = Path(layout.record(seq))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
    log = LedgerLog(LocalStorage(), layout)
    (Path(layout.record_folder(0)) / name).write_bytes(b"stray")
    if name.startswith("9"):
        with pytest.raises(LedgerCorruptError, match="missing below"):
            log.fold()
    else:
        assert log.fold().next_seq == len(lawful_log())
