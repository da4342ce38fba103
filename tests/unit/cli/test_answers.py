"""Answers as JSON: one shape for errors, routes and times, whatever the command."""

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer
from ruamel.yaml import YAML

from sluiceway.cli.app import VERBS, run_command
from sluiceway.cli.options import OutputFormat
from sluiceway.cli.views.answers import (
    error_fields,
    in_milliseconds,
    print_document,
    raise_code,
    read_each,
    route_answers,
)
from sluiceway.errors import LedgerCorruptError, SluicewayError

EXAMPLE = Path(__file__).parents[3] / "examples" / "orders.yaml"
FIELDS = {"code", "exit_code", "message", "where", "hint", "commands", "evidence", "problems"}


def commands() -> list[tuple[str, ...]]:
    """All that are there, as typed, with arguments enough to reach the job file."""
    found: list[tuple[str, ...]] = []
    for verb in VERBS:
        made = cast("Any", typer.main.get_command(verb.app()))
        inner = getattr(made, "commands", None)
        for name, each in inner.items() if inner else [("", made)]:
            if "output" in {param.name for param in each.params}:
                found.append((verb.name, *filter(None, [name])))
    return found


COMMANDS = commands()
MORE = {
    ("partitions", "wait"): ("ods.orders", "dt=20261120"),
    ("partitions", "why"): ("dt=20261120",),
    ("partitions", "forget"): ("dt=20261120", "--reason", "why not"),
    ("offsets", "reset"): ("--to", "earliest", "--reason", "why not"),
    ("offsets", "retire"): ("--reason", "why not"),
    ("backfill",): ("dt=20261120", "--from", "ledger"),
    ("compact",): ("--all-closed",),
    ("switch",): ("--to", "b"),
    ("drill",): ("--to", "b"),
    ("adopt",): ("--dry-run",),
}
WITHOUT_JOB = {
    *(("version",), ("explain",), ("lab", "status"), ("dashboards", "export")),
    *(("list",), ("pack",), ("mirror-jar",)),
}
ON_JOBS = [each for each in COMMANDS if each not in WITHOUT_JOB]


def answer(args: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> tuple[int, Any, str]:
    capsys.readouterr()
    code = run_command(args)
    shown = capsys.readouterr()
    return code, json.loads(shown.out), shown.err


def test_commands_that_answer_in_json_are_all_found() -> None:
    assert {("status",), ("validate",), ("dirty", "purge"), ("lab", "status")} < set(COMMANDS)
    assert set(MORE) < set(COMMANDS)


@pytest.mark.parametrize("command", ON_JOBS, ids=" ".join)
def test_error_of_every_command_is_the_answer_in_json_and_words_on_stderr(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "none.yaml")
    args = (*command, missing, *MORE.get(command, ()), "-o", "json")
    code, shown, err = answer(args, capsys)
    assert (code, shown.keys(), shown["ok"]) == (3, {"ok", "error"}, False)
    error = shown["error"]
    assert error.keys() == FIELDS
    assert (error["code"], error["exit_code"], error["where"]) == ("SW401", 3, missing)
    assert error["message"] == "no such file"
    assert err.startswith("error[SW401]")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("asked", [("-o", "json"), ("-ojson",), ("--output=json",)])
def test_wrong_usage_of_every_command_is_told_in_json(
    command: tuple[str, ...], asked: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown, err = answer((*command, "--nope", *asked), capsys)
    assert (code, shown["error"]["code"], shown["error"]["exit_code"]) == (2, "SW480", 2)
    assert "--nope" in shown["error"]["message"]
    assert f"sluiceway {command[0]} --help`" in err


def test_unknown_command_is_told_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, _ = answer(("statsu", "job.yaml", "-o", "json"), capsys)
    assert (code, shown["error"]["code"]) == (2, "SW480")
    assert "did you mean `status`?" in shown["error"]["message"]


def test_error_in_words_writes_nothing_to_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["status", str(tmp_path / "none.yaml")]) == 3
    assert capsys.readouterr().out == ""


def test_wrong_job_file_has_its_problems_one_by_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICEWAY_KAFKA", "127.0.0.1:1")
    monkeypatch.setenv("SLUICEWAY_METASTORE", "thrift://127.0.0.1:1")
    job = tmp_path / "job.yaml"
    job.write_text(EXAMPLE.read_text().replace("owner:", "onwer:"))
    for verb in ("validate", "status"):
        code, shown, _ = answer((verb, str(job), "-o", "json"), capsys)
        assert code == 3
        (problem,) = shown["error"]["problems"]
        assert problem.keys() == {"line", "column", "problem", "todo"}
        assert problem["todo"] == "did you mean `owner`?"
        assert shown["error"]["message"] == "1 problem"


@dataclass(frozen=True)
class _Times:
    begin_us: int | None
    lag_s: float
    cpu_s: float
    took_ms: int
    rows_per_s: float
    slots: tuple[int, ...] = ()


def test_times_are_milliseconds_by_their_names_and_rates_are_left_alone() -> None:
    times = _Times(1_999_999, 0.5, 2.25, 7, 3.5, (1,))
    assert in_milliseconds({"each": [times], "at_us": -1, "none_us": None, "is_s": True}) == {
        "each": [
            {
                "begin_ms": 1_999,
                "lag_ms": 500,
                "cpu_ms": 2_250,
                "took_ms": 7,
                "rows_per_s": 3.5,
                "slots": [1],
            }
        ],
        "at_ms": -1,
        "none_ms": None,
        "is_s": True,
    }


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("values", {"took_us": 1_234, "took_ms": 5, "geo": {"age_s": 2}, "rest_s": None}),
        ("ignored_fields", {"load_s": 3}),
        ("dirty_reasons", {"scale load_s": 4}),
        ("still_dirty", {"scale load_us": 4}),
        ("partitions", {"dt=20261120/app=ops_s": 7}),
        ("reasons", {"wrong_type wait_s": 1}),
    ],
)
def test_names_that_others_chose_are_no_times(name: str, told: dict[str, Any]) -> None:
    assert in_milliseconds({"each": [{name: told}]}) == {"each": [{name: told}]}
    # Of an answer's own field with such a name, a list, times are times.
    assert in_milliseconds({"partitions": [{"at_us": 5_000}]}) == {"partitions": [{"at_ms": 5}]}


