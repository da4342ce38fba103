import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from sluiceway.errors import JobFileError, NotInThisVersionError
from sluiceway.jobfile.blocks.dirty import REASONS
from sluiceway.jobfile.blocks.models import RouteSpec
from sluiceway.jobfile.blocks.start import EARLIEST, LATEST
from sluiceway.jobfile.blocks.table import MetaColumn
from sluiceway.jobfile.blocks.values import Secret
from sluiceway.jobfile.loader import load_job, parse_job
from sluiceway.jobfile.references import MAX_FILE_BYTES, MAX_SCHEMA_BYTES
from sluiceway.sources.kafka.own_options import OWN_KAFKA_OPTIONS
from sluiceway.sources.kafka.settings import REFUSED
from sluiceway.types.dirty import DirtyReason

EXAMPLE = Path(__file__).parents[3] / "examples" / "orders.yaml"
ENVIRON = {"SLUICEWAY_KAFKA": "k1:9092", "SLUICEWAY_METASTORE": "thrift://hms:9083"}
SMALL = """\
version: 1
name: small
connections:
  main: {kafka: {bootstrap_servers: "k1:9092"}}
  hms: {metastore: {uri: "thrift://hms:9083"}}
source: {connection: main, topics: [a, b]}
format: {json: {}}
table:
  hive: {connection: hms, name: Ods.Small}
  columns: [{name: id, type: bigint}, {name: app, type: string}]
  partition_by: []
"""


def load(text: str, **environ: str) -> RouteSpec:
    """The one route of a job file."""
    (route,) = parse_job(text.encode(), Path("job.yaml"), environ).spec.routes
    return route


def problems_of(text: str, **environ: str) -> list[str]:
    """Problem lines without the file's name."""
    with pytest.raises((JobFileError, NotInThisVersionError)) as caught:
        load(text, **environ)
    first, *lines = caught.value.message.splitlines()
    assert first == f"{len(lines)} problem{'s' * (len(lines) > 1)}"
    assert all(line.startswith("  job.yaml:") for line in lines)
    return [line.removeprefix("  job.yaml:") for line in lines]


def replaced(old: str, new: str) -> str:
    assert SMALL.count(old) == 1
    return SMALL.replace(old, new)


def test_load_example_gives_what_it_says() -> None:
    job = load_job(EXAMPLE, environ=ENVIRON)
    (spec,) = job.spec.routes
    assert (job.spec.name, spec.name, spec.route) == ("orders",) * 3
    assert job.source_path == EXAMPLE
    assert spec.kafka.bootstrap_servers == "k1:9092"
    assert spec.table_connection.metastore is not None
    assert spec.table_connection.metastore.uri == "thrift://hms:9083"
    assert spec.start_at == EARLIEST
    assert spec.run.interval_ms == 2000
    assert spec.event_time is not None
    assert (spec.event_time.field, spec.event_time.unit) == ("ts", "ms")
    assert [part.event_time for part in spec.table.partition_by] == ["yyyyMMdd", "HH"]
    assert spec.table.columns is not None
    assert [column.name for column in spec.table.columns if column.required] == ["order_id", "ts"]


@pytest.mark.parametrize(
    ("form", "starts"),
    [
        ("{debezium: {}}", "earliest"),
        ("{canal: {}}", "earliest"),
        ("{maxwell: {}}", "earliest"),
        ("{raw: {}}", "latest"),
        ("{csv: {}}", "latest"),
    ],
)
def test_start_left_out_is_earliest_for_change_logs_and_latest_for_all_else(
    form: str, starts: str
) -> None:
    spec = load(replaced("format: {json: {}}", f"format: {form}"))
    assert str(spec.start_at) == starts
    assert spec.start_reason


def test_start_that_is_given_holds_for_change_logs_too() -> None:
    text = replaced("format: {json: {}}", "format: {debezium: {}}")
    spec = load(text.replace("topics: [a, b]", "topics: [a, b], start: latest"))
    assert (str(spec.start_at), spec.start_reason) == ("latest", "")


