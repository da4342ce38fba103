"""Hive types as text, taken apart without the package's parser."""

from functools import cache


@cache
def split_type(hive: str) -> tuple[str, tuple[int, ...], tuple[tuple[str, str], ...]]:
    """Name, numbers in parentheses, and inner types with their field names."""
    text = hive.strip()
    if "<" in text:
        name, _, rest = text.partition("<")
        parts = _split_top(rest[:-1])
        if name == "struct":
            return name, (), tuple(tuple(part.split(":", 1)) for part in parts)  # type: ignore[misc]
        return name, (), tuple(("", part) for part in parts)
    name, paren, rest = text.partition("(")
    return name, tuple(int(one) for one in rest[:-1].split(",")) if paren else (), ()


def _split_top(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]
