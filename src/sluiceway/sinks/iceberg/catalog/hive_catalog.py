"""Iceberg tables in a Hive Metastore: compare-and-set on `metadata_location`, through our client.

pyiceberg's own commit takes locks, which writers without them overwrite, and needs lock tables.
Source: Iceberg's HiveTableOperations, Hive's `HiveAlterHandler` (`expected_parameter_key`).
"""

import uuid
from collections.abc import Mapping

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import Table
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import update_table_metadata

from sluiceway.catalog.hive_table import HiveColumn, HiveLayout, MetastoreTable
from sluiceway.catalog.metastore import MetastoreClient, ParameterSwap
from sluiceway.errors import (
    SluicewayError,
    TableMismatchError,
    UnhealthyEnvironmentError,
)
from sluiceway.sinks.iceberg.catalog.catalogs import (
    Identifier,
    LakeCatalog,
    NewTable,
    translated_errors,
)
from sluiceway.sinks.iceberg.column_types import from_iceberg
from sluiceway.sinks.iceberg.commit_request import CommitRequest
from sluiceway.sinks.lake_options import METASTORE_PREFIX, STORES_PROPERTY, parse_stores
from sluiceway.types.hive_types import format_hive_type

LOCATION = "metadata_location"
_PREVIOUS = "previous_metadata_location"
_KIND = "table_type"
_SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
_INPUT = "org.apache.hadoop.mapred.FileInputFormat"
_OUTPUT = "org.apache.hadoop.mapred.FileOutputFormat"
_LOCKS = "engine.hive.lock-enabled"


