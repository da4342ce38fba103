"""Rows that went aside, as their partitions are sealed, are told of."""

import pytest

from sluiceway.observe.log import stderr_log
from sluiceway.route.epoch_report import log_sealed
from tools.ledger_records import data, span, with_late


def test_rows_of_sealed_times_are_told_with_the_first_of_these(
    capsys: pytest.CaptureFixture[str],
) -> None:
    record = data(1, 0, span(0, 0, 9))
    landed = with_late(record, 4)
    log_sealed(stderr_log(level="warning"), record, landed)
    told = capsys.readouterr().err
    assert '"event": "rows_for_sealed"' in told
    assert '"rows": "4"' in told or '"rows": 4' in told
    assert '"first": "dt=20261120/hr=08"' in told
    log_sealed(stderr_log(level="warning"), landed, landed)
    assert capsys.readouterr().err == ""
