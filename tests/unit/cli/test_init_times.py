"""`init`: fields that say when a row happened, and values that fit in no job file."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sluiceway.cli.app import run_command
from sluiceway.cli.views.init_checks import (
    check_text,
    fitting,
    inner_times,
    mixed_times,
    why_no_time,
)
from sluiceway.cli.views.init_text import EventTime
from sluiceway.errors import WrongUsageError
from sluiceway.formats.json.survey import JsonSurvey, ProposedColumn

AT_MS = 1_795_161_600_000
AT = "2026-11-20T08:00:00Z"


def columns(*rows: dict[str, Any]) -> Sequence[ProposedColumn]:
    survey = JsonSurvey()
    for row in rows:
        survey.add(json.dumps(row).encode())
    return survey.columns()


def test_times_inside_of_structs_are_found_by_their_paths() -> None:
    trip = {"at": AT, "car": {"ms": AT_MS}, "stops": [{"at": AT}], "name": "a"}
    assert inner_times(columns({"trip": trip, "at": AT})) == [
        EventTime("trip.at"),
        EventTime("trip.car.ms", "ms"),
    ]


def test_field_with_a_few_values_that_are_no_times_is_one_where_it_is_asked_for() -> None:
    rows = [{"at": AT, "name": "a", "mix": AT} for _ in range(3)]
    seen = columns(*rows, {"at": "soon", "name": "b", "mix": "2026-11-20 08:00:00"})
    assert mixed_times(seen) == [EventTime("at")]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nope", "no row has a field `nope`"),
        ("nope.at", "no row has a field `nope`"),
        ("id.at", "`id.at`: `id` is bigint, which holds no field"),
        ("id", "no times were seen in it, it is read as bigint"),
        ("trip.name", "no times were seen in it"),
        ("mix", "times, of which only some have an offset"),
        ("both", "values of several kinds: 1 string, 1 whole number"),
    ],
)
def test_true_reason_is_told(name: str, why: str) -> None:
    first = {"id": 1, "trip": {"name": "a"}, "mix": AT, "both": 7}
    second = {"id": 2, "trip": {"name": "b"}, "mix": "2026-11-20 08:00:00", "both": "x"}
    assert why in why_no_time(columns(first, second), name)


def test_table_that_exists_takes_what_its_columns_can_hold() -> None:
    seen = columns({"at": AT, "ms": AT_MS, "trip": {"at": AT}})
    times = [EventTime("at"), EventTime("ms", "ms"), EventTime("trip.at")]
    held = {"at": "string", "ms": "bigint", "trip": "struct<at:timestamp>"}
    assert fitting(times, seen, held) == times[1:]
    assert fitting(times, seen, None) == times
    assert why_no_time(seen, "at", held) == (
        "`at` is a time in records, but in the table its column is string"
    )


USUAL = {"--bootstrap-servers": "127.0.0.1:1", "--metastore": "thrift://127.0.0.1:1"}
LAKE = {"--metastore": None, "--iceberg": "sqlite:////d/c.db", "--warehouse": "file:///d"}


@pytest.mark.parametrize(
    ("topic", "options", "named"),
    [
        ("trips", {"--table": "trips"}, "--table: expected `database.table`"),
        ("trips", {"--table": "a.{b"}, "--table: "),
        ("trips", {"--bootstrap-servers": "kafka"}, "--bootstrap-servers: expected `host:port`"),
        ("trips", {"--metastore": "hms:9083"}, "--metastore: expected `thrift://host:port`"),
        ("trips", {"--registry": "here"}, "--registry: "),
        ("shop_(.*)", {"--table": "ods.{1}"}, "TOPIC: `init` looks at one topic, and `shop_(.*)`"),
        ("shop_*", {}, "TOPIC: `init` looks at one topic, and `shop_*` is a pattern"),
        ("trips", {"--table": "ods.{topic}"}, "--table: `init` looks at one table, and `ods.{topi"),
        ("a/b", {"--table": "ods.trips"}, "TOPIC: "),
        ("trips", {**LAKE, "--warehouse": "here"}, "--iceberg and --warehouse: "),
        ("trips", {**LAKE, "--table": "trips"}, "--table: expected `namespace.table`"),
    ],
)
def test_typed_value_is_refused_by_its_option(
    topic: str,
    options: dict[str, str | None],
    named: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    given = {**USUAL, "--out": str(tmp_path / "t.yaml"), **options}
    typed = [word for name, value in given.items() if value for word in (name, value)]
    assert run_command(["init", topic, *typed, "--yes"]) == 2
    told = capsys.readouterr().err
    assert f"error[SW480]: {named}" in told
    assert "t.yaml" not in told


def test_typed_key_is_refused_by_its_option() -> None:
    with pytest.raises(WrongUsageError, match=r"^--key: "):
        check_text("version: 1\ntable:\n  key: [1] # Typed.\n", Path("job.yaml"))
