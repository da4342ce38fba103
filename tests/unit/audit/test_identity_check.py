"""What `verify` says of OWNER, the log and the table: what a driver's start would refuse."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluiceway.audit import open_table
from sluiceway.audit.open_table import identity_problems
from sluiceway.errors import LedgerMismatchError
from sluiceway.ledger.driver_term import Owner
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import encode
from tools.ledger_records import LEDGER, fence, fold_of, sources

TABLE = SimpleNamespace(identity="ods.orders", state=lambda: "as a start takes it")


@pytest.fixture
def layout(tmp_path: Path) -> LedgerLayout:
    found = LedgerLayout(str(tmp_path), "orders")
    Path(found.owner).parent.mkdir(parents=True)
    return found


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the check of a driver's start was asked; it finds nothing."""
    found: list[tuple[Any, ...]] = []
    monkeypatch.setattr(open_table, "check_ledger", lambda *given: found.append(given))
    return found


def _own(layout: LedgerLayout, *, job: str = "orders", route: str = "orders") -> Owner:
    owner = Owner(LEDGER, job, route, layout.table_root)
    Path(layout.owner).write_bytes(encode(owner))
    return owner


def _problems(layout: LedgerLayout, fold: Fold, *, job: str = "orders") -> list[tuple[str, str]]:
    config = cast("Any", SimpleNamespace(job=job, route="orders"))
    return identity_problems(LocalStorage(), layout, fold, cast("Any", TABLE), config)


def test_owner_log_and_table_that_belong_together_have_no_problem(
    layout: LedgerLayout, asked: list[tuple[Any, ...]]
) -> None:
    owner, fold = _own(layout), fold_of(fence(), sources(0))
    assert _problems(layout, fold) == []
    assert asked == [("as a start takes it", owner, fold)]
    # OWNER is put before the first fence.
    assert _problems(layout, Fold()) == []


def test_owner_that_is_gone_is_a_problem_once_there_is_a_log(
    layout: LedgerLayout, asked: list[tuple[Any, ...]]
) -> None:
    assert _problems(layout, Fold()) == []
    assert _problems(layout, fold_of(fence())) == [(layout.owner, "OWNER is gone")]
    assert asked == []


def test_owner_that_cannot_be_read_is_a_problem(
    layout: LedgerLayout, asked: list[tuple[Any, ...]]
) -> None:
    Path(layout.owner).write_bytes(b"{")
    ((where, told),) = _problems(layout, fold_of(fence()))
    assert (where, asked) == (layout.owner, [])
    assert told.startswith("OWNER is unreadable")


@pytest.mark.usefixtures("asked")
def test_owner_of_another_job_and_a_log_of_another_job_are_told_apart(
    layout: LedgerLayout,
) -> None:
    _own(layout, job="other")
    assert _problems(layout, fold_of(fence(job="other")), job="orders") == [
        (layout.owner, "names job other, route orders; this is orders, orders")
    ]
    _own(layout)
    assert _problems(layout, fold_of(fence(job="other"))) == [
        (layout.log, "the log is of job other, route orders, OWNER says orders")
    ]


def test_what_a_driver_s_start_refuses_is_told_at_the_table(
    layout: LedgerLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise LedgerMismatchError("the table was made anew")

    monkeypatch.setattr(open_table, "check_ledger", refuse)
    _own(layout)
    ((where, told),) = _problems(layout, fold_of(fence()))
    assert where == "ods.orders"
    assert "the table was made anew" in told
