"""Whether rows of a route can go into a table that exists."""

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import NestedField

from sluiceway.errors import TableMismatchError
from sluiceway.sinks.iceberg.column_types import to_iceberg, type_problem
from sluiceway.types.schema import Field

_VERSION = 2


def check_writable(metadata: TableMetadata, where: str) -> None:
    """See that this version writes such a table.

    Raises:
        TableMismatchError: It does not; says what to do.
    """
    problem, hint = None, ""
    if metadata.format_version != _VERSION:
        problem = f"it has the format version {metadata.format_version}; this version writes 2"
        older = metadata.format_version < _VERSION
        hint = (
            "ALTER TABLE ... SET TBLPROPERTIES ('format-version'='2')"
            if older
            else "fill a new table of version 2: a version never goes back"
        )
    elif metadata.properties.get("write.data.path"):
        problem, hint = "it has write.data.path set", "unset it: files go below its location"
    elif metadata.properties.get("write.format.default", "parquet").lower() != "parquet":
        problem, hint = "its files are not Parquet", "set write.format.default to parquet"
    if problem is not None:
        raise TableMismatchError(problem, where=where, hint=hint)


def column_problems(wanted: Field, held: NestedField | None) -> list[str]:
    """Why values of a column cannot go into the table's own; none when they can."""
    if held is None:
        return [f"column {wanted.name} {to_iceberg(wanted.type)} is missing"]
    problem = type_problem(wanted.type, held.field_type, name=wanted.name)
    problems = [] if problem is None else [problem]
    if held.required and not wanted.required:
        problems.append(f"column {wanted.name} is required in the table: write required: true")
    return problems
