"""Patterns and topics -> routes, and what a job does with them over time."""

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from sluiceway.audit.pick_route import pick_route
from sluiceway.driver import discovery as discovery_module
from sluiceway.driver.discovery import Discovery
from sluiceway.errors import SourceUnavailableError, UnhealthyEnvironmentError, WrongUsageError
from sluiceway.jobfile.blocks.start import EARLIEST, LATEST
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.compile.config import CompiledJob, RouteTemplate
from sluiceway.jobfile.loader import parse_job
from sluiceway.observe.log import stderr_log
from sluiceway.sources.contract import (
    DiscoveredPartition,
    LogBounds,
    SourceClient,
    SourcePartition,
)

SHARED = """\
version: 1
name: many
connections:
  main: {kafka: {bootstrap_servers: "k1:9092"}}
  hms: {metastore: {uri: "thrift://hms:9083"}}
source: {connection: main}
format: {json: {}}
table:
  hive: {connection: hms}
  columns: [{name: id, type: bigint}]
  partition_by: []
run: {discover_interval: 1s}
routes:
"""


class TopicList(SourceClient):
    """A cluster that only says which topics it has."""

    def __init__(self, *topics: str) -> None:
        self.topics = topics
        self.failure: Exception | None = None

    def list_topics(self) -> tuple[str, ...]:
        if self.failure is not None:
            raise self.failure
        return tuple(sorted(self.topics))

    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        raise NotImplementedError

    def bounds(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        raise NotImplementedError

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
        raise NotImplementedError


def compiled(*routes: str) -> CompiledJob:
    text = SHARED + "".join(f"  - {route}\n" for route in routes)
    return compile_routes(parse_job(text.encode(), Path("job.yaml"), {}).spec)


def template(route: str) -> RouteTemplate:
    (found,) = compiled(route).templates
    return found


class Watched:
    """A discovery over one cluster, and what it logs."""

    def __init__(self, cluster: TopicList, *routes: str) -> None:
        self.job = compiled(*routes)
        self.lines = io.StringIO()
        accesses = {each.route.source for each in self.job.templates}
        sources = dict.fromkeys(accesses, cluster)
        self.discovery = Discovery(self.job, sources, stderr_log(stream=self.lines))

    def look(self) -> dict[str, tuple[str, ...]]:
        return {config.route: config.topics for config in self.discovery.read_topics()}

    def events(self) -> list[tuple[str, str | None]]:
        lines = [json.loads(line) for line in self.lines.getvalue().splitlines()]
        return [(line["event"], line.get("topic")) for line in lines]


def failure_of(watched: Watched) -> Exception | None:
    return watched.discovery.failure


def test_listed_routes_and_patterns_are_compiled_apart() -> None:
    job = compiled(
        "{topics: [a, b], table: ods.ab}",
        '{topics: "x_(.*)", table: "ods.{1}"}',
        "{topics: [c], table: ods.c, source: {start: earliest}}",
    )
    assert [(r.route, r.topics, r.pattern) for r in job.routes] == [
        ("ods-ab", ("a", "b"), ""),
        ("ods-c", ("c",), ""),
    ]
    assert [route.start for route in job.routes] == [LATEST, EARLIEST]
    assert [(each.route.pattern, each.table) for each in job.templates] == [("x_(.*)", "ods.{1}")]
    assert job.discover_interval_s == 1.0
    assert job.routes[0].group == "sluiceway-many-ods-ab"


def test_expand_makes_one_route_of_each_table_with_all_its_topics() -> None:
    found = template('{topics: "app_(?P<app>[^.]*)(?:[.].*)?", table: "ods.app_{app}"}').expand(
        ("app_b", "other", "app_a.2", "app_A.1", "app_a", "xapp_a")
    )
    assert [(r.route, r.table.database, r.table.table, r.topics) for r in found.routes] == [
        ("ods-app_a", "ods", "app_a", ("app_A.1", "app_a", "app_a.2")),
        ("ods-app_b", "ods", "app_b", ("app_b",)),
    ]
    assert found.refused == ()
    # Hive keeps names in lower case: two topics meet in one table without anybody's wish.
    assert [(one.topic, one.reason) for one in found.shared] == [
        ("app_a", "ods.app_a is filled from app_A.1 too: the names differ in case only"),
        ("app_a.2", "ods.app_a is filled from app_A.1 too: the names differ in case only"),
    ]
    assert {route.pattern for route in found.routes} == {"app_(?P<app>[^.]*)(?:[.].*)?"}


def test_expand_of_a_plain_table_keeps_the_given_name() -> None:
    (route,) = template('{topics: "e.", table: ods.events, name: ev}').expand(("e1", "e2")).routes
    assert (route.route, route.topics, route.table.table) == ("ev", ("e1", "e2"), "events")
    assert template('{topics: "e.", table: ods.events}').expand(("x",)).routes == ()


@pytest.mark.parametrize(
    "topic",
    [
        "t_",
        "t_1-a",
        "t_a.b",
        "t_../../x",
        "t_a;drop table x",
        "t_a`",
        "t_" + "a" * 200,
        "t_é",
        "t_a\n",
    ],
)
def test_hostile_topic_gets_no_table(topic: str) -> None:
    found = template('{topics: "t_([^/]*|.*)", table: "ods.{1}"}').expand((topic, "t_good"))
    assert [route.table.table for route in found.routes] == ["good"]
    assert [one.topic for one in found.refused] in ([topic], [])
    # A line break matches no `.`; all others match and are refused for what they give.
    assert found.refused or "\n" in topic


def test_topic_whose_late_rows_would_be_shown_by_another_routes_table_gets_none() -> None:
    def with_late(topics: str, table: str) -> str:
        columns = "partition_by: [{name: dt, event_time: yyyyMMdd}]"
        time = 'event_time: {field: $record_time, late_table: "late.{table}"}'
        return f'{{topics: "{topics}", table: {{hive: {{name: "{table}"}}, {columns}}}, {time}}}'

    watched = Watched(
        TopicList("t_a", "u_a", "u_b", "v_a"),
        with_late("t_(.*)", "x.{1}"),
        with_late("u_(.*)", "y.{1}"),
        '{topics: "v_(.*)", table: "late.{1}"}',
    )
    assert watched.look() == {"x-a": ("t_a",), "y-b": ("u_b",)}
    assert watched.events() == [("topic_refused", "u_a"), ("topic_refused", "v_a")]
    assert "another route fills late.a" in watched.lines.getvalue()


def test_topics_that_come_later_make_routes_that_begin_at_their_first_row() -> None:
    cluster = TopicList("t_a")
    watched = Watched(cluster, '{topics: "t_(.*)", table: "ods.{1}"}')
    assert watched.look() == {"ods-a": ("t_a",)}
    cluster.topics = ("t_a", "t_A", "t_b")
    assert watched.look() == {"ods-a": ("t_A", "t_a"), "ods-b": ("t_b",)}
    first, later = watched.discovery.read_topics()
    assert (first.start, later.start) == (LATEST, EARLIEST)
    cluster.topics = ("t_A",)
    assert watched.look() == {"ods-a": ("t_A",), "ods-b": ()}
    cluster.topics = ("t_b",)
    assert watched.look() == {"ods-a": (), "ods-b": ("t_b",)}


def test_table_or_name_of_another_route_is_refused_once() -> None:
    watched = Watched(
        TopicList("t_a", "t_b", "u_b", "t_c", "t_-"),
        "{topics: [x], table: ods.a}",
        "{topics: [y], table: ods.y, name: ods-c}",
        '{topics: "t_(.*)", table: "ods.{1}"}',
        '{topics: "u_(?P<n>.*)", table: "ods.{n}"}',
    )
    assert watched.look() == {"ods-b": ("t_b",)}
    told = watched.events()
    assert sorted(told) == sorted(("topic_refused", t) for t in ("t_a", "t_c", "t_-", "u_b"))
    watched.look()
    assert watched.events() == told


def test_pattern_that_matches_too_much_ends_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery_module, "MAX_ROUTES", 2)
    watched = Watched(
        TopicList("a", "b", "c"), "{topics: [x], table: o.x}", '{topics: ".", table: "ods.{0}"}'
    )
    assert watched.look() == {"ods-a": ("a",)}
    assert watched.events() == [("topic_refused", "b"), ("topic_refused", "c")]