def test_load_small_file_takes_defaults() -> None:
    spec = load(SMALL)
    assert spec.start_at == LATEST
    assert (spec.run.interval_ms, spec.run.straggler_timeout_ms) == (10_000, 60_000)
    assert spec.run.master == "local"
    assert spec.format.json_ is not None
    assert spec.format.json_.tombstones == "dirty"
    hive = spec.table.hive
    assert hive is not None
    assert (hive.create, hive.compression, hive.location) == ("if_missing", None, None)
    assert (hive.database, hive.table) == ("ods", "small")
    assert spec.table.meta == ()


def test_spec_is_frozen_and_survives_pickling() -> None:
    spec = load(SMALL)
    with pytest.raises(ValueError, match="frozen"):
        spec.name = "other"
    assert pickle.loads(pickle.dumps(spec)) == spec  # noqa: S301 - own bytes


def test_columns_from_table_leaves_names_to_the_table() -> None:
    text = replaced("[{name: id, type: bigint}, {name: app, type: string}]", "from_table")
    assert load(text).table.columns is None


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("[offset, topic]", [("offset", "_offset"), ("topic", "_topic")]),
        ("{offset: pos}", [("offset", "pos")]),
        ("[key, headers_text]", [("key", "_key"), ("headers_text", "_headers_text")]),
        ("[]", []),
    ],
)
def test_meta_in_both_shapes_names_columns(written: str, expected: list[tuple[str, str]]) -> None:
    meta = load(f"{SMALL}  meta: {written}\n").table.meta
    assert [(column.field, column.name) for column in meta] == expected
    assert all(isinstance(column, MetaColumn) for column in meta)


def test_all_problems_come_at_once_in_file_order() -> None:
    text = SMALL.replace("name: small", "nmae: small").replace("Ods.Small", "small")
    text = text.replace("topics: [a, b]", "topics: [a, 5, a]") + "run: {interval: 1h}\n"
    assert problems_of(text) == [
        "2:1: unknown key `nmae`; did you mean `name`?",
        "6:40: expected text, got `5`; put it into quotes",
        "6:43: expected each topic once, got `a` again; remove one",
        "9:33: expected `database.table`, both of letters, digits and `_`, got `small`; name both",
        "12:17: expected a duration from 0.5s to 10m, got `1h`; choose one between them",
    ]


def test_unknown_key_without_likeness_lists_known_ones() -> None:
    (problem,) = problems_of(replaced("{json: {}}", "{json: {zzzzz: 1}}"))
    assert problem.startswith("7:17: unknown key `zzzzz`; known here: unknown_fields, tombstones")


def test_missing_key_is_told_at_its_block() -> None:
    text = replaced("  partition_by: []\n", "")
    assert problems_of(text) == ["8:1: expected the key `partition_by`, got none; add it"]


@pytest.mark.parametrize(
    ("old", "new", "at"),
    [
        ("{bootstrap_servers:", "{schema_registry: x, bootstrap_servers:", "4:18: `schema_reg"),
        ("Ods.Small}", 'Ods.Small, location: "gs://b/x"}', "9:54: a table on gs"),
    ],
)
def test_later_feature_is_refused_as_not_in_this_version(old: str, new: str, at: str) -> None:
    with pytest.raises(NotInThisVersionError) as caught:
        load(replaced(old, new))
    (line,) = caught.value.message.splitlines()[1:]
    assert line.startswith(f"  job.yaml:{at}")
    assert " is not in this version; " in line


