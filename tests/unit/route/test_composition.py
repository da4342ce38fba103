"""Who waits for whom among the followers of a route."""

from types import SimpleNamespace
from typing import Any

import pytest

from sluiceway.ledger.follower import Follower, LogView
from sluiceway.observe.figures import Figures
from sluiceway.observe.log import stderr_log
from sluiceway.route import composition
from sluiceway.sinks.iceberg.compact.lake_upkeep import LakeUpkeep


class Named(Follower):
    def __init__(self, name: str, *, publishes: bool = False) -> None:
        self.name, self.publishes = name, publishes

    def place(self) -> int:
        return 0

    def follow(self, view: LogView) -> int:
        return view.through


@pytest.mark.parametrize(("adoptions", "more"), [((), ()), (("one",), ("cut_files",))])
def test_nobody_who_tells_of_rows_waits_for_upkeep(
    monkeypatch: pytest.MonkeyPatch, adoptions: tuple[str, ...], more: tuple[str, ...]
) -> None:
    """Of an adopted table they wait until no file of a cut slot is in a folder of theirs."""
    table, upkeep = Named("table", publishes=True), LakeUpkeep("sql", None)
    teller, lineage, offsets = Named("tell-webhook"), Named("lineage"), Named("offsets")
    monkeypatch.setattr(composition, "feeders_of", lambda *_: ())
    monkeypatch.setattr(composition, "late_follower", lambda *_: None)
    monkeypatch.setattr(composition, "source_namespace", lambda _: "s")
    monkeypatch.setattr(composition, "GroupOffsets", lambda *_: offsets)
    monkeypatch.setattr(composition, "_lineage", lambda *_: lineage)
    monkeypatch.setattr(composition, "_followed", lambda *_: None)
    sink = SimpleNamespace(followers=lambda _: (table, upkeep))
    config: Any = SimpleNamespace(lineage=object(), source=None, group="g", interval_s=1.0)
    owned: Any = SimpleNamespace(
        storage=None,
        layout=None,
        tenure=SimpleNamespace(check=None),
        log=SimpleNamespace(storage=None, layout=None),
        fold=SimpleNamespace(adoptions=adoptions),
    )
    context: Any = SimpleNamespace(
        config=config,
        parts=SimpleNamespace(sink=sink),
        log=stderr_log(level="error"),
        figures=SimpleNamespace(figures=Figures()),
        source=None,
    )
    ready: Any = SimpleNamespace(announcers=(teller,))
    composed = composition.compose(context, owned, ready)
    names = [each.name for each in composed.runner.states()]
    assert sorted(names) == [*more, "lineage", "offsets", "table", "tell-webhook", "upkeep"]
    assert teller.after == lineage.after == ("table", *more)
    composed.runner.close()
