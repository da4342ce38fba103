"""Units of an Iceberg table that a route of ours fills: its ledger says which, a snapshot where.

The table's property says up to which slot its snapshot has the ledger. So rows that are counted and
files that are read are of one moment, whatever was compacted.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.transforms import IdentityTransform

from sluiceway.chains.lake_client import load_table
from sluiceway.chains.lake_reader import client_errors
from sluiceway.chains.lake_upstream import LakeUpstream
from sluiceway.chains.options import missing
from sluiceway.chains.unit_tables import LedgerUnits, PartitionFiles, UnitFiles, partition_values
from sluiceway.chains.units import UnitRule, UnitState
from sluiceway.errors import (
    NotInThisVersionError,
    SourceUnavailableError,
    TableMismatchError,
)
from sluiceway.sinks.files.contract import FileFormat
from sluiceway.sinks.iceberg.catalog.catalog_pool import pooled_catalog
from sluiceway.sinks.iceberg.column_types import from_iceberg
from sluiceway.sinks.iceberg.publish.lake_table import LEDGER_PROPERTY
from sluiceway.sinks.iceberg.publish.table_checks import ledger_place
from sluiceway.sinks.iceberg.table_history import Lineage, lineage, read_through
from sluiceway.sinks.lake_options import STORES_PROPERTY, parse_stores
from sluiceway.sinks.table_options import ReadableTable
from sluiceway.storage.access import Stores
from sluiceway.types.hive_types import format_hive_type

_TIMEOUT_S = 30.0

Values = tuple[str | None, ...]


class _HeldFile(NamedTuple):
    """A data file of the newest snapshot, and the values of the unit that it is of."""

    unit: Values
    path: str
    rows: int


class LakeUnits(LedgerUnits):
    """Units of an Iceberg table that a route of ours fills; see `UnitTable`.

    Args:
        options: How it is reached.
        rule: What the route computes of it.

    Raises:
        TableNotFoundError: It does not exist.
        TableMismatchError: The unit is none of its partition columns.
        SourceUnavailableError: No driver has ever run for it.
        NotInThisVersionError: Its ledger is not where it is looked for, or Spark does not read its
            files as they are.
    """

    def __init__(self, options: LakeUpstream, rule: UnitRule) -> None:
        self._options = options
        self._columns = rule.columns
        self._files: dict[Values, list[_HeldFile]] = {}
        self._manifests: dict[str, list[_HeldFile]] = {}
        self._lake = lake_table(options)
        _unit_places(self._lake.metadata.spec(), self._lake.schema(), rule.columns, options.topic)
        table = readable(self._lake.metadata, options.topic)
        try:
            super().__init__(*ledger_of(self._lake, options), rule, table, options.topic)
        except SourceUnavailableError as error:
            if LEDGER_PROPERTY not in self._lake.metadata.properties:
                raise
            raise NotInThisVersionError(
                "the ledger of the table that is read is not next to it",
                where=options.topic,
                hint="let a route fill a table without `table.iceberg.ledger`, and read that",
            ) from error

    def read_on(self) -> None:
        """See `UnitTable.read_on`: up to the slot that the table's newest snapshot has."""
        table = lake_table(self._options)
        if table.metadata.table_uuid != self._lake.metadata.table_uuid:
            raise SourceUnavailableError(
                "the table that is read has another ledger now", where=self._options.topic
            )
        through = read_through(
            table.metadata.properties, self.identity.topic_id, where=self._options.topic
        )
        if through is None:
            return
        if lineage(table.metadata, through) is Lineage.LOST:
            raise SourceUnavailableError(
                "the table that is read was rolled back",
                where=self._options.topic,
                hint="make the newest snapshot of its job current again",
            )
        with client_errors(self._options.topic):
            files = self._read_manifests(table)
        self._upstream.read_through(through.slot)
        if self._upstream.book.slot < through.slot:
            raise SourceUnavailableError(
                f"the table that is read has slot {through.slot} of its ledger, which ends at "
                f"slot {self._upstream.book.slot}",
                where=self._options.topic,
                hint="bring back the newest ledger of its job",
            )
        self._lake, self.table = table, readable(table.metadata, self._options.topic)
        self._files = {}
        for file in files:
            self._files.setdefault(file.unit, []).append(file)

    def states(self) -> list[UnitState]:
        """See `UnitTable.states`: a unit without any file was let go of by another writer."""
        return [
            replace(each, lost=True) if each.rows and not self._held(each.prefix) else each
            for each in super().states()
        ]

    def files(self, prefix: str) -> UnitFiles:
        """See `UnitTable.files`.

        Raises:
            TableMismatchError: Another writer has changed the rows of the unit.
        """
        held = self._held(prefix)
        rows = sum(file.rows for file in held)
        counted = self._units.rows(prefix)
        if rows != counted:
            raise TableMismatchError(
                f"its files have {rows} rows, and its ledger counts {counted}: another writer has "
                "changed them",
                where=f"{self._options.topic}/{prefix}",
                hint="make the snapshot before that current again, or read another table",
            )
        paths = tuple(sorted(file.path for file in held))
        return UnitFiles((PartitionFiles((), paths),) if paths else (), rows)

    def _held(self, prefix: str) -> list[_HeldFile]:
        return self._files.get(partition_values(prefix), [])

    def _read_manifests(self, table: Table) -> list[_HeldFile]:
        """Files of the newest snapshot; a manifest never changes, so each is read once."""
        snapshot = table.metadata.snapshot_by_name(MAIN_BRANCH)
        known: dict[str, list[_HeldFile]] = {}
        for manifest in [] if snapshot is None else snapshot.manifests(table.io):
            if manifest.content is ManifestContent.DATA:
                path = manifest.manifest_path
                known[path] = self._manifests.get(path) or self._entries(manifest, table)
            elif manifest.has_added_files() or manifest.has_existing_files():
                raise NotInThisVersionError(
                    "the table that is read has deletes of single rows (merge on read)",
                    where=self._options.topic,
                    hint="let a route without a `key` fill the table",
                )
        self._manifests = known
        return [file for files in known.values() for file in files]

    def _entries(self, manifest: ManifestFile, table: Table) -> list[_HeldFile]:
        spec = table.specs()[manifest.partition_spec_id]
        schema = table.schema()
        places = _unit_places(spec, schema, self._columns, self._options.topic)
        entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        return [
            _HeldFile(
                tuple(_text(each.data_file, spec, at, schema) for at in places),
                each.data_file.file_path,
                each.data_file.record_count,
            )
            for each in entries
        ]


