"""What `validate` says of job files that are wrong in several ways, in words and as JSON."""

import errno
import json
import os
from pathlib import Path

import pytest

from sluiceway.cli.app import run_command
from sluiceway.cli.job_file import load_checked_job
from sluiceway.driver.run import Observers, RunOptions, run_job
from sluiceway.driver.stop import StopSignal
from sluiceway.errors import JobFileError
from sluiceway.observe.log import stderr_log
from sluiceway.observe.progress import Progress

EXAMPLE = Path(__file__).parents[3] / "examples" / "orders.yaml"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICEWAY_KAFKA", "k1:9092")
    monkeypatch.setenv("SLUICEWAY_METASTORE", "thrift://hms:9083")


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return tmp_path / "job.yaml"


def changed(*changes: tuple[str, str]) -> str:
    text = EXAMPLE.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def with_properties(properties: str) -> str:
    servers = '{bootstrap_servers: "${env:SLUICEWAY_KAFKA}"'
    return changed((servers, f"{servers}, properties: {{{properties}}}"))


def test_column_types_are_checked_also_where_the_rest_is_wrong(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write_text(
        changed(("owner: data", "onwer: data"), ("user_id, type: bigint", "user_id, type: bigin"))
    )
    assert run_command(["validate", str(job)]) == 3
    shown = capsys.readouterr().err
    assert "2 problems" in shown
    assert "unknown key `onwer`; did you mean `owner`?" in shown
    assert f"{job}:18:29: expected a Hive type, got `bigin`" in shown


def test_expressions_are_checked_also_where_the_rest_is_wrong(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write_text(changed(("owner: data", "onwer: data")) + 'where: "amount >"\n')
    assert run_command(["validate", str(job)]) == 3
    shown = capsys.readouterr().err
    assert "unknown key `onwer`" in shown
    assert "expected a condition" in shown


@pytest.mark.parametrize(
    "also_wrong",
    [
        ("user_id, type: bigint", "user_id, type: bigin"),
        ("user_id, type: bigint", "user_id, type: 7"),
        ("{name: app, type: string}", "{name: app, type: string, constant: x, path: y}"),
        ("unit: ms", "unit: fortnights"),
        ("{json: {", "{jsn: {"),
        ("partition_by:", "partition:"),
    ],
    ids=["type", "type is no text", "clash", "event time", "format", "missing key"],
)
def test_all_expressions_are_told_beside_whatever_else_is_wrong(
    also_wrong: tuple[str, str], job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tags = "    - {name: tags, type: array<string>}\n"
    bad = (
        "    - {name: syntax, type: int, expression: '1 +'}\n"
        "    - {name: types, type: int, expression: 'tags || 1'}\n"
        "    - {name: unknown, type: int, expression: 'no_such'}\n"
        "    - {name: value, type: int, constant: many}\n"
    )
    text = changed((tags, tags + bad), also_wrong) + 'where: "tags >"\n'
    job.write_text(text)
    assert run_command(["validate", str(job), "-o", "json"]) == 3
    problems = json.loads(capsys.readouterr().out)["error"]["problems"]
    lines = text.splitlines()
    told = {lines[one["line"] - 1].strip()[:15]: one for one in problems if one["line"]}
    for name in ("syntax", "types", "unknown", "value"):
        one = told[f"- {{name: {name}, type"[:15]]
        assert one["column"] > len("    - {name: ")
        assert "expected a" in one["problem"]
    assert "there is no column no_such here" in told["- {name: unknow"]["todo"]
    assert "expected a condition" in told['where: "tags >"']["problem"]
    assert len(problems) > len(bad.splitlines()) + 1


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("run: {", "dirty: {max_rate: {ratio: 5%}}\nrun: {", "expected a number, got `5%`; write"),
        ("run: {", 'dirty: {max_rate: {ratio: "1"}}\nrun: {', "write digits without quotes"),
        (
            "run: {",
            "dirty: {reasons: {brokn: 1}}\nrun: {",
            "`brokn` is none; write some of: broken",
        ),
        (
            "{json: {unknown_fields: ignore}}",
            "{protobuf: {descriptor_set: /no/such.desc, message: shop.Order}}",
            "12:37: expected a file of at most 16777216 bytes, got `/no/such.desc`; write it:",
        ),
        (
            "{json: {unknown_fields: ignore}}",
            "{avro: {schema: one}}",
            "12:16: expected a format that reads the columns: the schema is not JSON",
        ),
    ],
)
def test_problem_says_where_it_is_and_what_to_write(
    old: str, new: str, problem: str, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write_text(changed((old, new)))
    assert run_command(["validate", str(job)]) == 3
    shown = capsys.readouterr().err
    assert f"  {job}:" in shown
    assert problem in shown


def test_expression_over_a_column_that_is_wrong_is_not_blamed_for_it(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    column = "    - {name: twice, type: bigint, expression: 'user_id + USER_ID'}\n"
    tags = "    - {name: tags, type: array<string>}\n"
    job.write_text(
        changed((tags, tags + column), ("user_id, type: bigint", "user_id, type: bigin"))
        + 'where: "user_id > 1"\n'
    )
    assert run_command(["validate", str(job), "-o", "json"]) == 3
    (problem,) = json.loads(capsys.readouterr().out)["error"]["problems"]
    assert problem["problem"] == "expected a Hive type, got `bigin`"


def test_problems_as_json_are_one_document_with_every_place(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write_text(
        changed(("owner: data", "onwer: data"), ("user_id, type: bigint", "user_id, type: bigin"))
    )
    assert run_command(["validate", str(job), "-o", "json"]) == 3
    shown = json.loads(capsys.readouterr().out)
    assert (shown["ok"], shown["error"]["where"]) == (False, str(job))
    assert [(p["line"], p["column"], p["problem"]) for p in shown["error"]["problems"]] == [
        (5, 1, "unknown key `onwer`"),
        (18, 29, "expected a Hive type, got `bigin`"),
    ]
    assert shown["error"]["problems"][0]["todo"] == "did you mean `owner`?"


def test_file_that_cannot_be_read_is_a_problem_in_json_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["validate", str(tmp_path / "none.yaml"), "-o", "json"]) == 3
    shown = json.loads(capsys.readouterr().out)
    assert shown["ok"] is False
    assert (shown["error"]["code"], shown["error"]["message"]) == ("SW401", "no such file")


@pytest.mark.parametrize("verb", ["validate", "run", "status", "verify"])
def test_file_that_cannot_be_read_exits_with_3_from_every_command(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command([verb, str(tmp_path)]) == 3
    assert "expected a job file, got " in capsys.readouterr().err


@pytest.mark.parametrize("args", [["ledger", "show"], ["verify"]])
def test_route_that_the_job_has_not_is_wrong_usage(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command([*args, str(EXAMPLE), "--route", "nope"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error[SW480]: the job has no route `nope`",
        "hint: its routes: orders",
    ]


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ("foo.bar: 1", "expected an option of librdkafka, got `foo.bar`"),
        ("socket.timeout.ms: soon", "a value that librdkafka takes for `socket.timeout.ms`"),
        ("security.protocol: tls", "a value that librdkafka takes for `security.protocol`"),
    ],
)
def test_options_that_the_client_library_does_not_know_are_told_with_their_place(
    properties: str, problem: str, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write_text(with_properties(properties))
    assert run_command(["validate", str(job)]) == 3
    shown = capsys.readouterr().err
    assert f"{job}:8:" in shown
    assert problem in shown


def test_options_of_a_login_are_not_judged_one_by_one(job: Path) -> None:
    job.write_text(
        with_properties("security.protocol: sasl_ssl, sasl.mechanism: PLAIN, sasl.username: me")
    )
    assert run_command(["validate", str(job)]) == 0


def test_certificate_that_is_missing_is_told_before_spark_starts(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(
        "sluiceway.driver.run._start_spark", lambda *_, **__: started.append("spark")
    )
    job.write_text(with_properties("security.protocol: ssl, ssl.ca.location: /nope/ca.pem"))
    eyes = Observers(stderr_log(), Progress())
    with pytest.raises(JobFileError, match=r"ssl\.ca\.location"):
        run_job(load_checked_job(job).spec, RunOptions(), eyes, StopSignal())
    assert started == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("tags, type: array<string>", "tags, type: binary", "JSON has no bytes"),
        ("field: ts, unit: ms", "field: amount, unit: ms", "which unit ms cannot read"),
        ("name: hr, event_time: HH", "name: hr, column: amount2", "declared column"),
    ],
)
def test_rows_that_no_task_could_make_are_told(
    old: str, new: str, problem: str, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write_text(changed((old, new)))
    assert run_command(["validate", str(job)]) == 3
    assert problem in capsys.readouterr().err


def test_empty_partition_value_may_be_said_to_be_null(job: Path) -> None:
    expression = "{name: app_or_null, type: string, expression: \"if(app = '', null, app)\"}"
    job.write_text(
        changed(
            ("- {name: app, type: string}", f"- {{name: app, type: string}}\n    - {expression}"),
            ("{name: hr, event_time: HH}", "{name: by_app, column: app_or_null}"),
        )
    )
    assert run_command(["validate", str(job)]) == 0


READY = "\nready: {}\n"


@pytest.mark.parametrize(
    ("changes", "more", "words", "warned"),
    [
        (
            (("interval: 2s", "interval: 10s"),),
            "",
            "up to 360 an hour from each task; merged by",
            0,
        ),
        ((), "", "up to 1,800 an hour from each task; merged by", 1),
        ((), READY, "merged into 1 for each 128 MiB of a partition before it is ready", 0),
        ((), READY + "files: {compact: never}\n", "merged by the command `compact` only", 1),
        ((("interval: 2s", 'interval: 10s, master: "local[3]"'),), "", "1,080 an hour from 3 t", 1),
        (
            (("name: hr, event_time: HH", "name: app, column: app"), ("2s", "10s")),
            "files: {target_size: 256MiB}\n",
            "up to 360 an hour from each task, for each value of `app`; merged by",
            0,
        ),
    ],
)
def test_files_of_an_hour_are_foretold_and_warned_of(
    changes: tuple[tuple[str, str], ...],
    more: str,
    words: str,
    warned: int,
    job: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    job.write_text(changed(*changes) + more)
    assert run_command(["validate", str(job)]) == 0
    shown = capsys.readouterr().out
    (line,) = [line for line in shown.splitlines() if line.startswith("files ")]
    assert words in line
    assert shown.count("more than 1,000 files an hour stay") == warned
    assert run_command(["validate", str(job), "-o", "json"]) == 0
    files = json.loads(capsys.readouterr().out)["routes"][0]["files"]
    assert (files["warning"] is not None) == bool(warned)
    assert files["compacted_before_ready"] == ("before it is ready" in line)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("version: 1", 'version: "1"', "expected 1, got the text `1`; write 1"),
        ("required: true}", "required: yes}", "expected true or false, got `yes`; write one of"),
        ("required: true}", 'required: "true"}', "got the text `true`; write one of the two"),
        ("ignore}}", "ignore}", "14:1: expected YAML, got an error: while parsing a flow mapping"),
        ("ignore}}", "ignore}", "that begins in line 12"),
    ],
    ids=["quoted number", "yes", "quoted true", "open brace", "where it was opened"],
)
def test_message_tells_a_value_from_its_text_and_where_a_brace_was_opened(
    old: str, new: str, problem: str, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write_text(changed((old, new)))
    assert run_command(["validate", str(job)]) == 3
    assert problem in capsys.readouterr().err


def test_summary_tells_kinds_of_partitions_late_rows_readiness_and_retention(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = (
        "ready: {allowed_lateness: 5s, success_file: true, webhook: {url: 'http://h:1/x'}}\n"
        "retention: {partitions: 30d}\nrun: {"
    )
    columns = "    - {name: src, constant: web}\n    - {name: seen, processing_time: HH}\n"
    job.write_text(
        changed(
            ("{name: ts, type: bigint,", "{name: ts, type: timestamp, unit: ms,"),
            ("field: ts, unit: ms,", "field: ts, late: dirty,"),
            ("  meta: [", f"{columns}  evolution: add_columns\n  meta: ["),
            ("{unknown_fields: ignore}", "{}"),
            ("run: {", more),
        )
    )
    assert run_command(["validate", str(job)]) == 0
    told = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert told["partitions"] == (
        "dt=yyyyMMdd/hr=HH/src=web/seen=HH of the clock of ts (timestamp, UTC)"
    )
    assert told["columns"].endswith("_timestamp; evolution: add_columns")
    assert told["late"].startswith("rows   dirty, when their partition is closed or they are more")
    assert told["announced"] == (
        "when complete, 5s after its end at the earliest: in the metastore, _SUCCESS, "
        "table property, webhook"
    )
    assert told["retention"] == "partitions go 30d after their end, files are left to their owner"


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (
            "{topic: sums}",
            "when as many rows are there as the topic sums says, at its end at the earliest: ",
        ),
        (
            "{topic: sums, complete_by: count, since: '2026-11-20T08:00:00Z'}",
            "when as many rows are there as the topic sums says "
            "(times from 2026-11-20T08:00:00Z on): ",
        ),
    ],
)
def test_summary_tells_which_counts_partitions_wait_for(
    counts: str, words: str, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write_text(changed(("run: {", f"ready: {{counts: {counts}}}\nrun: {{")))
    assert run_command(["validate", str(job)]) == 0
    told = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert told["announced"] == words + "in the metastore, table property"


@pytest.mark.parametrize(
    ("more", "remedy"),
    [
        ("", "let partitions be announced and merged (block `ready`), raise"),
        ("ready: {visible: on_commit}\n", "(`ready.visible: on_ready`), raise"),
        ("ready: {}\nfiles: {compact: never}\n", "take `files.compact: never` away, raise"),
    ],
)
def test_warning_of_many_files_names_what_the_job_file_can_do(
    more: str, remedy: str, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write_text(changed() + more)
    assert run_command(["validate", str(job)]) == 0
    assert remedy in capsys.readouterr().out


def test_summary_as_json_names_the_kind_of_each_partition_column(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write_text(changed(("  meta: [", "    - {name: src, constant: web}\n  meta: [")))
    assert run_command(["validate", str(job), "-o", "json"]) == 0
    day, _, source = json.loads(capsys.readouterr().out)["routes"][0]["partitions"]
    assert (day["event_time"], day["constant"]) == ("yyyyMMdd", None)
    assert (source["name"], source["constant"], source["event_time"]) == ("src", "web", None)


def test_summary_names_the_table_over_late_rows(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = "field: ts, unit: ms, late_table: '{table}_late.{table}',"
    job.write_text(changed(("field: ts, unit: ms,", own)))
    assert run_command(["validate", str(job)]) == 0
    told = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert told["late"] == (
        "rows   put aside, when they are more than 1d behind newer ones; those aside are seen in "
        "orders_late.orders, made if missing"
    )
    assert run_command(["validate", str(job), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["routes"][0]["late_table"] == "orders_late.orders"


@pytest.mark.parametrize("verb", ["validate", "run", "status", "verify", "compact", "gc"])
def test_file_without_permission_exits_with_3_from_every_command(
    verb: str, job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Nothing is forbidden to root, who runs tests in containers.
    def refuse(path: Path, *args: object, **more: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    job.write_text(EXAMPLE.read_text())
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    monkeypatch.setattr(Path, "open", refuse)
    options = ["--all-closed"] if verb == "compact" else []
    assert run_command([verb, str(job), *options]) == 3
    shown = capsys.readouterr().err
    assert "expected a readable job file, got: Permission denied" in shown


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ('{http: {url: "http://Marquez:5000/x?key=abc"}}', "sent to marquez, every 1m"),
        ("{file: {path: /log/l.jsonl}, interval: 5s}", "a line in /log/l.jsonl, every 5s"),
    ],
)
def test_summary_names_who_is_told_of_lineage(
    job: Path, capsys: pytest.CaptureFixture[str], block: str, words: str
) -> None:
    job.write_text(EXAMPLE.read_text() + f"lineage: {block}\n")
    assert run_command(["validate", str(job)]) == 0
    assert f"lineage     {words}\n" in capsys.readouterr().out


LAKE = """\
version: 1
name: lake
connections:
  main: {kafka: {bootstrap_servers: "k1:9092"}}
  lake: {iceberg: {sql: {uri: "sqlite:////srv/c.db", warehouse: "file:///srv/w"}}}
source: {connection: main, topics: [orders]}
format: {json: {}}
table:
  iceberg: {connection: lake, name: ods.orders, publish_interval: 30s}
  columns: [{name: id, type: bigint}, {name: ts, type: timestamp}, {name: city, type: string}]
  partition_by: [{column: id, transform: "bucket[4]"}, {column: ts, transform: hour}]
run: {interval: 2s}
"""


def test_partition_column_that_no_row_fits_is_where_the_problem_is(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write_text(LAKE.replace("column: ts", "column: city"))
    assert run_command(["validate", str(job)]) == 3
    shown = capsys.readouterr().err
    assert f"{job}:11:56: " in shown
    assert "hour does not take the column city, of type string" in shown


def test_files_of_lake_tables_are_not_said_to_need_the_command_that_refuses_them(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write_text(LAKE)
    assert run_command(["validate", str(job)]) == 0
    shown = capsys.readouterr()
    assert "merged before their snapshot" in shown.out
    assert "compact" not in shown.out + shown.err
    job.write_text(LAKE.replace("30s", "1s"))
    assert run_command(["validate", str(job)]) == 0
    assert "3,600 snapshots an hour: raise table.iceberg.publish_interval" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("was", "is_now", "told"),
    [
        ("interval: 2s", "slots: {min: 0, max: 4}, master: yarn", "a number of at least 1, got"),
        ("interval: 2s", "max_unpublished: 100001", "a number of at most 100,000, got"),
        ("source:", "  s: {s3: {access_key: a}}\nsource:", "`secret_key` with `access_key`"),
        ("source:", "  f: {folder: {path: a}}\nsource:", "write it from the root"),
        ("source:", '  f: {folder: {path: "gs://b/a"}}\nsource:', "hdfs:// or s3a://"),
    ],
)
def test_wrong_values_of_blocks_are_told_in_words_that_help(
    job: Path, capsys: pytest.CaptureFixture[str], was: str, is_now: str, told: str
) -> None:
    job.write_text(LAKE.replace(was, is_now))
    assert run_command(["validate", str(job)]) == 3
    assert told in capsys.readouterr().err


def test_comparison_with_null_is_warned_of(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job.write_text(changed(("run: {", 'where: "status <> null"\nrun: {')))
    assert run_command(["validate", str(job)]) == 0
    shown = capsys.readouterr().out
    assert "warning     where: `status <> null` is null for every row, never true: write" in shown
    assert run_command(["validate", str(job), "-o", "json"]) == 0
    (route,) = json.loads(capsys.readouterr().out)["routes"]
    assert len(route["warnings"]) == 1
    assert run_command(["validate", str(EXAMPLE), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["routes"][0]["warnings"] == []
