from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.errors import LedgerCorruptError, LedgerMismatchError
from sluiceway.ledger.driver_term import ledger_property
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.route.ownership import check_ledger, claim_table, table_identity
from sluiceway.sinks.contract import TableIdentity, TableState
from sluiceway.storage.contract import PutResult
from sluiceway.storage.local import LocalStorage
from sluiceway.types.schema import Schema
from tools.ledger_records import fence, fold_of, sources


def state(tmp_path: Path, *, ledger: str | None = None, created: int = 7) -> TableState:
    identity = TableIdentity("thrift://m:1", "ods", "orders", created, str(tmp_path))
    return TableState(identity, Schema(()), (), ledger)


def layout(tmp_path: Path) -> LedgerLayout:
    return LedgerLayout(str(tmp_path), "orders")


def test_owner_is_put_once_and_found_again(tmp_path: Path) -> None:
    storage = LocalStorage()
    first = claim_table(storage, layout(tmp_path), state(tmp_path), "orders")
    assert claim_table(storage, layout(tmp_path), state(tmp_path), "orders") == first


def test_table_of_another_job_or_route_is_refused(tmp_path: Path) -> None:
    storage = LocalStorage()
    claim_table(storage, layout(tmp_path), state(tmp_path), "orders")
    with pytest.raises(LedgerMismatchError, match="filled by job orders"):
        claim_table(storage, layout(tmp_path), state(tmp_path), "other")
    with pytest.raises(LedgerMismatchError, match="one table has one ledger"):
        claim_table(storage, LedgerLayout(str(tmp_path), "x"), state(tmp_path), "orders")


def test_unreadable_owner_is_refused(tmp_path: Path) -> None:
    storage = LocalStorage()
    claim_table(storage, layout(tmp_path), state(tmp_path), "orders")
    Path(layout(tmp_path).owner).write_bytes(b"{")
    with pytest.raises(LedgerCorruptError):
        claim_table(storage, layout(tmp_path), state(tmp_path), "orders")


def test_ledger_is_accepted_after_a_crash_between_any_two_steps(tmp_path: Path) -> None:
    owner = claim_table(LocalStorage(), layout(tmp_path), state(tmp_path), "orders")
    first = replace(fence(ledger=owner.ledger), table=table_identity(state(tmp_path)))
    marked = state(tmp_path, ledger=ledger_property(owner))
    check_ledger(state(tmp_path), owner, Fold())
    check_ledger(state(tmp_path), owner, fold_of(first))
    check_ledger(marked, owner, fold_of(first))
    check_ledger(marked, owner, fold_of(first, sources(0)))


def test_ledger_that_does_not_fit_the_table_halts(tmp_path: Path) -> None:
    owner = claim_table(LocalStorage(), layout(tmp_path), state(tmp_path), "orders")
    first = replace(fence(ledger=owner.ledger), table=table_identity(state(tmp_path)))
    marked = state(tmp_path, ledger=ledger_property(owner))
    cases = {
        "log is gone": (marked, Fold()),
        "does not name it": (state(tmp_path), fold_of(first, sources(0))),
        "made for": (
            state(tmp_path, ledger=ledger_property(owner), created=8),
            fold_of(first, sources(0)),
        ),
        "OWNER says": (state(tmp_path, ledger="0" * 32 + "@/elsewhere"), fold_of(first)),
        "log is of ledger": (marked, fold_of(replace(first, ledger="0" * 32))),
    }
    for message, (table, fold) in cases.items():
        with pytest.raises(LedgerMismatchError, match=message):
            check_ledger(table, owner, fold)


class SyncsSeen(LocalStorage):
    """Notes what is read and which folders are synced."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def read(self, path: str) -> bytes | None:
        self.steps.append(f"read {Path(path).name}")
        return super().read(path)

    def sync_folder(self, folder: str) -> None:
        self.steps.append(f"sync {Path(folder).name}")
        super().sync_folder(folder)


def test_owner_of_another_is_durable_before_anything_is_built_upon_it(tmp_path: Path) -> None:
    """Whoever put it may have died before the sync of its name."""
    first = claim_table(LocalStorage(), layout(tmp_path), state(tmp_path), "orders")
    storage = SyncsSeen()
    assert claim_table(storage, layout(tmp_path), state(tmp_path), "orders") == first
    assert storage.steps[-2:] == ["read OWNER", "sync _sluiceway"]


class LosesIt(LocalStorage):
    """A file that was put goes at once."""

    def put_if_absent(self, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        result = super().put_if_absent(path, content, tmp_folder=tmp_folder)
        Path(path).unlink()
        return result


def test_owner_that_was_put_and_is_gone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerCorruptError, match="OWNER was written and is gone"):
        claim_table(LosesIt(), layout(tmp_path), state(tmp_path), "orders")
