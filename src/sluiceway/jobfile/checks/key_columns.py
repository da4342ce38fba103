"""Which columns can be of a key."""

from collections.abc import Iterator, Mapping

from sluiceway.jobfile.problems import quoted

_NO_KEYS = ("float", "double", "array", "map", "struct", "binary", "boolean")


def key_column_problems(name: str, column: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Why a declared column cannot be of a key, and what to do; nothing where it can.

    Args:
        name: As the key has it.
        column: The keys of its declaration that are written.
    """
    kind = str(column.get("type", "")).strip().lower()
    if kind.startswith(_NO_KEYS):
        text = f"expected a key of whole numbers, decimals, texts or times, got {quoted(kind)}"
        yield text, "choose the columns of the database's primary key"
    for made in ("expression", "constant", "default"):
        if made in column:
            text = f"expected a key column as the source has it, {quoted(name)} has `{made}`"
            yield text, "choose a column that is read from the row"
