"""Documents are in plain words: what is left of others may only become less."""

from pathlib import Path

import pytest

from tools import house
from tools.plain_words import banned_words, found_in

LEFT = 0
"""Lower it with each word that goes; it never rises."""


def test_banned_words_become_fewer() -> None:
    assert banned_words() <= LEFT, "cd tests && python -m tools.plain_words lists them"


def test_words_in_code_are_left_alone_and_others_are_found_with_their_line() -> None:
    text = "```\nnobody\n```\n`beside` is told\n\n| " + "word " * 80 + "| x |\n"
    assert list(found_in(text)) == [("told", 4), ("cell too long", 6)]


def test_comments_docstrings_and_messages_of_the_code_have_no_such_word() -> None:
    assert house.words_in_code() == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("None for one that is gone", ["one that"]),
        ("not the one that was committed", []),
        ("rows that came behind", ["behind, for after"]),
        ("bytes behind the record", ["behind, for after"]),
        ("how far it is behind the clock", []),
        ("a `timezone` beside it", ["beside"]),
        ("2xx and others besides", []),
    ],
)
def test_word_is_banned_in_the_sense_that_readers_stumble_over(text: str, names: list[str]) -> None:
    assert [name for name, _ in found_in(text)] == names


def test_texts_of_a_module_are_its_comments_docstrings_and_messages(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""Made anew."""\nX = 1  # Told once.\n\n\ndef told(name):\n'
        '    raise ValueError(f"no `{name}` beside " "it", "beside", "a # b")\n'
    )
    assert list(house.texts_of(module)) == [
        (2, "Told once."),
        (6, 'b")'),
        (1, "Made anew."),
        (6, "no `x` beside it"),
        (6, "a # b"),
    ]