@pytest.mark.parametrize("kind", [SourceUnavailableError, UnhealthyEnvironmentError])
def test_cluster_that_does_not_answer_changes_nothing_and_is_asked_again(
    kind: type[SourceUnavailableError],
) -> None:
    cluster = TopicList("t_a")
    watched = Watched(cluster, '{topics: "t_(.*)", table: "ods.{1}"}')
    cluster.failure = kind("no answer")
    assert watched.look() == {}
    assert watched.discovery.pending
    assert isinstance(failure_of(watched), kind)
    assert watched.events() == [("discovery_failed", None)]
    cluster.failure = None
    assert watched.look() == {"ods-a": ("t_a",)}
    assert not watched.discovery.pending
    assert failure_of(watched) is None
    cluster.failure = kind("no answer")
    assert watched.look() == {"ods-a": ("t_a",)}
    # The first look that is answered is the start: what it shows was there before.
    (route,) = watched.discovery.read_topics()
    assert route.start == LATEST


def test_looks_are_due_at_once_then_after_the_interval_and_once_when_bounded() -> None:
    watched = Watched(TopicList("t_a"), '{topics: "t_(.*)", table: "ods.{1}"}')
    assert watched.discovery.due(once=True)
    watched.look()
    assert not watched.discovery.due(once=False)
    watched.discovery._due = 0.0
    assert watched.discovery.due(once=False)
    assert not watched.discovery.due(once=True)
    assert not Watched(TopicList(), "{topics: [x], table: o.x}").discovery.due(once=False)


