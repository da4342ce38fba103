"""Documents are in plain words: what is left of others may only become less."""

from tools.plain_words import banned_words, found_in

LEFT = 0
"""Lower it with each word that goes; it never rises."""


def test_banned_words_become_fewer() -> None:
    assert banned_words() <= LEFT, "cd tests && python -m tools.plain_words lists them"


def test_words_in_code_are_left_alone_and_others_are_found_with_their_line() -> None:
    text = "```\nnobody\n```\n`beside` is told\n\n| " + "word " * 80 + "| x |\n"
    assert list(found_in(text)) == [("told", 4), ("cell too long", 6)]
