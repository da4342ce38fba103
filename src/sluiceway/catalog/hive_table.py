"""Tables and partitions of a Hive Metastore as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sluiceway.errors import TableMismatchError
from sluiceway.storage.locations import same_location
from sluiceway.types.evolution import is_extension, is_wider

PARQUET_SERDE = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
PARQUET_INPUT_FORMAT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
PARQUET_OUTPUT_FORMAT = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"


@dataclass(frozen=True, slots=True)
class HiveColumn:
    """A column; `type` is Hive's type text, as `array<struct<a:int>>`."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class HiveLayout:
    """How rows are stored: what a table and each of its partitions have in common.

    Attributes:
        location: Root folder; empty in a table to be created, for which the metastore chooses one.
        serde: Java class that reads and writes rows.
        input_format: Java class.
        output_format: Java class.
        columns: Without partition columns.
        serde_parameters: Parameters of the SerDe.
        bucket_count: Number of buckets; 0 or less without buckets.
        sort_columns: Columns that rows are sorted by.
        skewed_columns: Columns with a folder of their own for frequent values.
        sub_directories: Whether frequent values have folders, whatever the columns.
        storage_parameters: Parameters of the storage descriptor, which are neither table nor SerDe
            ones.
    """

    location: str
    serde: str
    input_format: str
    output_format: str
    columns: tuple[HiveColumn, ...]
    serde_parameters: Mapping[str, str] = field(default_factory=dict)
    bucket_count: int = 0
    sort_columns: tuple[str, ...] = ()
    skewed_columns: tuple[str, ...] = ()
    sub_directories: bool = False
    storage_parameters: Mapping[str, str] = field(default_factory=dict)

    def differences(self, expected: "HiveLayout", *, narrower: bool = False) -> tuple[str, ...]:
        """Differences from `expected` in words; empty when the layout is compatible.

        Columns may be fewer or more, as long as the shorter list is a prefix of the longer one. The
        same holds for fields of structs. The location is not compared.

        Args:
            expected: Layout of the table.
            narrower: Whether numbers may have fewer bits, as in a partition of a table that was
                widened.
        """
        found = [
            f"{what} is {ours or 'none'}, expected {theirs}"
            for what, ours, theirs in (
                ("SerDe", self.serde, expected.serde),
                ("input format", self.input_format, expected.input_format),
                ("output format", self.output_format, expected.output_format),
            )
            if ours != theirs
        ]
        if promise := self.promise():
            found.append(promise)
        for ours, theirs in zip(self.columns, expected.columns, strict=False):
            if not _compatible(ours, theirs) and not (narrower and _is_widened(ours, theirs)):
                found.append(
                    f"column {ours.name} {ours.type}, expected {theirs.name} {theirs.type}"
                )
        return tuple(found)

    def promise(self) -> str:
        """Order or place of rows that the layout declares and our files do not have; else empty."""
        if self.bucket_count > 0:
            return f"it is bucketed into {self.bucket_count}"
        if self.sort_columns:
            return f"it is sorted by {', '.join(self.sort_columns)}"
        if self.skewed_columns:
            return f"it is skewed by {', '.join(self.skewed_columns)}"
        return "it is stored as directories" if self.sub_directories else ""

    def lacks_columns(self, table: "HiveLayout") -> bool:
        """Whether the table has more columns, structs with more fields, or wider numbers.

        Called for partitions whose layout has no differences.
        """
        return len(self.columns) < len(table.columns) or any(
            _folded(ours) != _folded(theirs)
            and (is_extension(ours.type, theirs.type) or is_wider(ours.type, theirs.type))
            for ours, theirs in zip(self.columns, table.columns, strict=False)
        )


@dataclass(frozen=True, slots=True)
class MetastoreTable:
    """A table.

    Attributes:
        database: Its database.
        name: Its name.
        kind: `EXTERNAL_TABLE`, `MANAGED_TABLE`, `VIRTUAL_VIEW` or `MATERIALIZED_VIEW`.
        layout: How rows are stored.
        partition_columns: In path order.
        parameters: Table properties.
        created_at_s: Seconds since the epoch; 0 in a table to be created.
    """

    database: str
    name: str
    kind: str
    layout: HiveLayout
    partition_columns: tuple[HiveColumn, ...]
    parameters: Mapping[str, str]
    created_at_s: int = 0

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"

    def differences(self, expected: "MetastoreTable") -> tuple[str, ...]:
        """Differences from `expected`, in words. An empty expected location fits any."""
        found = list(self.layout.differences(expected.layout))
        if self.kind != expected.kind:
            found.append(f"it is a {self.kind}, expected {expected.kind}")
        ours = [_folded(column) for column in self.partition_columns]
        theirs = [_folded(column) for column in expected.partition_columns]
        if ours != theirs:
            found.append(f"partition columns are {ours}, expected {theirs}")
        return tuple(found)


@dataclass(frozen=True, slots=True)
class HivePartition:
    """A partition that the metastore holds.

    Attributes:
        values: Raw (not escaped), in path order.
        layout: How its rows are stored, with its location.
        parameters: Its properties.
    """

    values: tuple[str, ...]
    layout: HiveLayout
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NewPartition:
    """A partition to add; everything but the location comes from the table.

    Attributes:
        values: Raw, in path order.
        location: Folder with its scheme. It must exist: the metastore creates a missing folder, and
            removes it with all files when its own transaction fails.
    """

    values: tuple[str, ...]
    location: str


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """A change to an existing partition; statistics are always marked as unreliable.

    Attributes:
        name: Escaped path, `dt=20261120/hr=08`.
        values: The same, raw.
        location: New location; None keeps it.
        columns: New data columns; None keeps them.
    """

    name: str
    values: tuple[str, ...]
    location: str | None = None
    columns: "tuple[HiveColumn, ...] | None" = None


@dataclass(frozen=True, slots=True)
class RejectedPartition:
    """A partition that the metastore refuses by itself, and its reason."""

    values: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class AddOutcome:
    """The result of adding partitions; those in neither list were added.

    Attributes:
        existed: Values of partitions that existed already; read them back and compare.
        rejected: Partitions that the metastore refuses.
    """

    existed: tuple[tuple[str, ...], ...]
    rejected: tuple[RejectedPartition, ...]


def refuse_another(found: MetastoreTable, wanted: MetastoreTable) -> None:
    """Refuse a table found after a creation that is not the table to be created.

    Raises:
        TableMismatchError: Says which parts differ. An empty wanted location fits any.
    """
    differences = list(found.differences(wanted))
    location = wanted.layout.location
    if location and not same_location(found.layout.location, location):
        differences.append(f"location is {found.layout.location}, expected {location}")
    if differences:
        raise TableMismatchError(
            f"another table of this name was created meanwhile: {'; '.join(differences)}",
            where=str(wanted),
        )


def _folded(column: HiveColumn) -> str:
    return f"{column.name} {column.type}".lower().replace(", ", ",")


def _is_widened(before: HiveColumn, now: HiveColumn) -> bool:
    return before.name.lower() == now.name.lower() and is_wider(before.type, now.type)


def _compatible(one: HiveColumn, other: HiveColumn) -> bool:
    """Whether columns are the same; a struct may have more fields in either of them."""
    if _folded(one) == _folded(other):
        return True
    alike = one.name.lower() == other.name.lower()
    return alike and (is_extension(one.type, other.type) or is_extension(other.type, one.type))