def test_later_feature_beside_a_mistake_is_a_job_file_error() -> None:
    with pytest.raises(JobFileError, match="`schema_registry` is not in this version"):
        load(replaced("{bootstrap_servers:", "{schema_registry: x, bootstrap_servers:") + "x: 1\n")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "connection: main",
            "connection: nope",
            "6:22: expected the name of a kafka or rocketmq conn",
        ),
        (
            "connection: main",
            "connection: hms",
            "6:22: expected the name of a kafka or rocketmq conn",
        ),
        (
            "connection: hms",
            "connection: main",
            "9:22: expected the name of a metastore or folder conn",
        ),
        ("name: app", "name: ID", "10:46: expected names that differ in more than case"),
        ("[]", "[{name: App, event_time: yyyy}]", "11:25: expected names that differ"),
        ("[]", "[{name: app, column: id}]", "11:25: expected names that differ"),
        ("[]", "[{name: x, column: nope}]", "11:36: expected a declared column, got `nope`"),
        ("[]", "[{name: x, column: id}, {name: X, column: id}]", "11:48: expected names that"),
        ("[]", "[{name: x}]", "11:18: expected exactly one of event_time, column, c"),
        ("[]", "[{name: x, column: id, event_time: yyyy}]", "11:18: expected exactly one of"),
        ("[]", "[{name: a-b, column: id}]", "11:25: expected a name of letters"),
        ("[]", "[]\n  meta: {topic: id}", "12:17: expected names that differ"),
        ("[]", "[]\n  meta: [topic, topic]", "12:17: expected names that differ"),
        (
            "[]",
            "[]\n  meta: {topik: x}",
            "12:10: expected `topic`, `partition`, `offset`",
        ),
        ("[]", "[{name: x, event_time: yyyy}]", "11:28: expected an `event_time` block"),
        ("[]", "[]\nevent_time: {field: id, unit: ms}", "12:1: expected a partition that uses"),
        ("type: bigint}", "type: bigint, unit: ms}", "10:38: expected `unit` with types of"),
        ("type: bigint}", "type: bigint, on_lossy: round}", "10:48: expected one of dirty, null"),
        ("type: bigint}", "type: bigint, on_overflow: }", "10:38: expected a value, got nothing"),
        ("type: bigint}", "type: bigint, on_overflow: ~}", "10:38: expected a value, got nothing"),
        ("type: bigint}", "type: bigint, timezone: Mars/X}", "10:48: expected an IANA time zone"),
        ('bootstrap_servers: "k1:9092"', 'bootstrap_servers: "k1"', "4:37: expected `host:port`"),
        ("thrift://hms:9083", "http://hms:9083", "5:26: expected `thrift://host:port`"),
        ("[a, b]", '["a.*"]', "6:37: expected a topic name of letters"),
        ("[a, b]", "[]", "6:36: expected at least one item, got an empty list"),
        ("[a, b]", "5", "6:36: expected a list, got `5`"),
        ("[a, b]", "(a", "6:36: expected a regular expression such as `app_(.*)`, got `(a`"),
        ("Ods.Small", '"ods.{1}"', "9:33: expected a plain name for topics that are listed"),
        ("b]", "b], start: noon", "6:51: expected `earliest`, `latest`, or a mapping"),
        ("b]", "b], start: {timestamp: 5}", "6:63: expected a time such as"),
        ("b]", "b], start: {timestamp: '2026-11-20'}", "6:63: expected a time such as"),
        ("b]", "b], start: {offsets: {a: 5}}", "6:61: expected topics, each with its"),
        ("b]", "b], start: {offsets: {a: {0: -1}}}", "6:61: expected an offset as a whole"),
        ("b]", "b], start: {offsets: {c: {0: 1}}}", "6:62: expected offsets of topics that"),
        ("b]", "b], start: {grup: x}", "6:52: unknown key `grup`; did you mean `group`?"),
        ("b]", "b], start: {}", "6:51: expected exactly one of timestamp, offsets, group"),
        ("type: bigint}", "type: bigint, required: 1}", "10:48: expected true or false, got `1`"),
        ("Ods.Small}", "Ods.Small, location: a/b}", "9:54: expected an absolute folder"),
        ("Ods.Small}", "Ods.Small, location: /a/../b}", "9:54: expected an absolute folder"),
        ("Ods.Small}", "Ods.Small, location: /}", "9:54: expected an absolute folder"),
        ("Ods.Small}", "Ods.Small, compression: lzo}", "9:57: expected `zstd`, `snappy`, `gzip`"),
        ("version: 1", "version: 2", "1:10: expected 1, got `2`"),
        ("name: small", "name: ../x", "2:7: expected 1 to 64 of a-z"),
        ("name: small", "name:", "2:1: expected a value, got nothing"),
        ("[]", "[]\nrun: {master: 'local[*]'}", "12:15: expected `local`, `local[N]`"),
        ("[]", "[]\nrun: {interval: 10}", "12:17: expected a duration such as `10s`"),
        ("[]", "[]\nrun: {memory_per_task: 1GB}", "12:24: expected a size such as `64KiB`"),
        ("[]", "[]\nrun: {memory_per_task: 64MiB}", "12:24: expected a size from 128MiB to"),
        ("[]", "[]\nfiles: {target_size: 1KiB}", "12:22: expected a size from 64KiB to 16GiB"),
        ("[]", "[]\nfiles: {max_open: 0}", "12:19: expected a number of files, 1 to 4096"),
        ("[]", "[]\nfiles: {prefix: _x}", "12:17: expected 1 to 32 of A-Z, a-z, 0-9"),
        ("[]", "[]\nfiles: {suffix: a/b}", "12:17: expected 1 to 32 of A-Z, a-z, 0-9"),
        ("[]", "[]\nfiles: {compact: maybe}", "12:18: expected `before_ready` or `never`"),
        ("[]", "[]\nrun: {spark_conf: {spark.master: x}}", "12:20: expected Spark settings"),
        ("[]", "[]\nrun: {spark_conf: {a: x}}", "12:20: expected a Spark setting, got `a`"),
    ],
)
def test_wrong_value_is_told_with_its_place(old: str, new: str, problem: str) -> None:
    text = SMALL.replace(old, new, 1)
    assert text != SMALL
    assert [line for line in problems_of(text) if line.startswith(problem)]


