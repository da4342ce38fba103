"""Proposed columns as text of a job file: one line each, doubts as comments."""

from collections.abc import Sequence

_YAML_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def column_line(
    name: str,
    type_text: str,
    notes: Sequence[str],
    settings: Sequence[str] = (),
    *,
    as_text: bool = False,
) -> str:
    """A line of a `columns` block; a comment when there is no type.

    Args:
        name: Name of the column.
        type_text: Hive's type text; empty for none.
        notes: Text of the comment at the line's end.
        settings: Further keys of the column, such as `unit: ms`.
        as_text: Values of any kind are kept as text.
    """
    from sluiceway.types.dirty import shown  # noqa: PLC0415 - keeps `--help` quick

    comment = f" {as_comment('; '.join(notes))}" if notes else ""
    if not type_text:
        return f"  # - {{name: {shown(name, 100)}}}{comment}"
    more = "".join(f", {each}" for each in (*settings, *(["on_lossy: text"] * as_text)))
    kind = f'"{type_text}"' if set(type_text) & set("(<,") else type_text
    quoted = f'"{name}"' if name.lower() in _YAML_WORDS else name
    return f"  - {{name: {quoted}, type: {kind}{more}}}{comment}"


def as_comment(text: str) -> str:
    """A comment of YAML. Keys of records may be in it, so what would end its line is escaped."""
    from sluiceway.cli.views.tables import printable  # noqa: PLC0415 - keeps `--help` quick

    return f"# {printable(text)}"


def columns_text(heading: Sequence[str], lines: Sequence[str]) -> str:
    """The block as text.

    Args:
        heading: Comments above the block.
        lines: Lines of the columns; where all are comments, so is the key above them.
    """
    key = "columns:" if any(line.startswith("  - ") for line in lines) else "# columns:"
    return "\n".join([*map(as_comment, heading), key, *lines]) + "\n"
