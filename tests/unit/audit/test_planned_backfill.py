"""What `backfill --dry-run` refuses, as the backfill itself does."""

from types import SimpleNamespace
from typing import Any

import pytest

from sluiceway.audit import planned_backfill
from sluiceway.errors import RequestRefusedError
from sluiceway.upkeep.partition_requests import RowOrigin

HOUR = "dt=20261129/hr=19"


class _RowsAreReadError(Exception):
    """The rows would be read."""


@pytest.mark.parametrize("origin", [*RowOrigin])
@pytest.mark.parametrize("closed", [True, False])
def test_open_hour_is_read_from_its_own_ledger_only(
    origin: RowOrigin, *, closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reads(config: object) -> None:
        raise _RowsAreReadError

    monkeypatch.setattr(planned_backfill, "registry_columns", reads)
    monkeypatch.setattr(planned_backfill, "why_not_swapped", lambda *_: "")
    fold = SimpleNamespace(
        closed=["dt=20261129/hr=18"],
        closed_above=lambda prefix: prefix if closed else None,
        below=lambda prefix: [],
    )
    config: Any = SimpleNamespace(units=None)
    ledger: Any = SimpleNamespace(fold=fold)
    expected = _RowsAreReadError if closed or origin is RowOrigin.LEDGER else RequestRefusedError
    with pytest.raises(expected):
        planned_backfill.foresee(config, ledger, HOUR, origin)
