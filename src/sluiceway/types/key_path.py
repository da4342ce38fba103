"""Paths of keys as job files spell them: `geo.city`, and `['host.name']` for a key with a dot."""

import re
from collections.abc import Sequence

TOP = "$"
"""Before the first bracket: the payload's top, or the message of a change log."""

_BRACKET = re.compile(r"""\[(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\]""")
_PLAIN = re.compile(r"""(?:(?!\[['"])[^.])+""")
_ESCAPED = re.compile(r"\\(.)")


def path_keys(text: str) -> tuple[str, ...]:
    """The keys of a path.

    Args:
        text: As `geo.city`, `['host.name']`, `$['host.name'].os`, `a["b.c"]`. Quotes and
            backslashes within brackets have a backslash before them.

    Returns:
        `$` is a key of its own.

    Raises:
        ValueError: A part is empty, or a bracket has no end.
    """
    keys: list[str] = []
    at = 0
    while at < len(text) or not keys:
        bracket = _BRACKET.match(text, at)
        if bracket is None and at:
            if text[at] != ".":
                raise ValueError("a dot or a bracket is expected")
            at += 1
        found = bracket or _PLAIN.match(text, at)
        if found is None:
            raise ValueError("a key is expected")
        key = found[0]
        if bracket is not None:
            key = _ESCAPED.sub(r"\1", bracket[1] if bracket[1] is not None else bracket[2])
        keys.append(key)
        at = found.end()
    return tuple(keys)


def is_from_top(text: str) -> bool:
    """Whether a path begins with `$` and a bracket, which say where it begins and name no key."""
    return text.startswith(TOP) and _BRACKET.match(text, len(TOP)) is not None


def keys_below(text: str) -> tuple[str, ...]:
    """The keys of a path into a payload that is no message of a change log; raises likewise."""
    keys = path_keys(text)
    return keys[1:] if is_from_top(text) else keys


def path_text(keys: Sequence[str]) -> str:
    """The path that `path_keys` reads as these keys."""
    return "".join(step_text(key, first=not number) for number, key in enumerate(keys))


def step_text(key: str, *, first: bool) -> str:
    """One key in a path."""
    if _PLAIN.fullmatch(key):
        return key if first else f".{key}"
    escaped = key.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{escaped}']"
