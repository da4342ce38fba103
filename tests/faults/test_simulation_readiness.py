"""The simulation's demands on watermarks: what a driver's look could know of."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sim.broker import Broker
from sim.places import ViolationError
from sim.readiness import Seen

_FIRST_SECOND = 1_795_161_600
_ELECTED_AT, _LOOKED_AT = 66.27090826357933, 66.41542497061633
# What a clock of whole microseconds says then; in seconds since 1970 a hair after the answer.
_READ_AT_US = _FIRST_SECOND * 1_000_000 + 66_415_425


def _broker(*, voted_out: bool) -> Broker:
    """One log, in which a row came under its new leader."""
    old_leader_answers = SimpleNamespace(random=lambda: 0.0)
    weather = cast("Any", None)
    broker = Broker(cast("Any", old_leader_answers), weather, lambda: _LOOKED_AT)
    broker.create("orders", 1)
    log = broker.topics["orders"][0]
    log.append([True], _ELECTED_AT - 1)
    log.elect(_ELECTED_AT, 1)
    log.append([True], _ELECTED_AT)
    if not voted_out:
        log.voted_out = None
    return broker


def _ends_of_two_looks(broker: Broker) -> set[int]:
    log = broker.topics["orders"][0]
    return {broker.bounds_of(log).end_offset for _ in range(2)}


def test_row_may_be_missed_that_the_answering_leader_could_not_know_of() -> None:
    broker = _broker(voted_out=True)
    assert _ends_of_two_looks(broker) == {1}
    source = SimpleNamespace(topic_id="orders#1", end=1)
    Seen(broker).check_idle(source, 0, _READ_AT_US, 23)


def test_row_may_not_be_missed_that_the_answering_leader_has() -> None:
    broker = _broker(voted_out=False)
    assert _ends_of_two_looks(broker) == {2}
    source = SimpleNamespace(topic_id="orders#1", end=1)
    with pytest.raises(ViolationError, match=r"rule 11: slot 23: \[0\] is idle, and has 1"):
        Seen(broker).check_idle(source, 0, _READ_AT_US, 23)
