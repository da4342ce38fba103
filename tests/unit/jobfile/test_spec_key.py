"""Job files of tables with a key: what they say, and what is refused with one."""

from pathlib import Path

import pytest

from sluiceway.errors import JobFileError, NotInThisVersionError
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.jobfile.blocks.models import RouteSpec
from sluiceway.jobfile.blocks.start import EARLIEST
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.loader import parse_job
from sluiceway.types.schema import Field, IntegerType, Schema
from sluiceway.worker.plan import KeyForm, KeyRule

KEYED = """\
version: 1
name: small
connections:
  main: {kafka: {bootstrap_servers: "k1:9092"}}
  lake: {iceberg: {sql: {uri: "sqlite:////c.db", warehouse: "file:///w"}}}
source: {connection: main, topics: [a]}
format: {debezium: {}}
table:
  iceberg: {connection: lake, name: ods.small}
  key: [id]
  columns: [{name: id, type: bigint}, {name: r, type: double}, {name: app, type: string}]
  partition_by: [{column: app}]
  meta: [partition, offset]
"""


def load(text: str) -> RouteSpec:
    (route,) = parse_job(text.encode(), Path("job.yaml"), {}).spec.routes
    return route


def test_a_key_reaches_the_tasks_the_decoder_and_the_table() -> None:
    config = compile_route(load(KEYED))
    assert config.key == KeyRule(("id",), KeyForm.CONNECT, 600.0)
    assert ("key", '["id"]') in config.format.options
    lake = config.table.lake
    assert lake is not None
    assert (lake.key, lake.offset_column, lake.partition_column, lake.topic_column) == (
        *(("id",), "_offset"),
        *("_source_partition", ""),
    )


@pytest.mark.parametrize("teller", ["from_topic_key", "from_registry"])
def test_a_key_that_is_told_later_is_one_already(teller: str) -> None:
    registry = '  reg: {schema_registry: {url: "http://r:8081"}}\n  main'
    text = KEYED.replace("key: [id]", f"key: {teller}").replace("  main", registry, 1)
    text = text.replace("debezium: {}", "debezium: {registry: reg}")
    config = compile_route(load(text))
    assert config.key is not None
    assert config.key.columns == ()
    assert config.awaits_key is not None
    lake = config.table.lake
    assert lake is not None
    assert (lake.offset_column, lake.compact) == ("_offset", False)


@pytest.mark.parametrize(
    ("form", "key", "said"),
    [
        ("canal: {}", "from_topic_key", "records of canal have no key"),
        ("debezium: {}", "from_registry", "expected `registry` in the format debezium"),
        ("debezium: {}", "from_nowhere", "`from_topic_key` or `from_registry`"),
    ],
)
def test_who_says_the_key_has_to_know_it(form: str, key: str, said: str) -> None:
    text = KEYED.replace("debezium: {}", form).replace("key: [id]", f"key: {key}")
    with pytest.raises(JobFileError, match=said):
        load(text)


def test_of_several_topics_the_table_knows_which_a_change_is_of() -> None:
    text = KEYED.replace("meta: [partition, offset]", "meta: [topic, partition, offset]")
    lake = compile_route(load(text)).table.lake
    assert lake is not None
    assert lake.topic_column == "_topic"