def test_pick_route_needs_a_name_only_when_there_are_several() -> None:
    routes = compiled("{topics: [a], table: o.a}", "{topics: [b], table: o.b}").routes
    assert pick_route(routes[:1], None) is routes[0]
    assert pick_route(routes, "o-b") is routes[1]
    with pytest.raises(WrongUsageError, match=r"has 2 routes .*--route: o-a, o-b"):
        pick_route(routes, None)
    with pytest.raises(WrongUsageError, match=r"no route `x` .*o-a, o-b"):
        pick_route(routes, "x")
    with pytest.raises(WrongUsageError, match="no topic matches"):
        pick_route((), None)


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [("shop_*", "shop_.*"), ("shop?orders", "shop.orders"), ("sho*.eu", "sho.*[.]eu")],
)
def test_pattern_that_is_written_as_in_a_shell_is_told(pattern: str, meant: str) -> None:
    cluster = TopicList("other", "shop_orders", "shop_users", "shop_a.eu")
    watched = Watched(cluster, f'{{topics: "{pattern}", table: "ods.all"}}')
    for _ in range(2):
        assert watched.look() == {}
    assert [event for event, _ in watched.events()] == ["topic_refused"]
    (refused,) = watched.discovery.refused
    assert "is a regular expression, which it" in refused.reason
    assert refused.reason.endswith(f"does not match: write `{meant}`")
    misread = watched.discovery.misread
    assert misread is not None
    assert (misread.exit_code, misread.message) == (
        2,
        f"no topic matches the pattern `{pattern}`",
    )
    assert f"write `{meant}`" in misread.hint


@pytest.mark.parametrize(
    ("pattern", "topics"),
    [("shop_*", ("other",)), ("shop_.*", ("other",)), ("shop_*", ("shop_", "shop_a")), ("x", ())],
)
def test_pattern_that_matches_or_matches_nothing_either_way_is_no_mistake(
    pattern: str, topics: tuple[str, ...]
) -> None:
    watched = Watched(TopicList(*topics), f'{{topics: "{pattern}", table: "ods.all"}}')
    watched.look()
    assert watched.discovery.misread is None
    assert watched.events() == []


def test_discovery_keeps_what_is_refused_or_shared_as_long_as_it_is_there() -> None:
    cluster = TopicList("t_a", "t_A", "t_-")
    watched = Watched(cluster, '{topics: "t_(.*)", table: "ods.{1}"}')
    for _ in range(2):
        watched.look()
        assert [one.topic for one in watched.discovery.refused] == ["t_-"]
        assert [one.topic for one in watched.discovery.shared] == ["t_a"]
    assert watched.events() == [("topic_refused", "t_-"), ("topics_share_table", "t_a")]
    cluster.topics = ("t_a",)
    watched.look()
    assert (watched.discovery.refused, watched.discovery.shared) == ((), ())
