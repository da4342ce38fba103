"""Whether rows of a route can go into a table that exists."""

from collections.abc import Collection

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import NestedField

from sluiceway.errors import JobFileError, TableMismatchError
from sluiceway.sinks.iceberg.column_types import to_iceberg, type_problem
from sluiceway.storage.locations import path_below, same_location, same_store, store_and_path
from sluiceway.types.schema import Field

_VERSION = 2
_MANY_SNAPSHOTS = 1_000
_SYSTEM_FOLDER = "_sluiceway"
_UUID_DIGITS = 8


def check_writable(metadata: TableMetadata, where: str) -> None:
    """Check that this version writes such a table.

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
    elif metadata.properties.get("encryption.key-id"):
        problem = "it has encryption.key-id set: readers would take its files for encrypted ones"
        hint = "fill a table without it: files are written as they are"
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


def table_warnings(
    metadata: TableMetadata, filled: Collection[str], *, where: str, keyed: bool
) -> tuple[str, ...]:
    """What a person should know of a table that is accepted.

    Args:
        metadata: Metadata of the table.
        filled: Names of columns that rows have, in lower case.
        where: Its name.
        keyed: Whether rows replace older ones of their key.
    """
    found = []
    unfilled = [f.name for f in metadata.schema().fields if f.name.lower() not in filled]
    if unfilled:
        found.append(f"columns of {where} that stay null: {', '.join(unfilled)}")
    if not metadata.sort_order().is_unsorted:
        found.append(f"{where} has a sort order, which new files do not keep")
    if len(metadata.snapshots) > _MANY_SNAPSHOTS:
        count = len(metadata.snapshots)
        found.append(
            f"{where} has {count:,} snapshots, which each commit rewrites: write "
            "table.iceberg.keep_snapshots, or run `sluiceway maintain JOB --keep 1d`"
        )
    if metadata.schema().identifier_field_ids and not keyed:
        found.append(f"{where} has identifier fields; rows are appended, never replaced")
    return tuple(found)


def ledger_place(location: str, uuid: str, named: str | None) -> str:
    """Folder of a table's ledger: next to the table, so that clean-ups of others leave it alone.

    Args:
        location: Location of the table, without a trailing slash.
        uuid: UUID of the table; a stand-in where its catalog has yet to give it.
        named: What the job file says; None leaves it to the name of the table.
    """
    if named is not None:
        return named.rstrip("/")
    parent, _, last = location.rpartition("/")
    return f"{parent}/{_SYSTEM_FOLDER}/{last}-{uuid[:_UUID_DIGITS]}"


def check_ledger_place(place: str, location: str, *, named: bool) -> None:
    """Check that the ledger lies where clean-ups of others leave it, and where links reach.

    Args:
        place: Folder of the ledger.
        location: Location of the table.
        named: Whether the job file says the place.

    Raises:
        JobFileError: It does not.
    """
    if same_location(place, location) or path_below(location, place) is not None:
        raise JobFileError(
            f"the ledger would lie below the table's location {location}, where clean-ups of "
            "other tools remove what they do not know",
            where="table.iceberg.ledger",
            hint="name a folder next to it, on the same store",
        )
    if named and not same_store(store_and_path(place)[0], store_and_path(location)[0]):
        raise JobFileError(
            f"the ledger's place {place} is not on the store of {location}",
            where="table.iceberg.ledger",
            hint="name a folder on the same store, with the same scheme and authority",
        )
