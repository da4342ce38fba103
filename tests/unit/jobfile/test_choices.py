"""Columns and `where` of a job file: what is accepted, and where problems are told."""

from pathlib import Path

import pytest

from sluiceway.cli.job_file import load_checked_job
from sluiceway.errors import JobFileError
from sluiceway.jobfile.blocks.formats import FormatSpec
from sluiceway.jobfile.compile.choices import choice_problems
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.loader import load_job
from sluiceway.route.route_plan import schema_fingerprint
from sluiceway.types.hive_types import format_hive_type
from sluiceway.types.policy import Policy
from sluiceway.types.schema import Schema

HEAD = """\
version: 1
name: orders
connections:
  main: {kafka: {bootstrap_servers: "k1:9092"}}
  hms: {metastore: {uri: "thrift://hms:9083"}}
source: {connection: main, topics: [orders], start: earliest}
format: {json: {}}
"""
COLUMNS = """\
    - {name: order_id, type: bigint, path: id, required: true}
    - {name: ts, type: timestamp, unit: ms, transient: true}
    - {name: city, type: string, default: "unknown"}
    - {name: origin, type: string, constant: web}
    - {name: rate, type: "decimal(4,2)", constant: "0.10"}
    - {name: day, type: int, expression: "day(ts, 'Europe/Berlin')"}
"""


def write(folder: Path, columns: str = COLUMNS, where: str = "", partition: str = "[]") -> Path:
    listed = columns if columns.startswith(" ") and "\n" in columns else f"    {columns}\n"
    body = f"table:\n  hive: {{connection: hms, name: ods.orders}}\n  columns:\n{listed}"
    path = folder / "job.yaml"
    path.write_text(f"{HEAD}{body}  partition_by: {partition}\n{where}")
    return path


def compiled(path: Path) -> RouteConfig:
    return compile_route(load_checked_job(path).spec.routes[0])


def test_choices_reach_the_route_and_its_table(tmp_path: Path) -> None:
    config = compiled(
        write(tmp_path, where="where: city != 'x'\n", partition="[{name: day, column: day}]")
    )
    assert config.columns is not None
    assert [field.name for field in config.columns.fields] == ["order_id", "ts", "city"]
    assert [field.required for field in config.columns.fields] == [True, False, False]
    assert config.table.schema is not None
    table = [(field.name, format_hive_type(field.type)) for field in config.table.schema.fields]
    assert table == [
        ("order_id", "bigint"),
        ("city", "string"),
        ("origin", "string"),
        ("rate", "decimal(4,2)"),
    ]
    assert [(part.name, part.hive_type) for part in config.table.partition_columns] == [
        ("day", "int")
    ]
    assert config.choices.where == "city != 'x'"
    assert [of.field.name for of in config.choices.columns if not of.written] == ["ts"]


def test_plain_columns_ask_for_no_choices(tmp_path: Path) -> None:
    config = compiled(write(tmp_path, "- {name: n, type: bigint, path: a.b}"))
    assert (config.choices.columns, config.choices.where) == ((), None)


ID = "- {name: id, type: bigint}\n    "


@pytest.mark.parametrize(
    ("column", "where", "line", "message"),
    [
        (
            "- {name: x, type: int, expression: id}",
            "",
            12,
            "expected an expression of type int over columns of the payload, got `id`; "
            "correct it: character 1: expected int, got bigint; write cast",
        ),
        ("- {name: x, type: int, expression: 'nope + 1'}", "", 12, "there is no column nope"),
        ("- {name: x, type: int, expression: x}", "", 12, "there is no column x"),
        ("- {name: x, type: int, expression: '1 +'}", "", 12, "character 4: expected a value"),
        ("- {name: x, type: tinyint, constant: 300}", "", 12, "does not fit into 8 bits"),
        ("- {name: x, type: int, default: a}", "", 12, "expected a value of type int, got `a`"),
        ("- {name: x, type: 'decimal(4,2)', default: 0.1}", "", 12, "put the number into quotes"),
        ("- {name: x, type: bigint, default: 12345678901234567890}", "", 12, "into quotes"),
        ("- {name: x, type: int, default: [1]}", "", 12, "text, a number, true or false"),
        ("- {name: x, type: int, constant: 1, path: a}", "", 12, "no `constant` with `path`"),
        ("- {name: x, type: int, constant: 1, default: 2}", "", 12, "no `default` with"),
        (
            "- {name: x, type: int, expression: id, transient: true}",
            "",
            12,
            "no `transient` with `expression`",
        ),
        ("- {name: x, type: int}", "where: id = 'a'\n", 14, "expected a condition, got `id = 'a'`"),
        ("- {name: x, type: int}", "where: id + 1\n", 14, "expected boolean, got bigint"),
        ("- {name: x, type: int}", "where: '  '\n", 14, "expected an expression"),
        ("- {name: x, type: int}", "where: true\n", 14, "expected text"),
    ],
)
def test_choices_that_do_not_fit_are_told_with_their_line(
    tmp_path: Path, column: str, where: str, line: int, message: str
) -> None:
    path = write(tmp_path, f"{ID}{column}", where)
    with pytest.raises(JobFileError) as caught:
        load_checked_job(path)
    assert f"job.yaml:{line}:" in str(caught.value)
    assert message in str(caught.value)


