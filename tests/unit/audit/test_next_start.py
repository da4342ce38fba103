"""What `offsets show` and `verify` say of a route whose next start would halt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluiceway.audit import health_checks, next_run
from sluiceway.audit.health_checks import Health
from sluiceway.audit.open_table import OpenTable
from sluiceway.audit.planned_route import foresee_source
from sluiceway.audit.run_verify import verify_route
from sluiceway.audit.source_offsets import PartitionOffsets, RouteOffsets, _offsets, route_offsets
from sluiceway.catalog.hive_table import HiveColumn
from sluiceway.cli.commands.offsets import _code, _print_route
from sluiceway.errors import (
    Fatal,
    LedgerMismatchError,
    SourceUnavailableError,
    TopicNotFoundError,
)
from sluiceway.jobfile.blocks.start import StartAt
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.driver_term import Owner
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import SourceState
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.schedule.source_view import SourceView
from sluiceway.sinks.hive.folder_catalog import FolderCatalog
from sluiceway.sinks.hive.table import HiveTableSink
from sluiceway.sinks.hive.table_check import table_to_create
from sluiceway.sources.contract import (
    DiscoveredPartition,
    LogBounds,
    SourceClient,
    SourceIdentity,
    SourcePartition,
)
from sluiceway.storage.access import NO_STORES
from sluiceway.storage.local import LocalStorage
from sluiceway.types.schema import Schema
from sluiceway.types.strict_json import encode
from tools.board_sessions import placed_session
from tools.ledger_records import data, fence, fold_of, sources, span

_ZERO = SourcePartition("orders", 0)


@dataclass
class Cluster(SourceClient):
    """One partition of one topic, whose log runs from 5 to 9, until `failure`."""

    failure: Exception | None = None

    def list_topics(self) -> tuple[str, ...]:
        return () if self.failure else ("orders",)

    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        if self.failure is not None:
            raise self.failure
        return tuple(DiscoveredPartition(_ZERO, SourceIdentity("c1", "t1"), 0) for _ in topics)

    def bounds(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        return dict.fromkeys(partitions, LogBounds(5, 9, 9))

    def offsets_at(
        self, partitions: Sequence[SourcePartition], timestamp_ms: int
    ) -> dict[SourcePartition, int]:
        raise NotImplementedError

    def committed(
        self, group: str, partitions: Sequence[SourcePartition]
    ) -> dict[SourcePartition, int]:
        raise NotImplementedError

    def report(self, group: str, ends: Mapping[SourcePartition, int]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing to close."""


@dataclass
class Place:
    """A table that no driver has fenced yet, and its cluster."""

    root: Path
    config: RouteConfig
    cluster: Cluster = field(default_factory=Cluster)
    columns: tuple[HiveColumn, ...] | None = None

    def open(self, config: RouteConfig) -> OpenTable:
        hive = replace(config.table, metastore=f"folder:{self.root}")
        sink = HiveTableSink(hive)
        table = table_to_create(hive, hive.schema or Schema(()))
        columns = self.columns or table.layout.columns
        layout = replace(table.layout, location=str(self.root), columns=columns)
        FolderCatalog(str(self.root), NO_STORES).create_table(replace(table, layout=layout))
        ledger = LedgerLayout(str(self.root), config.route)
        storage = LocalStorage()
        storage.make_folders(ledger.log)
        return OpenTable(config, sink.inspect(), sink, storage, ledger)

    def show(self) -> RouteOffsets:
        return route_offsets(self.config)

    def give_to(self, job: str, route: str) -> None:
        owner = Owner("0" * 32, job, route, str(self.root))
        (self.root / "_sluiceway").mkdir()
        (self.root / "_sluiceway" / "OWNER").write_bytes(encode(owner))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    found = Place(tmp_path, placed_session("orders").config)
    for module in ("source_offsets", "run_verify"):
        monkeypatch.setattr(f"sluiceway.audit.{module}.open_table", found.open)
    monkeypatch.setattr("sluiceway.audit.source_offsets.open_source", lambda _: found.cluster)
    return found