def test_partition_by_column_of_its_own_name_is_one_column() -> None:
    spec = load(replaced("[]", "[{name: app, column: app}]"))
    assert spec.table.partition_by[0].column == "app"


GEO = "{name: geo, type: 'struct<ts:bigint,inner:struct<d:decimal(3,1),at:string>>'}"


def dated(event_time: str) -> str:
    """A job with partitions by this event time, of a column `geo` or `at`."""
    text = replaced("{name: app, type: string}", f"{GEO}, {{name: at, type: timestamp}}")
    text = text.replace("[]", "[{name: dt, event_time: yyyy-MM-dd}]")
    return f"{text}event_time: {{{event_time}}}\n"


@pytest.mark.parametrize(
    ("field", "unit"),
    [
        ("geo.ts", "ms"),
        ("id", "s"),
        ("geo.inner.at", "iso8601"),
        ("Geo.inner.at", None),
        ("at", None),
        ("at", "ms"),
    ],
)
def test_event_time_needs_a_unit_for_numbers_only(field: str, unit: str | None) -> None:
    spec = load(dated(f"field: {field}" + (f", unit: {unit}" if unit else "")))
    assert spec.event_time is not None
    assert (spec.event_time.field, spec.event_time.unit) == (field, unit)


@pytest.mark.parametrize(
    ("event_time", "problem"),
    [
        ("field: geo.ts", "expected `unit` for the numbers of `bigint`, got none"),
        ("field: geo.ts, unit: iso8601", "expected a unit that reads `bigint`, got `iso8601`"),
        ("field: geo.inner.at, unit: ms", "expected a unit that reads `string`, got `ms`"),
    ],
)
def test_event_time_with_a_unit_of_another_type_is_told(event_time: str, problem: str) -> None:
    (line,) = problems_of(dated(event_time))
    assert problem in line