def lake_table(options: LakeUpstream) -> Table:
    """The table as its catalog has it now.

    Raises:
        TableNotFoundError: It does not exist.
        MetastoreUnavailableError: Its catalog does not answer.
    """
    catalog = pooled_catalog(dict(options.catalog), _TIMEOUT_S)
    try:
        found = load_table(catalog, options.name)
    finally:
        catalog.close()
    if found is None:
        raise missing(options.topic)
    return found


def ledger_of(table: Table, options: LakeUpstream) -> tuple[str, Stores]:
    """Where the ledger of a table of ours lies, and how its store is reached."""
    location, uuid = table.metadata.location.rstrip("/"), str(table.metadata.table_uuid)
    stores = parse_stores(dict(options.catalog).get(STORES_PROPERTY))
    return ledger_place(location, uuid, None), stores


def readable(metadata: TableMetadata, where: str) -> ReadableTable:
    """The table as Spark reads its files: by the names of columns, with those of its partitions.

    Args:
        metadata: Metadata of the table.
        where: The table, for errors.

    Raises:
        NotInThisVersionError: A column has a type that is not read, or has or had another name.
    """
    _refuse_renamed(metadata, where)
    columns = []
    for field in metadata.schema().fields:
        try:
            columns.append((field.name, format_hive_type(from_iceberg(field.field_type))))
        except ValueError as error:
            raise NotInThisVersionError(
                f"column {field.name}: {error}", where=where, hint="drop the column"
            ) from error
    return ReadableTable(tuple(columns), (), FileFormat.PARQUET, metadata.location, 0)


def _refuse_renamed(metadata: TableMetadata, where: str) -> None:
    """Refuse columns that older files hold under another name."""
    now = _ids(metadata.schema())
    names = {number: name for name, number in now.items()}
    for schema in metadata.schemas:
        for name, number in _ids(schema).items():
            if now.get(name, number) != number or names.get(number, name) != name:
                raise NotInThisVersionError(
                    f"column {name} was renamed, or dropped and added again",
                    where=where,
                    hint="let a route fill a new table, and read that",
                )


def _ids(schema: IcebergSchema) -> Mapping[str, int]:
    return {name: schema.find_field(name).field_id for name in schema.column_names}


def _unit_places(
    spec: PartitionSpec, schema: IcebergSchema, unit: tuple[str, ...], where: str
) -> list[int]:
    """Where the columns of the unit stand in a partition of this spec.

    Raises:
        TableMismatchError: One is no partition column.
    """
    plain = [
        (schema.find_column_name(field.source_id) or "").lower()
        if isinstance(field.transform, IdentityTransform)
        else ""
        for field in spec.fields
    ]
    if not set(unit) <= set(plain):
        parts = ", ".join(f"{field.transform}({field.name})" for field in spec.fields)
        raise TableMismatchError(
            f"the table that is read is partitioned by {parts or 'nothing'}",
            where=where,
            hint=f"`source.unit` is {list(unit)}: name its leading partition columns",
        )
    return [plain.index(name) for name in unit]


def _text(file: DataFile, spec: PartitionSpec, at: int, schema: IcebergSchema) -> str | None:
    """The value of a partition column as the ledger has it."""
    field, value = spec.fields[at], file.partition[at]
    if value is None:
        return None
    text: str = field.transform.to_human_string(schema.find_type(field.source_id), value)
    return text