class HiveLakeCatalog(LakeCatalog):
    """Iceberg tables of a Hive Metastore.

    Args:
        settings: `uri`, `warehouse`, further `metastore.*` that say how it is reached, and
            settings of the client's file access.
        timeout_s: Longest wait for an answer.
    """

    def __init__(self, settings: Mapping[str, str], timeout_s: float) -> None:
        self.place = settings["uri"]
        self._settings = dict(settings)
        options = {
            name.removeprefix(METASTORE_PREFIX): value
            for name, value in settings.items()
            if name.startswith(METASTORE_PREFIX)
        }
        stores = parse_stores(settings.get(STORES_PROPERTY))
        self._client = MetastoreClient(self.place, timeout_s, options, stores)
        # A table object wants a catalog; this one holds nothing and is never asked.
        self._nobody: Catalog = load_catalog("lake", type="in-memory")

    def load(self, name: Identifier) -> Table | None:
        """See `LakeCatalog.load`."""
        held = self._client.get_table(*name)
        if held is None:
            return None
        with translated_errors(self.place, name):
            return self._read(held)

    def create(
        self, name: Identifier, schema: Schema, spec: PartitionSpec, more: NewTable
    ) -> Table:
        """See `LakeCatalog.create`."""
        folder = self._client.create_database_if_missing(name[0])
        base = folder or f"{self._settings.get('warehouse', '')}/{name[0]}.db"
        location = more.location or f"{base.rstrip('/')}/{name[1]}"
        if location.startswith("/"):
            location = f"file://{location}"
        location = location.replace("file:/", "file:///", 1) if _is_short(location) else location
        properties = {**more.properties, _LOCKS: "false"}
        with translated_errors(self.place, name):
            metadata = new_table_metadata(
                location=location,
                schema=schema,
                partition_spec=spec,
                sort_order=UNSORTED_SORT_ORDER,
                properties=properties,
            )
            written = self._write(metadata, 0)
        try:
            self._client.create_table(self._hive_table(name, metadata, written))
        except TableMismatchError:
            # Another process was faster; its table is checked like any that exists.
            if self._client.get_table(*name) is None:
                raise
        found = self.load(name)
        if found is None:
            raise TableMismatchError("the table was created and is gone", where=".".join(name))
        return found

    def send(self, table: Table, request: CommitRequest) -> str:
        """See `LakeCatalog.send`."""
        database, name = table.name()
        try:
            return self._send((database, name), request)
        except SluicewayError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - any client error: the table is loaded
            return f"{type(error).__name__}: {error}"

    def _send(self, name: Identifier, request: CommitRequest) -> str:
        now = self.load(name)
        if now is None:
            return "the table is gone"
        for requirement in request.requirements:
            requirement.validate(now.metadata)
        changed = update_table_metadata(
            now.metadata, request.updates, metadata_location=now.metadata_location
        )
        written = self._write(changed, _version(now.metadata_location) + 1)
        put = {LOCATION: written, _PREVIOUS: now.metadata_location, **_shown(changed)}
        swap = ParameterSwap(LOCATION, now.metadata_location, put)
        return self._client.swap_parameter(*name, swap, _columns(changed))

    def probe(self, name: Identifier) -> None:
        """See `LakeCatalog.probe`: on a table of its own, with one wrong and one right value."""
        scratch = f"sluiceway_probe_{uuid.uuid4().hex[:12]}"
        layout = HiveLayout("", _SERDE, _INPUT, _OUTPUT, (HiveColumn("n", "bigint"),))
        parameters = {"EXTERNAL": "TRUE", LOCATION: "first"}
        self._client.create_table(
            MetastoreTable(name[0], scratch, "EXTERNAL_TABLE", layout, (), parameters, 0)
        )
        try:
            wrong = ParameterSwap(LOCATION, "another", {LOCATION: "wrong"})
            right = ParameterSwap(LOCATION, "first", {LOCATION: "second"})
            said = self._client.swap_parameter(name[0], scratch, wrong, None)
            if not said or self._location(name[0], scratch) != "first":
                raise _no_swap(self.place, "takes a change although the table has changed")
            said = self._client.swap_parameter(name[0], scratch, right, None)
            if self._location(name[0], scratch) != "second":
                raise _no_swap(self.place, f"refuses a change that is right: {said}")
        finally:
            self._client.drop_table(name[0], scratch)

    def close(self) -> None:
        """See `LakeCatalog.close`."""
        self._client.close()

    def _location(self, database: str, table: str) -> str:
        held = self._client.get_table(database, table)
        return "" if held is None else held.parameters.get(LOCATION, "")

    def _io(self, location: str) -> FileIO:
        kept = {key: value for key, value in self._settings.items() if key != "uri"}
        return load_file_io(properties=kept, location=location)

    def _read(self, held: MetastoreTable) -> Table:
        location = held.parameters.get(LOCATION)
        if held.parameters.get(_KIND, "").lower() != "iceberg" or location is None:
            raise TableMismatchError(
                "it is no Iceberg table",
                where=str(held),
                hint="write table.hive for it, or name another one",
            )
        io = self._io(location)
        metadata = FromInputFile.table_metadata(io.new_input(location))
        return Table((held.database, held.name), metadata, location, io, self._nobody)

    def _write(self, metadata: TableMetadata, version: int) -> str:
        provider = load_location_provider(metadata.location, metadata.properties)
        location: str = provider.new_table_metadata_file_location(version)
        ToOutputFile.table_metadata(metadata, self._io(location).new_output(location))
        return location

    def _hive_table(
        self, name: Identifier, metadata: TableMetadata, written: str
    ) -> MetastoreTable:
        layout = HiveLayout(metadata.location, _SERDE, _INPUT, _OUTPUT, _columns(metadata))
        parameters = {"EXTERNAL": "TRUE", _KIND: "ICEBERG", LOCATION: written, **_shown(metadata)}
        return MetastoreTable(*name, "EXTERNAL_TABLE", layout, (), parameters, 0)


def _is_short(location: str) -> bool:
    return location.startswith("file:/") and not location.startswith("file://")


def _shown(metadata: TableMetadata) -> dict[str, str]:
    """What Hive shows of the table's own properties."""
    return {**metadata.properties, "uuid": str(metadata.table_uuid), _LOCKS: "false"}


def _columns(metadata: TableMetadata) -> tuple[HiveColumn, ...]:
    found = []
    for field in metadata.schema().fields:
        try:
            kind = format_hive_type(from_iceberg(field.field_type))
        except ValueError:
            kind = "string"
        found.append(HiveColumn(field.name, kind))
    return tuple(found)


def _version(location: str) -> int:
    """Number of a metadata file, `00012-...`; -1 for names of others."""
    head = location.rpartition("/")[2].partition("-")[0]
    return int(head) if head.isdigit() else -1


def _no_swap(place: str, why: str) -> UnhealthyEnvironmentError:
    return UnhealthyEnvironmentError(
        f"the metastore {why}: it does not compare before it sets",
        where=place,
        hint="Hive Metastore 2.3.10 and 4 do, 3.1.3 does not; without it two writers overwrite "
        "each other",
    )