@pytest.mark.parametrize(
    ("field", "todo"),
    [
        ("nope", "declare `nope` under table.columns"),
        ("geo", "name one value inside `geo`"),
        ("geo.inner", "name one value inside `geo.inner`"),
        ("geo.ts.x", "`bigint` has no field `x`"),
        ("id.x", "`bigint` has no field `x`"),
    ],
)
def test_event_time_of_undeclared_path_is_refused(field: str, todo: str) -> None:
    geo = "{name: geo, type: 'struct<ts:bigint,inner:struct<at:string>>'}"
    text = replaced("{name: app, type: string}", geo)
    text = text.replace("[]", "[{name: dt, event_time: yyyyMMdd}]")
    (problem,) = problems_of(f"{text}event_time: {{field: {field}, unit: ms}}\n")
    assert problem == f"12:21: expected the path of a declared column, got `{field}`; {todo}"


@pytest.mark.parametrize("zone", ["Mars/Base", "../etc/passwd", "Europe", "/etc/localtime", ""])
def test_unknown_time_zone_is_refused(zone: str) -> None:
    text = replaced("[]", "[{name: dt, event_time: yyyyMMdd}]")
    (problem,) = problems_of(f"{text}event_time: {{field: id, unit: ms, timezone: '{zone}'}}\n")
    assert problem.startswith("12:45: expected an IANA time zone")


def with_kafka_options(options: str) -> str:
    return replaced('"k1:9092"', f'"k1:9092", properties: {{{options}}}')


def test_kafka_options_keep_their_written_text() -> None:
    spec = load(with_kafka_options("fetch.min.bytes: 007, check.crcs: True, linger.ms: 1.50"))
    assert spec.kafka.properties == {
        "fetch.min.bytes": "007",
        "check.crcs": "True",
        "linger.ms": "1.50",
    }


def test_refused_kafka_options_are_those_of_the_source() -> None:
    assert frozenset(REFUSED) == frozenset(OWN_KAFKA_OPTIONS)


def test_own_kafka_option_is_refused() -> None:
    (problem,) = problems_of(with_kafka_options("group.id: x"))
    assert problem.startswith("4:61: expected options that are yours to set, got `group.id`")


@pytest.mark.parametrize(
    "option",
    [
        "sasl.password: hunter2",
        "ssl.key.password: hunter2",
        "sasl.oauthbearer.client.secret: hunter2",
        'sasl.password: "hunter2${env:P}"',
        "some.Token: 5",
    ],
)
def test_plain_secret_is_refused_and_not_repeated(option: str) -> None:
    (problem,) = problems_of(with_kafka_options(option), P="from-env")
    assert " from a reference, got plain text; write ${env:NAME}" in problem
    assert "hunter2" not in problem
    assert "from-env" not in problem


def test_secret_from_reference_is_hidden_until_revealed(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("file-secret\n")
    options = f'sasl.password: "${{env:P}}", ssl.key.password: "${{file:{file}}}"'
    spec = load(with_kafka_options(options), P="env-secret")
    secrets = list(spec.kafka.properties.values())
    assert [value.reveal() for value in secrets if isinstance(value, Secret)] == [
        "env-secret",
        "file-secret",
    ]
    shown = f"{spec!r} {spec} {secrets} {spec.model_dump()}"
    assert "env-secret" not in shown
    assert "file-secret" not in shown


def test_reference_inside_text_is_replaced_once() -> None:
    text = replaced('"k1:9092"', '"${env:HOST}:9092,k2:1"')
    assert load(text, HOST="k1").kafka.bootstrap_servers == "k1:9092,k2:1"
    (problem,) = problems_of(text, HOST="${env:HOST}")
    assert problem.startswith("4:37: expected `host:port`")


def test_message_about_referenced_value_shows_the_reference_only() -> None:
    (problem,) = problems_of(replaced('"k1:9092"', '"${env:HOST}"'), HOST="private value")
    assert "`${env:HOST}`" in problem
    assert "private" not in problem


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("${env:NOPE}", "expected the environment variable NOPE, got nothing"),
        ("${env:}", "expected `${env:NAME}` or `${file:/path}`"),
        ("${HOME}", "expected `${env:NAME}` or `${file:/path}`"),
        ("${env:NOPE", "expected `${env:NAME}` or `${file:/path}`"),
        ("${file:relative}", "expected `${env:NAME}` or `${file:/path}`"),
        ("${file:/nope/nope}", "expected a file of at most"),
        ("${file:/dev/zero}", "expected a file of at most"),
        ("${file:/}", "expected a file of at most"),
    ],
)
def test_reference_that_leads_nowhere_is_told_once(reference: str, expected: str) -> None:
    (problem,) = problems_of(replaced("k1:9092", reference))
    assert problem.startswith(f"4:37: {expected}")