def test_route_that_can_start_has_no_problem(place: Place) -> None:
    shown = place.show()
    assert (shown.problems, shown.broker_error, shown.partitions) == ((), None, ())
    assert _code(shown) == 0


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (TopicNotFoundError("the cluster does not have it", where="orders"), "[SW405]"),
        (Fatal("no right to read it", where="orders"), "[SW400]"),
    ],
)
def test_topic_that_halts_the_next_start_is_a_problem(
    place: Place, failure: Exception, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place.cluster.failure = failure
    shown = place.show()
    (problem,) = shown.problems
    assert problem.startswith(code)
    assert _code(shown) == 1
    _print_route("orders", shown)
    assert f"PROBLEM {problem}\n" in capsys.readouterr().out


def test_brokers_that_are_away_are_no_reason_to_halt(place: Place) -> None:
    place.cluster.failure = SourceUnavailableError("no broker answers")
    shown = place.show()
    assert (shown.problems, shown.broker_error) == ((), "no broker answers")


def test_table_of_other_columns_is_a_problem(place: Place) -> None:
    place.columns = (HiveColumn("id", "string"),)
    (problem,) = place.show().problems
    assert problem.startswith("[SW404]")
    assert "string" in problem


def test_start_outside_of_the_log_is_a_problem(place: Place) -> None:
    start = StartAt("offsets", offsets=(("orders", 0, 2),))
    place.config = replace(place.config, start=start)
    (problem,) = place.show().problems
    assert problem.startswith("[SW455]")
    assert "starts at offset 2" in problem


@pytest.mark.parametrize(("job", "route"), [("another", "orders"), ("orders", "another")])
def test_table_of_another_job_or_route_is_one_error(place: Place, job: str, route: str) -> None:
    place.give_to(job, route)
    for k in range(3):
        (place.root / f"part-{k}.parquet").write_bytes(b"theirs")
    for look in (route_offsets, lambda config: verify_route(config, deep=False)):
        with pytest.raises(LedgerMismatchError, match=f"job {job}, route {route}") as refused:
            look(place.config)
        assert (refused.value.code, refused.value.exit_code) == ("SW454", 7)


@pytest.mark.parametrize(
    ("topic_id", "end", "says"),
    [
        ("t1", 7, ()),
        ("t1", 12, ("the log ends at 9, the committed end is 12",)),
        ("t1", 2, ("the log starts at 5, the committed end is 2",)),
        # Its numbers say nothing of another log.
        ("t2", 12, ()),
    ],
)
def test_plan_and_doctor_see_a_log_that_does_not_continue_what_was_read(
    topic_id: str, end: int, says: tuple[str, ...], place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = SourceState("c1", topic_id, 0, "earliest", end, has_data=True)
    fold = Fold()
    fold.sources["orders", 0] = known
    monkeypatch.setattr("sluiceway.audit.planned_route.open_source", lambda _: place.cluster)
    route = cast("Any", SimpleNamespace(config=place.config, fold=fold))
    found = foresee_source(route)
    assert [each.offset for each in found.starts] == [end]
    for error, text in zip(found.lost, says, strict=True):
        assert error.message.startswith(text)
    monkeypatch.setattr(health_checks, "read_splits", lambda *_: iter(()))
    checks = [each for each in health_checks._topics(route) if each.health is Health.BAD]
    assert [each.found.startswith("[SW455]") for each in checks] == [True] * len(says)
    route.table = SimpleNamespace(exists=True, state=SimpleNamespace(lacking=(), warnings=()))
    monkeypatch.setattr(next_run, "foresee_route", lambda _: route)
    monkeypatch.setattr(next_run, "foresee_source", lambda _: found)
    run = next_run.foresee_run(place.config, 0)
    stops = [risk for risk in run.risks if risk.weight is next_run.Weight.STOPS]
    assert [risk.text.startswith("[SW455] orders[0]: the log") for risk in stops] == [
        True for _ in says
    ]


@pytest.mark.parametrize(
    ("topic", "says"),
    [
        ("table:lake.events", ("source", "table:lake.events")),
        ("orders", ("broker", "127.0.0.1:1")),
    ],
)
def test_doctor_calls_a_table_that_is_read_no_broker(
    topic: str, says: tuple[str, str], place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_checks, "open_source", lambda _: place.cluster)
    config = replace(place.config, topics=(topic,))
    (found, *_) = health_checks.check_servers(cast("Any", SimpleNamespace(routes=())), [config])
    assert (found.check, found.subject) == says
    assert (", has 1 topic" in found.found) is (topic == "orders")


_ZERO, _ONE = SourcePartition("orders", 0), SourcePartition("orders", 1)


def _fold(*, retired: bool = False) -> Fold:
    """Read up to 10."""
    gone = [sources(0, start=10, retired=True, how="retired")] if retired else []
    return fold_of(fence(), sources(0), data(1, 0, span(0, 0, 10)), *gone)


def _view(
    log: LogBounds | None, *, one: SourcePartition = _ZERO, topic_id: str = "t1"
) -> SourceView:
    """A cluster with one partition of the topic; without bounds no leader answers."""
    found = DiscoveredPartition(one, SourceIdentity("c1", topic_id), 0)
    return SourceView({"orders": (found,)}, {} if log is None else {one: log}, {})


def _shown(view: SourceView | None, *, retired: bool = False) -> PartitionOffsets:
    return _offsets(_fold(retired=retired), _ZERO, view)


def test_partition_that_can_be_read_on_has_no_problem_and_its_lag() -> None:
    shown = _shown(_view(LogBounds(0, 15, 18)))
    assert (shown.problem, shown.committed_end, shown.lag) == (None, 10, 5)


@pytest.mark.parametrize(
    ("view", "problem"),
    [
        (_view(LogBounds(0, 15, 15), one=_ONE), "the cluster does not have it; when it is gone"),
        (SourceView({}, {}, {}), "the cluster does not have it"),
        (_view(None), "no leader answers for it"),
        (_view(LogBounds(0, 15, 15), topic_id="t2"), "another log of this name"),
        (_view(LogBounds(12, 15, 15)), "2 offsets were deleted before they were read"),
        (_view(LogBounds(0, 8, 8)), "it was truncated"),
    ],
    ids=["partition gone", "topic gone", "no leader", "another log", "retention", "truncation"],
)
def test_next_start_that_would_halt_is_told_with_its_reason(view: SourceView, problem: str) -> None:
    assert problem in (_shown(view).problem or "")


@pytest.mark.parametrize("log", [LogBounds(0, 15, 15), LogBounds(12, 15, 15)])
def test_lag_is_not_counted_in_another_log_of_the_same_name(log: LogBounds) -> None:
    assert _shown(_view(log, topic_id="t2")).lag is None


def test_offsets_that_retention_took_are_no_lag() -> None:
    shown = _shown(_view(LogBounds(12, 15, 15)))
    assert (shown.log_start, shown.lag) == (12, 3)


def test_partition_that_was_retired_or_that_nobody_was_asked_about_has_no_problem() -> None:
    gone = _view(LogBounds(0, 15, 15), one=_ONE)
    assert _shown(gone, retired=True).problem is None
    assert _shown(None).problem is None
    assert _shown(None).lag is None