def test_one_route_and_many_have_one_shape_with_errors_in_their_place() -> None:
    broken = LedgerCorruptError("slot 5", where="log")
    one, two = routes = cast("Any", [SimpleNamespace(route="one"), SimpleNamespace(route="two")])

    def look(config: Any) -> int:
        if config is two:
            raise broken
        return 1

    def shape(chosen: Any) -> list[dict[str, Any]]:
        found = read_each(chosen, look, OutputFormat.JSON)
        return route_answers(chosen, found, lambda number: {"rows": number})

    failed = {"route": "two", "error": error_fields(broken)}
    assert shape(routes) == [{"route": "one", "rows": 1}, failed]
    assert shape([one]) == [{"route": "one", "rows": 1}]
    assert shape([two]) == [failed]
    assert read_each(routes, look, OutputFormat.TABLE) == [1, broken]
    with pytest.raises(LedgerCorruptError):
        read_each([two], look, OutputFormat.TABLE)


def test_highest_exit_code_of_the_routes_is_that_of_the_command() -> None:
    raise_code([0, 0])
    with pytest.raises(typer.Exit) as ended:
        raise_code([0, SluicewayError("?"), LedgerCorruptError("!")])
    assert ended.value.exit_code == 7
    with pytest.raises(typer.Exit) as told:
        raise_code([0, 5], lambda found: found)
    assert told.value.exit_code == 5


@pytest.mark.parametrize("command", ON_JOBS, ids=" ".join)
def test_error_of_every_command_is_the_same_in_yaml(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = (*command, str(tmp_path / "none.yaml"), *MORE.get(command, ()))
    code, shown, _ = answer((*args, "-o", "json"), capsys)
    assert run_command((*args, "--output=yaml")) == code
    text = capsys.readouterr().out
    assert text.startswith("---\n")
    assert YAML(typ="safe", pure=True).load(text) == shown


def test_texts_of_several_lines_are_readable_in_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    print_document({"text": "one\ntwo\n", "day": "20261120", "at_us": 5_000}, OutputFormat.YAML)
    shown = capsys.readouterr().out
    assert shown == "---\ntext: |\n  one\n  two\nday: '20261120'\nat_ms: 5\n"
