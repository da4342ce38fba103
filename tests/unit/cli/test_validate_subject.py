"""`sluiceway validate` of what a job file has different from a registry's columns."""

from pathlib import Path

import pytest

from sluiceway.cli.app import run_command
from unit.cli.test_infer_schema import job


def changed(folder: Path, changes: str) -> str:
    """A job file; `changes` begin in column 29 of line 11."""
    return job(folder, "{avro: {registry: reg}}", f"{{from_registry: {{{changes}}}}}")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ("override: {a: {type: strng}}", "11:50: expected a Hive type, got `strng`"),
        (
            "override: {a: {type: int, on_bad_text: replace}}",
            "11:68: expected no `on_bad_text`",
        ),
        ("override: {a: {type: int, default: x}}", "11:64: expected a value of type int, got `x`"),
        (
            "override: {a: {required: true, type: int, on_overflow: null}}",
            "11:84: expected no `on_overflow: null` with `required`",
        ),
        ("add: [{name: a, type: map, path: b}]", "11:51: expected a Hive type, got `map`"),
        ("add: [{name: a, type: int, constant: x}]", "11:66: expected a value of type int"),
        (
            "add: [{name: a, type: int, constant: 5, path: b}]",
            "11:66: expected no `constant` with `path`",
        ),
        (
            "add: [{name: a, type: int, constant: 5, trim: true}]",
            "11:75: expected no `trim` with `constant`",
        ),
        (
            "add: [{name: a, type: int, expression: '1 +'}]",
            "11:68: expected an expression of type int over columns of the payload",
        ),
    ],
)
def test_changes_are_checked_without_the_registry(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: str, problem: str
) -> None:
    assert run_command(["validate", changed(tmp_path, changes)]) == 3
    assert f"job.yaml:{problem}" in capsys.readouterr().err


def test_what_only_the_registry_knows_is_left_to_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = (
        "except: [x], override: {a: {name: b, on_overflow: clamp}, c: {type: string}}, "
        "add: [{name: d, type: int, expression: nope + 1}]"
    )
    assert run_command(["validate", changed(tmp_path, changes)]) == 0
    told = capsys.readouterr().out
    assert "subject orders-value, at each start; without x; changed a, c; added d" in told
