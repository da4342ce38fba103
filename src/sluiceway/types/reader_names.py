"""Names that readers of tables hide or cannot use."""

import re

# Source: Hive `Filter.g`, by which a metastore reads what Spark and Hive ask of partitions.
_FILTER_NAME = re.compile("[0-9]*[A-Za-z_][A-Za-z0-9_]*")
_FILTER_WORDS = frozenset({"and", "or", "not", "like", "in", "between", "const"})
# Spark refuses to read tables with a column of one of these names.
# Source: Iceberg's `MetadataColumns`.
RESERVED_COLUMNS = frozenset({
    "_file",
    "_pos",
    "_deleted",
    "_spec_id",
    "_partition",
    "_row_id",
    "_last_updated_sequence_number",
    "_change_type",
    "_change_ordinal",
    "_commit_snapshot_id",
})  # fmt: skip


def is_hidden_folder(location: str) -> bool:
    """Whether readers of Hadoop's family leave out what lies in a folder, by its own name."""
    return location.rstrip("/").rpartition("/")[2].startswith(("_", "."))


def partition_name_problem(name: str) -> str | None:
    """Why readers cannot use a partition column of this name, or None; for tables of folders.

    Args:
        name: Name of the partition column, with which the names of its folders begin.
    """
    if is_hidden_folder(name):
        return "readers of Hadoop's family hide folders whose names begin with `_` or `.`"
    if name.lower() in _FILTER_WORDS:
        return f"`{name.lower()}` is a word of the metastore's filters: queries by it fail"
    if not _FILTER_NAME.fullmatch(name):
        return "the metastore's filters know names of letters, digits and `_` only"
    return None