def test_all_problems_come_at_once(tmp_path: Path) -> None:
    columns = (
        f"{ID}- {{name: x, type: int, expression: a}}\n    - {{name: y, type: int, default: b}}"
    )
    with pytest.raises(JobFileError) as caught:
        load_checked_job(write(tmp_path, columns, "where: c\n"))
    assert "3 problems" in str(caught.value)


def test_table_of_constants_only_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JobFileError, match="a column of the payload"):
        load_checked_job(write(tmp_path, "- {name: x, type: int, constant: 1}"))


def test_columns_from_the_table_leave_the_check_of_where_to_the_start(tmp_path: Path) -> None:
    path = write(tmp_path)
    text = path.read_text().replace(f"columns:\n{COLUMNS}", "columns: from_table\n")
    path.write_text(f"{text}where: anything > 1\n")
    assert compiled(path).choices.where == "anything > 1"
    path.write_text(f"{text}where: anything >\n")
    with pytest.raises(JobFileError, match="expected a condition"):
        load_checked_job(path)


def test_compiling_without_the_check_refuses_too(tmp_path: Path) -> None:
    path = write(tmp_path, f"{ID}- {{name: x, type: int, expression: id}}")
    route = load_job(path).spec.routes[0]
    with pytest.raises(JobFileError, match=r"table\.columns\.1\.expression: expected an expr"):
        compile_route(route)


def test_where_of_the_file_holds_for_routes_without_their_own(tmp_path: Path) -> None:
    path = write(tmp_path, "- {name: n, type: bigint}", "where: n > 1\n")
    text = path.read_text().replace("topics: [orders], ", "").replace(", name: ods.orders", "")
    routes = (
        "routes:\n  - {topics: [a], table: ods.a}\n  - {topics: [b], table: ods.b, where: n > 2}\n"
    )
    path.write_text(text + routes)
    spec = load_checked_job(path).spec
    assert [route.where for route in spec.routes] == ["n > 1", "n > 2"]
    path.write_text(text + routes.replace("n > 2", "m > 2"))
    with pytest.raises(JobFileError, match=r"job\.yaml:16:\d+: expected a condition"):
        load_checked_job(path)


