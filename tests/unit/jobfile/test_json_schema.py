"""The JSON Schema of job files: examples fit, wrong files do not, every key says what it means."""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from sluiceway.jobfile.blocks.models import JobBlocks, RunSpec
from sluiceway.jobfile.blocks.values import LOSSY_RULES
from sluiceway.jobfile.json_schema import job_file_schema

ROOT = Path(__file__).parents[3]
WRONG = ROOT / "tests/bad/jobs"
# What depends on several keys, on the file's writing or on what is outside of it: for `validate`.
BEYOND = {
    *("env_missing", "file_missing", "open_reference", "plain_secret", "group_id"),
    *("unknown_property", "no_connection", "wrong_kind_of_connection", "topic_pattern_in_list"),
    *("duration_too_short", "type_unknown", "type_of_postgres", "column_twice", "no_broker_port"),
    *("event_time_no_column", "event_time_no_unit", "time_pattern", "timezone", "table_name"),
    *(
        "partition_column_missing",
        "partition_hidden",
        "field_name",
        "tab_indent",
        "key_twice",
        "unclosed",
    ),
    *("where_syntax", "where_unknown_column", "ready_without_time", "ratio", "master"),
    *("location", "retention_short", "default_type", "metastore_key_alone", "anchor"),
    "unit_and_zone",
}


@cache
def checker() -> Callable[[Any], Any]:
    made: Callable[[Any], Any] = fastjsonschema.compile(job_file_schema())
    return made


def fits(text: str) -> bool:
    try:
        data = json.loads(json.dumps(YAML(typ="safe", pure=True).load(text)))
        checker()(data)
    except (fastjsonschema.JsonSchemaValueException, YAMLError):
        return False
    return True


def examples() -> Iterator[tuple[str, str]]:
    for path in sorted([*ROOT.glob("examples/**/*.yaml"), *ROOT.glob("docs/**/*.md")]):
        text = path.read_text("utf-8")
        blocks = [text] if path.suffix == ".yaml" else re.findall(
            r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL
        )  # fmt: skip
        for number, block in enumerate(blocks):
            if re.search("^version: 1", block, re.MULTILINE) and "\nconnections:" in block:
                yield f"{path.name}-{number}", block


EXAMPLES = dict(examples())
BASE = EXAMPLES["orders.yaml-0"]


def test_examples_of_files_and_pages_are_found() -> None:
    assert {"orders.yaml", "first-table.md"} <= {name.rpartition("-")[0] for name in EXAMPLES}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_whole_example_fits(name: str) -> None:
    assert fits(EXAMPLES[name])


@pytest.mark.parametrize("path", sorted(WRONG.glob("*.yaml")), ids=lambda path: path.stem)
def test_wrong_job_file_does_not_fit_unless_only_validate_can_know(path: Path) -> None:
    if path.stem in BEYOND:
        assert path.stem in {each.stem for each in WRONG.glob("*.yaml")}
        return
    assert not fits(path.read_text("utf-8"))


def test_more_wrong_files_are_seen_by_the_schema_than_are_not() -> None:
    stems = {path.stem for path in WRONG.glob("*.yaml")}
    assert stems >= BEYOND
    assert len(stems - BEYOND) >= 20


@pytest.mark.parametrize(
    "change",
    [
        ("start: earliest", "start: {group: old}"),
        ("start: earliest", 'start: {timestamp: "2026-11-20T08:00:00Z"}'),
        ("start: earliest", "start: {offsets: {orders: {0: 5}}}"),
        ("topics: [orders]", 'topics: "app_(.*)"'),
        ("interval: 2s", 'interval: "${env:INTERVAL}"'),
        ("{name: user_id, type: bigint}", "{name: user_id, type: bigint, on_lossy: null}"),
        ("meta: [topic, partition, offset, timestamp]", "meta: {topic: t, key_text: k}"),
        ("format: {json: {unknown_fields: ignore}}", "format: {raw: {tombstones: null}}"),
        ("unit: ms, timezone: UTC", "unit: ms, archive_window: unlimited"),
        ("run: {", "dirty: {store: {topic: bad}, reasons: {overflow: 5}}\nrun: {"),
        ("run: {", "dirty: {store: beside}\nrun: {health_port: 0, max_rate: 5000/s, "),
    ],
    ids=lambda change: change[1][:30],
)
def test_every_way_to_write_a_value_fits(change: tuple[str, str]) -> None:
    assert change[0] in BASE
    assert fits(BASE.replace(*change, 1))


ROUTES = """\
version: 1
name: many
connections: {main: {kafka: {bootstrap_servers: "k1:9092"}}, hms: {metastore: {uri: "thrift://h:1"}}}
source: {connection: main}
format: {json: {}}
table: {hive: {connection: hms}, partition_by: []}
routes:
  - {topics: [a], table: ods.a}
  - {topics: "b_(.*)", table: {hive: {name: "ods.b_{1}"}}, event_time: {field: ts}}
"""


def test_blocks_of_a_file_with_routes_are_defaults_that_may_lack_keys() -> None:
    assert fits(ROUTES)
    assert not fits(ROUTES.replace("routes:", "rotes:"))
    assert not fits(ROUTES.partition("routes:")[0])
    assert not fits(ROUTES.replace("{topics: [a], table", "{topic: [a], table"))


def keys_of(schema: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for name, block in {"": schema, **schema["definitions"]}.items():
        for key, value in block.get("properties", {}).items():
            yield name, key, value


def test_every_key_says_what_it_means() -> None:
    keys = list(keys_of(job_file_schema()))
    assert len(keys) > 120
    assert [(block, key) for block, key, value in keys if not value.get("description")] == []


def test_words_defaults_and_forms_are_there_for_an_editor() -> None:
    schema = job_file_schema()
    blocks = schema["definitions"]
    assert blocks["HiveTable"]["properties"]["file_format"]["enum"][0] == "parquet"
    assert blocks["ColumnSpec"]["properties"]["on_lossy"]["enum"] == [*LOSSY_RULES, None]
    assert blocks["RunSpec"]["properties"]["interval"]["default"] == "10s"
    assert blocks["RunSpec"]["properties"]["memory_per_task"]["default"] == "512MiB"
    assert blocks["EventTimeSpec"]["properties"]["max_future"]["default"] == "1h"
    assert set(blocks["RunSpec"]["properties"]) == {
        info.alias or name for name, info in RunSpec.model_fields.items()
    }
    assert set(schema["properties"]) == {*JobBlocks.model_fields, "routes"}