def test_maxwells_records_have_keys_of_their_own_form_or_one_partition() -> None:
    text = KEYED.replace("debezium", "maxwell")
    key = compile_route(load(text)).key
    assert key is not None
    assert key.form is KeyForm.PREFIXED
    text = text.replace("key: [id]", "key: [id]\n  key_order: one_partition\n  key_order_wait: 1m")
    assert compile_route(load(text)).key == KeyRule(("id",), None, 60.0, one_partition=True)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("key: [id]", "key: id", "expected a list of columns"),
        ("key: [id]", "key: []", "expected a list of columns"),
        ("key: [id]", "key: [nr]", "expected a declared column, got `nr`"),
        ("key: [id]", "key: [r]", "expected a key of whole numbers"),
        ("key: [id]", "key: [id, ID]", "expected `ID` once"),
        ("key: [id]", "key_order_wait: 1m", "expected `key_order_wait` with `key` only"),
        ("key: [id]", "key_order: by_key", "expected `key_order` with `key` only"),
        ("[partition, offset]", "[offset]", "expected partition, offset in `meta`"),
        ("topics: [a]", "topics: [a, b]", "expected topic, partition, offset in `meta`"),
        ("[{column: app}]", "[{name: p, constant: x}]", "expected partitions by columns"),
        (
            "format: {debezium: {}}",
            "format: {debezium: {}}\nready: {}\nevent_time: {field: app}",
            "expected no `event_time` with `key`",
        ),
        (
            "{name: id, type: bigint}",
            "{name: id, type: bigint, default: 1}",
            "`id` has `default`",
        ),
    ],
)
def test_what_has_no_meaning_with_a_key_is_refused_where_it_stands(
    old: str, new: str, said: str
) -> None:
    assert old in KEYED
    with pytest.raises(JobFileError) as caught:
        load(KEYED.replace(old, new))
    assert said in caught.value.message
    assert "job.yaml:" in caught.value.message


def test_canals_records_have_no_key_so_the_order_has_to_be_said() -> None:
    text = KEYED.replace("debezium: {}", "canal: {table: shop.orders}")
    with pytest.raises(JobFileError, match="expected a `key_order` with the format canal"):
        load(text)
    text = text.replace("key: [id]", "key: [id]\n  key_order: by_partition")
    route = compile_route(load(text))
    assert route.key == KeyRule(("id",), None)
    options = dict(route.format.options)
    assert (options["table"], options["order"]) == ("shop.orders", "by_partition")
    log = text.replace("  key: [id]\n  key_order: by_partition\n", "")
    with pytest.raises(JobFileError, match="expected `table` of canal with"):
        load(log)


def test_a_truncate_is_applied_where_one_partition_has_all_changes() -> None:
    apply = "key: [id]\n  on_truncate: apply"
    good = KEYED.replace("key: [id]", f"{apply}\n  key_order: one_partition")
    assert ("truncate", "apply") in compile_route(load(good)).format.options
    for bad, said in (
        (KEYED.replace("key: [id]", apply), "expected one topic and"),
        (good.replace("[a]", "[a, b]").replace("meta: [", "meta: [topic, "), "expected one topic"),
        (good.replace("debezium", "maxwell"), "which sends none"),
        (good.replace("debezium", "canal"), "expected `table` of canal"),
        (KEYED.replace("key: [id]", "on_truncate: apply"), "expected `on_truncate` with"),
    ):
        with pytest.raises(JobFileError, match=said):
            load(bad)


def test_a_format_without_fields_is_refused_by_name() -> None:
    with pytest.raises(NotInThisVersionError, match="`key` with the format raw is not in") as told:
        load(KEYED.replace("debezium", "raw"))
    assert "job.yaml:7:" in str(told.value)


REGISTRY = '  reg: {schema_registry: {url: "http://r:8081"}}\n  main'
IN_REGISTRY = FormatChoice(
    "json",
    (
        ("frame", "confluent"),
        ("registry.url", "http://r:8081"),
        ("registry.unknown_wait_ms", "30000"),
    ),
)