@pytest.mark.parametrize(
    ("column", "key", "message"),
    [
        ("type: int, on_lossy: text}", "on_lossy", "expected a value that int has, got `text`"),
        ("type: int, non_finite: keep}", "non_finite", "expected no `non_finite` for the type int"),
        (
            "type: double, on_lossy: truncate}",
            "on_lossy",
            "write one of: dirty, null, round(half_even)",
        ),
        ("type: boolean, non_finite: keep}", "non_finite", "no `non_finite` for the type boolean"),
        ("type: boolean, format: yes}", "format", "two words with `/` between"),
        (
            "type: int, required: true, on_overflow: null}",
            "on_overflow",
            "no `on_overflow: null` with",
        ),
        (
            "type: int, on_impossible_time: null}",
            "on_impossible_time",
            "no `on_impossible_time` for the type int",
        ),
        (
            "type: date, required: true, on_impossible_time: null}",
            "on_impossible_time",
            "no `on_impossible_time: null` with",
        ),
        ("type: timestamp, format: yyyyMMdd}", "format", "a format with a time of day"),
        (
            "type: timestamp, format: yyyyMMddHH}",
            "format",
            "an offset in the text, or a `timezone`",
        ),
        ("type: timestamp, format: yyyyMMddHHQ}", "format", "a format of times"),
        ("type: timestamp, unit: ms, format: yyyyMMddHH}", "format", "no `format` with `unit`"),
        ("type: date, timezone: UTC}", "timezone", "a `format` or `unit` with the `timezone`"),
        (
            "type: timestamp, unit: ms, timezone: UTC}",
            "timezone",
            "no `timezone` with the `unit` of an instant",
        ),
        (
            "type: 'array<timestamp with local time zone>', unit: s, timezone: Asia/Shanghai}",
            "timezone",
            "no `timezone` with the `unit` of an instant",
        ),
        ("type: date, unit: ms}", "unit", "a `timezone` with the unit of a day"),
        ("type: date, format: iso8601}", "format", "a `timezone` with a format that has an offset"),
        ("type: binary, format: utf16}", "format", "expected one of utf8, base64, hex"),
        ("type: 'array<int>', format: hex}", "format", "no `format` for the type array<int>"),
        ("type: int, expression: '1', trim: true}", "trim", "no `trim` with `expression`"),
        ("type: 'struct<a:date>', unit: ms}", "unit", "a `timezone` with the unit of a day"),
        ("type: 'struct<date:int>', unit: ms}", "unit", "no `unit` for the type struct<date:int>"),
    ],
)
def test_policy_that_does_not_fit_is_told_with_its_place(
    tmp_path: Path, column: str, key: str, message: str
) -> None:
    with pytest.raises(JobFileError) as caught:
        load_checked_job(write(tmp_path, f"{ID}- {{name: x, {column}"))
    line = f"    - {{name: x, {column}"
    at = line.index(f"{key}: ") + len(f"{key}: ") + 1
    assert f"job.yaml:12:{at}: " in str(caught.value)
    assert message in str(caught.value)


def test_policies_reach_the_column(tmp_path: Path) -> None:
    columns = (
        "    - {name: a, type: int, on_overflow: null, on_lossy: round(half_up), trim: true}\n"
        "    - {name: b, type: timestamp, format: yyyyMMddHHmmss, timezone: Asia/Shanghai}\n"
        "    - {name: c, type: float, non_finite: null, redact: true}\n"
        "    - {name: d, type: 'varchar(3)', on_bad_text: replace, on_lossy: truncate}\n"
        "    - {name: e, type: 'array<struct<t:timestamp>>', unit: ms}\n"
        "    - {name: f, type: 'array<date>', on_impossible_time: null}\n"
    )
    config = compiled(write(tmp_path, columns))
    assert config.columns is not None
    assert [field.policy for field in config.columns.fields] == [
        Policy(on_overflow="null", on_lossy="round(half_up)", trim=True),
        Policy(format="yyyyMMddHHmmss", timezone="Asia/Shanghai"),
        Policy(non_finite="null", redact=True),
        Policy(on_bad_text="replace", on_lossy="truncate"),
        Policy(),
        Policy(on_impossible_time="null"),
    ]


def test_policy_beside_another_formats_columns_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "- {name: x, type: int, trim: true}")
    spec = load_job(path).spec.routes[0]
    other = FormatSpec.model_construct(json_=None)
    object.__setattr__(other, "__pydantic_extra__", {"delimited": {}})
    (problem,) = choice_problems(spec.model_copy(update={"format": other}))
    assert (problem.path, problem.expected) == (
        ("table", "columns", 0, "trim"),
        "no `trim` with the format delimited",
    )


def test_default_is_read_as_it_stands_and_not_by_the_columns_policy(tmp_path: Path) -> None:
    column = "- {name: x, type: int, default: '12.5', on_lossy: truncate}"
    with pytest.raises(JobFileError, match="not a whole number"):
        load_checked_job(write(tmp_path, column))


def test_policy_changes_the_name_of_the_schema(tmp_path: Path) -> None:
    plain = compiled(write(tmp_path, "- {name: x, type: int}"))
    other = compiled(write(tmp_path, "- {name: x, type: int, trim: true}"))
    assert plain.columns is not None
    assert other.columns is not None
    names = [schema_fingerprint(c.columns or Schema(()), c.choices) for c in (plain, other)]
    assert names[0] != names[1]
