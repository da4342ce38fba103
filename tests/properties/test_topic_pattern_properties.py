"""Whatever a pattern is, it is refused or answers; whatever topics are, tables are plain."""

import re
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from sluiceway.jobfile.blocks.routes import is_route_name
from sluiceway.jobfile.blocks.topic_pattern import compile_topic_pattern, groups_in, missing_groups
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.compile.config import RouteTemplate
from sluiceway.jobfile.loader import parse_job
from tools.hang import ended_if_endless

PIECES = st.sampled_from(
    ["a", "b", ".", "\\w", "[ab]", "[^_]", "_", "(", ")", "(?:", "(?P<g>", "(?=", "(?!", "|",
     "*", "+", "?", "{2}", "{,3}", "{1,}", "*?", "++", "\\", "[", "]", "{", "}", "\\1", "é"]
)  # fmt: skip
PATTERNS = st.lists(PIECES, max_size=25).map("".join)
TABLE = re.compile(r"[a-z_][a-z0-9_]{0,127}")
JOB = b"""\
version: 1
name: many
connections:
  main: {kafka: {bootstrap_servers: "k1:9092"}}
  hms: {metastore: {uri: "thrift://hms:9083"}}
source: {connection: main, topics: "(.*)"}
format: {json: {}}
table: {hive: {connection: hms, name: "ods.{1}"}, partition_by: []}
"""


def template(pattern: str, table: str) -> RouteTemplate:
    (found,) = compile_routes(parse_job(JOB, Path("job.yaml"), {}).spec).templates
    return RouteTemplate(replace(found.route, pattern=pattern), table)


@given(PATTERNS, st.sampled_from(["a", "ab", "a_", "_", "b"]))
@settings(deadline=None)
def test_any_pattern_is_refused_or_answers(text: str, unit: str) -> None:
    try:
        pattern = compile_topic_pattern(text)
    except PydanticCustomError:
        return
    name = (unit * 249)[:248] + "!"
    with ended_if_endless():
        found = pattern.fullmatch(name)
    assert found is None or found.group() == name


@given(
    st.lists(st.text(max_size=12) | st.from_regex(r"[a-z_.]{1,9}", fullmatch=True), max_size=12),
    st.sampled_from(["(.*)", "a(.*)", "(?s:(.*))", "(.)(.*)"]),
    st.sampled_from(["ods.{1}", "{1}.t", "{0}.{0}", "ods.x{1}y"]),
)
@settings(deadline=None)
def test_any_topics_give_plain_tables_and_each_topic_is_somewhere(
    topics: list[str], pattern: str, table: str
) -> None:
    compiled = re.compile(pattern)
    if missing_groups(table, compiled):
        return
    found = template(pattern, table).expand(tuple(set(topics)))
    for route in found.routes:
        assert TABLE.fullmatch(route.table.database)
        assert TABLE.fullmatch(route.table.table)
        assert is_route_name(route.route)
    placed = [topic for route in found.routes for topic in route.topics]
    matching = [topic for topic in set(topics) if compiled.fullmatch(topic)]
    assert sorted([*placed, *(one.topic for one in found.refused)]) == sorted(matching)
    assert len({route.route for route in found.routes}) == len(found.routes)
    assert groups_in(table)