SCHEMAS = [
    '{avro: {schema: "FILE"}}',
    '{avro: {schemas: ["FILE"]}}',
    '{protobuf: {schema: "FILE", message: M}}',
]


@pytest.mark.parametrize("fmt", SCHEMAS)
def test_file_of_a_schema_may_be_long_and_has_a_bound(fmt: str, tmp_path: Path) -> None:
    file = tmp_path / "schema"
    text = replaced("{json: {}}", fmt.replace("FILE", f"${{file:{file}}}"))
    file.write_text("x" * MAX_SCHEMA_BYTES)
    spec = load(text).format
    held = [spec.avro and spec.avro.schema_text, spec.protobuf and spec.protobuf.schema_text]
    held += (spec.avro and spec.avro.schemas) or ()
    assert [len(schema) for schema in held if schema] == [MAX_SCHEMA_BYTES]
    file.write_text("x" * (MAX_SCHEMA_BYTES + 1))
    (problem,) = problems_of(text)
    assert "expected a file of at most 4,194,304 bytes at" in problem
    assert problem.endswith("got one of 4,194,305; shorten it")


def test_file_of_anything_else_is_short(tmp_path: Path) -> None:
    (tmp_path / "word").write_text("x" * (MAX_FILE_BYTES + 1))
    (problem,) = problems_of(replaced("k1:9092", f"${{file:{tmp_path}/word}}"))
    assert "expected a file of at most 65,536 bytes at" in problem
    assert problem.endswith("got one of 65,537; shorten it")


def _make_folder(path: Path) -> None:
    path.mkdir()


def _make_nothing(_path: Path) -> None:
    return


@pytest.mark.parametrize("make", [_make_folder, _make_nothing])
def test_load_without_file_is_a_job_file_error(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "job.yaml"
    make(path)
    with pytest.raises(JobFileError, match=r"expected a job file|no such file") as caught:
        load_job(path)
    assert caught.value.where == str(path)
    assert caught.value.exit_code == 3


def test_dirty_limits_are_read_with_their_defaults() -> None:
    text = replaced(
        "version: 1\n",
        "version: 1\ndirty: {max_rate: {ratio: 0.01}, max_rows: 5, reasons: {overflow: 0}}\n",
    )
    dirty = load(text).dirty
    assert dirty.max_rate is not None
    rate = dirty.max_rate
    assert (rate.ratio, rate.window_ms, rate.min_rows) == (0.01, 600_000, 100)
    assert (dirty.max_rows, dict(dirty.reasons), dirty.window_ms) == (5, {"overflow": 0}, 600_000)
    assert {*REASONS} == {*DirtyReason}


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ("{max_rate: {ratio: 1}}", "2:27: expected a share from 0"),
        ("{max_rate: {window: 10m}}", "2:9: expected the key `ratio`"),
        ("{max_rate: {ratio: 0.1, window: 2d}}", "2:40: expected a duration from 10s to 1d"),
        ("{max_rows: -1}", "2:19: expected a number of rows"),
        ("{reasons: {overflw: 1}}", "2:18: expected reasons of dirty rows"),
        ("{reasons: {overflow: x}}", "2:29: expected a whole number"),
        ("{store: table}", "2:16: expected `beside`, or a mapping with topic or table"),
        ("{max_row: 1}", "2:9: unknown key `max_row`; did you mean `max_rows`?"),
    ],
)
def test_dirty_limits_that_cannot_be_are_told_at_their_place(block: str, problem: str) -> None:
    (found,) = problems_of(replaced("version: 1\n", f"version: 1\ndirty: {block}\n"))
    assert found.startswith(problem)
