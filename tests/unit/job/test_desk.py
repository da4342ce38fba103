"""Records of background work: whoever asks is told, whatever happens."""

from pathlib import Path

import pytest

from sluiceway.job.desk import Build, RouteDesk
from sluiceway.ledger.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.storage.local import LocalStorage


def test_bug_in_a_record_is_told_to_whoever_waits_for_it(tmp_path: Path) -> None:
    desk = RouteDesk(LedgerLog(LocalStorage(), LedgerLayout(str(tmp_path), "orders")), ())

    def build(fold: Fold) -> None:
        raise KeyError("a partition that is not there")

    answer = desk.ask(build)

    def put(made: Build) -> int | None:
        made(Fold())
        return None

    with pytest.raises(KeyError):
        desk.serve(put)
    assert answer.done()
    assert isinstance(answer.exception(), KeyError)
