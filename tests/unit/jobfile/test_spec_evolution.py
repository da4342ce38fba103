"""`table.evolution`: what goes with which format and catalog."""

import pytest

from sluiceway.errors import JobFileError
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.types.evolution import Evolution
from tools.evolution_jobs import evolution_route


@pytest.mark.parametrize(
    ("evolution", "extra", "follows"),
    [
        ("", "ignore", False),
        ("evolution: fail", "ignore", False),
        ("evolution: follow_table", "ignore", True),
        ("evolution: add_columns", "evolve", True),
        ("evolution: quarantine", "evolve", False),
    ],
)
def test_policy_reaches_the_decoder_and_the_table(
    evolution: str, extra: str, *, follows: bool
) -> None:
    config = compile_route(evolution_route(evolution))
    assert config.evolution == Evolution(evolution.removeprefix("evolution: ") or "fail")
    assert dict(config.format.options)["unknown_fields"] == extra
    assert config.table.follows is follows


@pytest.mark.parametrize(
    ("evolution", "format_block", "message"),
    [
        (
            "add_columns",
            "{raw: {}}",
            "expected the format json, debezium without a registry or maxwell with `add_columns`",
        ),
        ("add_columns", "{canal: {}}", "or maxwell with `add_columns`"),
        ("quarantine", "{debezium: {}}", "expected the format json with `quarantine`"),
        ("quarantine", "{csv: {}}", "expected the format json with `quarantine`"),
        (
            "quarantine",
            "{json: {unknown_fields: dirty}}",
            "expected no `unknown_fields` with `quarantine`",
        ),
        (
            "add_columns",
            "{json: {unknown_fields: ignore}}",
            "expected no `unknown_fields` with `add_columns`",
        ),
        ("sometimes", "{json: {}}", "sometimes"),
    ],
)
def test_policy_that_does_not_go_with_the_format_is_refused(
    evolution: str, format_block: str, message: str
) -> None:
    with pytest.raises(JobFileError) as caught:
        evolution_route(f"evolution: {evolution}", format_block)
    assert message in caught.value.message


@pytest.mark.parametrize("name", ["debezium", "maxwell"])
def test_rows_of_a_change_log_in_json_tell_of_new_columns(name: str) -> None:
    config = compile_route(evolution_route("evolution: add_columns", f"{{{name}: {{}}}}"))
    assert dict(config.format.options)["unknown_fields"] == "evolve"
    config = compile_route(evolution_route("", f"{{{name}: {{}}}}"))
    assert "unknown_fields" not in dict(config.format.options)


def test_rule_of_the_decoder_is_no_word_of_the_job_file() -> None:
    with pytest.raises(JobFileError, match="evolve"):
        evolution_route("", "{json: {unknown_fields: evolve}}")
