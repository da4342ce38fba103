"""An expression's text -> tokens with their positions."""

import re
from dataclasses import dataclass
from typing import Literal

from sluiceway.expressions.tree import ExpressionError

MAX_TEXT_BYTES = 4096
KEYWORDS = frozenset(
    ["and", "or", "not", "in", "between", "is", "null", "like", "true", "false", "cast", "as"]
)
_TOKEN = re.compile(
    r"(?P<space>[ \t\r\n]+)"
    r"|(?P<number>[0-9]+(?:\.[0-9]+)?(?![A-Za-z0-9_.]))"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<quoted>`(?:[^`]|``)+`)"
    r"|(?P<text>'(?:[^']|'')*')"
    r"|(?P<symbol><=|>=|<>|!=|\|\||[=<>+*(),.-])"
)
_BROKEN: tuple[tuple[str, str], ...] = (
    ("'", "expected a closing ' for the text that begins here"),
    ("`", "expected a name and a closing ` for the name that begins here"),
    ('"', "texts stand in 'single quotes', names in `backquotes`"),
    ("/", "there is no division here: its results are not exact"),
)

Kind = Literal["number", "word", "keyword", "quoted", "text", "symbol", "end"]


@dataclass(frozen=True, slots=True)
class Token:
    """One piece of the text.

    Attributes:
        kind: `keyword` for a word with a meaning; `quoted` for a name in backquotes.
        text: Keywords in lower case, quoted names and texts without their quotes.
        at: Position of its first character, from 0.
    """

    kind: Kind
    text: str
    at: int

    def shown(self) -> str:
        """The token for a message."""
        return "the end" if self.kind == "end" else f"`{self.text[:40]}`"


def tokenize(text: str) -> list[Token]:
    """Split an expression's text.

    Called once per expression, on the driver for checks and in each task.

    Args:
        text: Text of at most 4 KiB in UTF-8.

    Returns:
        The tokens, and a last one of kind `end`.

    Raises:
        ExpressionError: A character begins no token, or the text is too long.
    """
    _check_size(text)
    tokens, at = list[Token](), 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _unknown(text, at)
        if found.lastgroup != "space":
            tokens.append(_token(found))
        at = found.end()
    return [*tokens, Token("end", "", len(text))]


def _check_size(text: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise ExpressionError("expected Unicode text, got half a character", error.start) from error
    if size > MAX_TEXT_BYTES:
        raise ExpressionError(f"expected at most {MAX_TEXT_BYTES} bytes, got {size}", 0)


def _token(found: re.Match[str]) -> Token:
    text, at = found[0], found.start()
    match found.lastgroup:
        case "number":
            return Token("number", text, at)
        case "text":
            return Token("text", text[1:-1].replace("''", "'"), at)
        case "quoted":
            return Token("quoted", text[1:-1].replace("``", "`"), at)
        case "word" if text.lower() in KEYWORDS:
            return Token("keyword", text.lower(), at)
        case "word":
            return Token("word", text, at)
        case _:
            return Token("symbol", "!=" if text == "<>" else text, at)


def _unknown(text: str, at: int) -> ExpressionError:
    if text[at] in "0123456789":
        return ExpressionError("expected a number such as 12 or 0.25", at)
    for begin, message in _BROKEN:
        if text[at] == begin:
            return ExpressionError(message, at)
    return ExpressionError(f"no expression has {text[at]!a}", at)
