import pytest
from pydantic_core import PydanticCustomError

from sluiceway.jobfile.blocks.topic_pattern import (
    MAX_PATTERN,
    MAX_TOPIC_NAME,
    compile_topic_pattern,
    missing_groups,
    render,
)
from tools.hang import ended_if_endless


@pytest.mark.parametrize(
    "text",
    [
        "orders",
        "app_(.*)",
        "(.*)_(.*)_(.*)",
        "(?P<db>[a-z]+)\\.(?P<table>\\w+)",
        "(?:a|b|c)_x?",
        "(?!test_).*",
        "[]a-]+",
        "[^_].*",
        "a{3}b{1,5}",
        "(ab)?c",
    ],
)
def test_plain_pattern_is_accepted(text: str) -> None:
    assert compile_topic_pattern(text).pattern == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "a pattern of 1 to 500 characters"),
        ("a" * (MAX_PATTERN + 1), "a pattern of 1 to 500 characters"),
        ("a\nb", "a pattern of 1 to 500 characters"),
        ("(", "a regular expression"),
        ("[", "a regular expression"),
        ("a)", "a regular expression"),
        ("*", "a regular expression"),
        ("[[a]", "a regular expression"),
        ("\\", "a regular expression"),
        ("(a+)+", "without repeated groups"),
        ("(a|a)*b", "without repeated groups"),
        ("(?:a*)*b", "without repeated groups"),
        ("(a|b){2,}", "without repeated groups"),
        ("(a{0,9}){99999999}", "without repeated groups"),
        (".*.*.*.*x", "that can match in few ways"),
        (".?" * 40 + "x", "that can match in few ways"),
        ("(a?){2}", "without repeated groups"),
        ("a?" * 20 + "a" * 20 + "(b?c?d?e?f?)", "that can match in few ways"),
        ("(" * 25 + "a" + ")" * 25, "a pattern of plain and named groups"),
        ("(?i)orders", "a pattern of plain and named groups"),
        ("(?(1)a|b)", "a pattern of plain and named groups"),
    ],
)
def test_pattern_that_could_take_for_ever_or_is_none_is_refused(text: str, expected: str) -> None:
    with pytest.raises(PydanticCustomError, match=expected):
        compile_topic_pattern(text)


@pytest.mark.parametrize("text", ["(.*)_(.*)_(.*)!", ".*a.*a.*b", "a?" * 8 + "a*a*!", "(?=.*!).*"])
def test_worst_accepted_pattern_answers(text: str) -> None:
    pattern = compile_topic_pattern(text)
    for name in ("a" * MAX_TOPIC_NAME, "_" * MAX_TOPIC_NAME):
        with ended_if_endless():
            assert pattern.fullmatch(name) is None


def test_render_puts_groups_into_the_name() -> None:
    pattern = compile_topic_pattern("(?P<app>a|b)_(x)?(.*)")
    match = pattern.fullmatch("a_rest")
    assert match is not None
    assert render("ods.{app}_{1}_{2}_{3}_{0}", match) == "ods.a_a__rest_a_rest"
    assert missing_groups("{app}{1}{0}{3}", pattern) == ()
    assert missing_groups("{4}{App}{01}", pattern) == ("4", "App", "01")