@pytest.mark.parametrize(
    ("form", "more", "rows", "key_form", "keys"),
    [
        ("json: {}", "", "delete", KeyForm.CONNECT, None),
        ("csv: {}", "", "delete", KeyForm.CONNECT, None),
        ("json: {tombstones: skip}", "key_format: text", "keep", KeyForm.TEXT, None),
        ("csv: {}", "key_format: int32", "delete", KeyForm.INT32, None),
        ("json: {registry: reg}", "key_format: int64", "delete", KeyForm.INT64, None),
        ("json: {tombstones: dirty}", "", "keep", KeyForm.CONNECT, None),
        ("json: {registry: reg}", "", "delete", KeyForm.RECORD, IN_REGISTRY),
        ("json: {registry: reg}", "key_format: json", "delete", KeyForm.CONNECT, None),
        ("csv: {}", "key_order: by_partition", "delete", None, None),
        ("json: {registry: reg}", "key_order: by_partition", "delete", None, None),
    ],
)
def test_payloads_that_are_whole_rows_reach_the_tasks_as_such(
    form: str,
    more: str,
    rows: str,
    key_form: KeyForm | None,
    keys: FormatChoice | None,
) -> None:
    text = KEYED.replace("debezium: {}", form).replace("  main", REGISTRY, 1)
    config = compile_route(load(text.replace("key: [id]", f"key: [id]\n  {more}")))
    assert config.format.whole_rows == rows
    # The formats themselves know of no key.
    open_decoder(config.format, Schema((Field("id", IntegerType(64)),)))
    assert config.key == KeyRule(("id",), key_form, format=keys, fills="key_order" not in more)
    # A row whose record was not read would be missing.
    assert load(text).start_at == EARLIEST


@pytest.mark.parametrize("named", ["avro", "protobuf"])
def test_keys_of_a_registry_are_read_as_the_values_are(named: str) -> None:
    text = KEYED.replace("debezium: {}", f"{named}: {{registry: reg}}")
    config = compile_route(load(text.replace("  main", REGISTRY, 1)))
    assert config.key is not None
    assert config.key.form is KeyForm.RECORD
    assert config.key.format is not None
    assert config.key.format.whole_rows is None
    assert (config.key.format.name, config.format.whole_rows) == (named, "delete")


def test_without_a_key_payloads_are_no_changes() -> None:
    text = KEYED.replace("debezium", "json").replace("  key: [id]\n", "")
    assert compile_route(load(text)).format.whole_rows is None


@pytest.mark.parametrize(
    ("form", "key", "said"),
    [
        ("debezium: {}", "[id]\n  key_format: json", "with the format debezium"),
        ("json: {}", "[id]\n  key_format: registry", "expected `registry` in the format with"),
        ("json: {}", "[id, app]\n  key_format: text", "expected one column in `key`"),
        ("json: {}", "from_topic_key\n  key_format: text", "expected one column in `key`"),
        ("json: {}", "[id, app]\n  key_format: int64", "`key_format: int64`, which is its eight b"),
        ("json: {}", "[id]\n  key_format: xml", "`int32`, `int64` or `registry`"),
        ("json: {}", "[id]\n  key_format: text\n  key_order: by_partition", "expected no `key_f"),
        ("json: {}", "from_registry", "expected `registry` in the format json"),
        ("json: {registry: reg}", "from_registry\n  key_format: json", "expected no `key_format"),
        (
            "json: {}",
            "[id]\n  on_truncate: apply\n  key_order: one_partition",
            "with the format json, which sends none",
        ),
    ],
)
def test_what_cannot_be_of_keys_of_whole_rows_is_refused_where_it_stands(
    form: str, key: str, said: str
) -> None:
    text = KEYED.replace("debezium: {}", form).replace("  main", REGISTRY, 1)
    with pytest.raises(JobFileError) as caught:
        load(text.replace("key: [id]", f"key: {key}"))
    assert said in caught.value.message
    assert "job.yaml:" in caught.value.message


def test_a_key_of_a_hive_table_is_refused() -> None:
    text = KEYED.replace("iceberg: {connection: lake, ", "hive: {connection: hms, ").replace(
        "  lake: {iceberg", '  hms: {metastore: {uri: "thrift://h:9083"}}\n  lake: {iceberg'
    )
    with pytest.raises(JobFileError, match="expected `key` in tables of the kind iceberg only"):
        load(text)
