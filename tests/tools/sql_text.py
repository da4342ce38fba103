"""Pieces of SQL for the independent reader: names, texts, conditions."""

from collections.abc import Sequence

from .row_oracle import KEYS


def quoted(name: str) -> str:
    """A name, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text, whatever it holds."""
    return "'" + text.replace("'", "''") + "'"


def differs(column: str, kind: str) -> str:
    """Condition on a column of `t` and `fine`; as numbers 0.0 and -0.0 would be the same."""
    condition = f"t.{column} IS DISTINCT FROM fine.{column}"
    if "DOUBLE" in kind or "FLOAT" in kind:
        as_text = f"t.{column}::VARCHAR IS DISTINCT FROM fine.{column}::VARCHAR"
        return f"({condition} OR {as_text})"
    return condition


def same(left: str, right: str, names: Sequence[str] = KEYS) -> str:
    """Join condition on topic, partition and offset."""
    return " AND ".join(
        f"{left}.{quoted(name)} = {right}.{quoted(f'#{key}')}"
        for name, key in zip(names, KEYS, strict=True)
    )
