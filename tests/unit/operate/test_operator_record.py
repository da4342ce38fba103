"""An operator's record: behind a fence of its own, which lets go of the route whatever happens."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluiceway.errors import LeaseHeldError, ResetRefusedError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.records import Body
from sluiceway.operate import operator_record
from sluiceway.operate.operator_record import put_operator_record
from tools.ledger_records import fence, fold_of, sources

CONFIG = cast("Any", SimpleNamespace(route="orders"))


class Route:
    """Notes in which order things are done to it; `held` by another driver or not."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.held = False
        self.fold = fold_of(fence())
        self.lease = SimpleNamespace(release=lambda: self.done.append("released"))
        self.writer = SimpleNamespace(commit=self._commit)

    def close(self) -> None:
        self.done.append("closed")

    def take_over(self, *_: object) -> "Route":
        if self.held:
            raise LeaseHeldError("a driver runs the route")
        self.done.append("fenced")
        return self

    def _commit(self, body: Body) -> Any:
        del body
        self.done.append("put")
        return SimpleNamespace(seq=7)


@pytest.fixture
def route(monkeypatch: pytest.MonkeyPatch) -> Route:
    made = Route()
    monkeypatch.setattr(operator_record, "open_sink", lambda _: made)
    monkeypatch.setattr(operator_record, "take_over", made.take_over)
    return made


def test_record_is_put_behind_the_fence_and_the_next_driver_need_not_wait(route: Route) -> None:
    assert put_operator_record(CONFIG, lambda _: sources(0)) == 7
    assert route.done == ["fenced", "put", "released", "closed"]


def test_record_that_cannot_be_made_leaves_a_fence_and_nobody_who_holds_it(route: Route) -> None:
    def refused(fold: Fold) -> Body:
        assert fold is route.fold
        raise ResetRefusedError("the ledger has moved on")

    with pytest.raises(ResetRefusedError):
        put_operator_record(CONFIG, refused)
    assert route.done == ["fenced", "released", "closed"]


def test_route_that_a_driver_runs_is_left_alone(route: Route) -> None:
    route.held = True
    with pytest.raises(LeaseHeldError):
        put_operator_record(CONFIG, lambda _: sources(0))
    assert route.done == ["closed"]
