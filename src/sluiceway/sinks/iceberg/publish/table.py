"""The driver's view of an Iceberg table: found or created, checked, marked, followed."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate

from sluiceway.errors import (
    InvariantError,
    LedgerMismatchError,
    MetastoreUnavailableError,
    TableMismatchError,
    TableNotFoundError,
)
from sluiceway.ledger.follower import Follower
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.reader_leases import slot_of_slowest
from sluiceway.observe.log import Log
from sluiceway.sinks.added_columns import added_field
from sluiceway.sinks.contract import (
    ColumnsRefused,
    ColumnToHave,
    DesiredPartition,
    FollowedRoute,
    ParkedPartition,
    PlannedTable,
    TableIdentity,
    TableSink,
    TableState,
)
from sluiceway.sinks.files.contract import FileChoice, FileFormat
from sluiceway.sinks.files.field_ids import FIELD_IDS, INSTANTS, ids_setting, instants_setting
from sluiceway.sinks.iceberg.catalog.catalog_pool import pooled_catalog
from sluiceway.sinks.iceberg.catalog.catalogs import Identifier, LakeCatalog, NewTable
from sluiceway.sinks.iceberg.column_types import (
    field_ids,
    from_iceberg,
    iceberg_schema,
    own_columns,
)
from sluiceway.sinks.iceberg.commit_request import CommitRequest
from sluiceway.sinks.iceberg.compact.compaction import LakeCompaction
from sluiceway.sinks.iceberg.compact.expiring import LakeExpiry
from sluiceway.sinks.iceberg.compact.lake_upkeep import LakeUpkeep
from sluiceway.sinks.iceberg.compact.orphans import LakeOrphans
from sluiceway.sinks.iceberg.keyed.keyed_publisher import KeyedPublisher
from sluiceway.sinks.iceberg.partition_fields import find_spec, spec_to_create
from sluiceway.sinks.iceberg.publish.added_columns import (
    FollowedColumns,
    add_columns_request,
    columns_of,
    further_fields,
    missing_columns,
)
from sluiceway.sinks.iceberg.publish.lake_table import LEDGER_PROPERTY, LakeTable, hashes_of
from sluiceway.sinks.iceberg.publish.publisher import LakePlace, LakePublisher, LakeRoute
from sluiceway.sinks.iceberg.publish.table_checks import (
    check_ledger_place,
    check_writable,
    column_problems,
    ledger_place,
    table_warnings,
)
from sluiceway.sinks.iceberg.statements import create_lake_statement
from sluiceway.sinks.lake_options import LakeOptions
from sluiceway.sinks.table_options import TableOptions
from sluiceway.storage.registry import open_storage
from sluiceway.types.evolution import Columns
from sluiceway.types.row_kinds import KIND_COLUMN, KIND_FIELD_ID
from sluiceway.types.schema import Field, Schema, StringType

_UNKNOWN_PLACE = "file:///table"
_TRIES = 5
_CODECS = {"zstd": "zstd", "snappy": "snappy", "gzip": "gzip", "lz4": "lz4", "uncompressed": "none"}
_NEW_PROPERTIES = {
    "write.format.default": "parquet",
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}


def open_iceberg_table(table: TableOptions, options: Mapping[str, str]) -> TableSink:
    """A table of an Iceberg catalog, as `OpenSink` has it; the options are the connection's."""
    if table.lake is None:
        raise InvariantError("an Iceberg table is opened without what the job file says of it")
    return IcebergTableSink(table, table.lake, options)


class IcebergTableSink(TableSink):
    """An Iceberg table, as a projection of the log. Used on the driver, by one thread at a time.

    Args:
        options: The table.
        lake: What it is as a lake table.
        connection: Connection of its catalog.
    """

    def __init__(
        self, options: TableOptions, lake: LakeOptions, connection: Mapping[str, str]
    ) -> None:
        self._options = options
        self._lake = lake
        self._connection = dict(connection)
        self._catalog: LakeCatalog | None = None
        self._opened: list[LakeCatalog] = []
        self._identity: TableIdentity | None = None
        self._probed = False
        self._columns_catalog: LakeCatalog | None = None
        self._adding = threading.Lock()
        self._observed = FollowedColumns()

    @property
    def _name(self) -> Identifier:
        return self._options.database, self._options.table

    @property
    def _where(self) -> str:
        return ".".join(self._name)

    def open(self) -> TableState:
        """See `TableSink.open`."""
        catalog = self._own_catalog()
        table = catalog.load(self._name)
        if table is None:
            table = self._create(catalog)
        state = self._state_of(table.metadata)
        if self._identity is not None and self._identity.uuid != state.identity.uuid:
            raise TableMismatchError(
                f"the table was dropped and created again: its uuid is {state.identity.uuid}, "
                f"it was {self._identity.uuid}",
                where=self._where,
                hint="bring the old one back, or fill the new one under another route name",
            )
        if not self._probed:
            catalog.probe(self._name)
            self._probed = True
        self._identity = state.identity
        self._observed.begin(table.metadata)
        return state

    def foresee(self) -> PlannedTable:
        """See `TableSink.foresee`."""
        table = self._own_catalog().load(self._name)
        if table is not None:
            state = self._state_of(table.metadata)
            return PlannedTable(self._where, state.identity.home, state, exists=True, statement="")
        schema, spec, more = self._desired()
        self._refuse_other_case(self._own_catalog())
        place = self._options.location or self._place_to_be()
        metadata = new_table_metadata(
            location=place or _UNKNOWN_PLACE,
            schema=schema,
            partition_spec=spec,
            sort_order=UNSORTED_SORT_ORDER,
            properties=more.properties,
        )
        state = self._state_of(metadata)
        statement = create_lake_statement(
            self._where,
            schema,
            self._lake.fields,
            location=self._options.location,
            properties=more.properties,
        )
        return PlannedTable(
            self._where,
            state.identity.home if place else "",
            state,
            exists=False,
            statement=statement,
            home_to_be=ledger_place(place.rstrip("/"), "<uuid>", self._lake.ledger)
            if place
            else "",
        )

    def _place_to_be(self) -> str:
        """Where pyiceberg's own catalogs put a table; empty where a server decides."""
        warehouse = self._connection.get("warehouse", "").rstrip("/")
        if self._connection.get("kind") != "sql" or not warehouse:
            return ""
        return f"{warehouse}/{self._name[0]}/{self._name[1]}"

    def find(self) -> TableIdentity:
        """See `TableSink.find`."""
        found = self._own_catalog().load(self._name)
        if found is None:
            raise TableNotFoundError(
                "the catalog does not have the table",
                where=self._where,
                hint="`sluiceway run JOB` creates it; if that runs, its log says what it waits for",
            )
        return self._identity_of(found.metadata)

    def mark_ledger(self, state: TableState, ledger: str) -> None:
        """See `TableSink.mark_ledger`."""
        catalog, said = self._own_catalog(), ""
        for _ in range(_TRIES):
            table = self._same_table(catalog, state.identity)
            held = table.metadata.properties.get(LEDGER_PROPERTY)
            if held == ledger:
                return
            if held is not None:
                raise LedgerMismatchError(
                    f"the table's property {LEDGER_PROPERTY} is {held}, expected {ledger}",
                    where=self._where,
                    hint="another ledger feeds this table; a table has one",
                )
            request = CommitRequest(
                (SetPropertiesUpdate(updates={LEDGER_PROPERTY: ledger}),),
                (AssertTableUUID(uuid=table.metadata.table_uuid),),
            )
            said = catalog.send(table, request)
        raise MetastoreUnavailableError(
            f"the table's property {LEDGER_PROPERTY} could not be set: {said}", where=self._where
        )

    def add_columns(self, columns: Sequence[ColumnToHave]) -> TableState | ColumnsRefused:
        """See `TableSink.add_columns`."""
        identity, said = self._identity, ""
        if identity is None:
            raise InvariantError("the table is used before it was opened")
        # A catalog object of its own: the calls come from the thread of a commit.
        with self._adding:
            self._columns_catalog = catalog = self._columns_catalog or self._new_catalog()
            for _ in range(_TRIES):
                table = self._same_table(catalog, identity)
                missing, refused = missing_columns(table.metadata, columns)
                if refused:
                    return ColumnsRefused(refused)
                if not missing:
                    self._observed.begin(table.metadata)
                    return self._state_of(table.metadata)
                said = catalog.send(table, add_columns_request(table.metadata, missing))
        raise MetastoreUnavailableError(f"columns could not be added: {said}", where=self._where)

    def observed_columns(self) -> Columns | None:
        """See `TableSink.observed_columns`: of a route that follows its table."""
        return self._observed.columns if self._options.follows else None

    def observed_state(self) -> TableState:
        """See `TableSink.observed_state`."""
        metadata = self._observed.metadata
        if metadata is None:
            raise InvariantError("the table is used before it was opened")
        return self._state_of(metadata)

    def followers(self, route: FollowedRoute) -> tuple[Follower, ...]:
        """See `TableSink.followers`."""
        make = KeyedPublisher if self._lake.key else LakePublisher
        publisher = make(
            self._followed(route.state, route.ledger, route.events),
            self._place(route.state),
            LakeRoute(route.name, route.ledger, route.effects_through, route.note_effects),
            options=self._lake,
            log=route.events,
        )
        keep_s = self._lake.keep_snapshots_s
        if not self._lake.compact and keep_s is None:
            return (publisher,)
        known = route.state, route.ledger, route.log, route.events
        compaction = partial(self._compaction, *known) if self._lake.compact else None
        expiry = None if keep_s is None else partial(self._expiry, *known)
        return publisher, LakeUpkeep(publisher.connection, compaction, expiry, keep_s or 0.0)

    def compaction(self, ledger_id: str, ledger: LedgerLog, log: Log) -> LakeCompaction:
        """Compaction of a table that exists, next to any driver. Call `close` of both at the end.

        Raises:
            TableNotFoundError: The catalog does not have it.
            SluicewayError: As `open`.
        """
        self.find()
        return self._compaction(self.open(), ledger_id, ledger, log)

    def expiry(self, ledger_id: str, ledger: LedgerLog, log: Log) -> LakeExpiry:
        """Expiry of a table that exists, as `compaction`."""
        self.find()
        return self._expiry(self.open(), ledger_id, ledger, log)

    def orphans(self, ledger_id: str, ledger: LedgerLog, log: Log) -> LakeOrphans:
        """Removal of orphans of a table that exists, as `compaction`."""
        self.find()
        state = self.open()
        return LakeOrphans(self._followed(state, ledger_id), self._place(state), ledger, log)

    def _compaction(
        self, state: TableState, ledger_id: str, ledger: LedgerLog, log: Log
    ) -> LakeCompaction:
        return LakeCompaction(
            self._followed(state, ledger_id),
            self._place(state),
            ledger_id,
            hashes_of(ledger),
            target_bytes=self._lake.target_bytes,
            log=log,
        )

    def _expiry(self, state: TableState, ledger_id: str, ledger: LedgerLog, log: Log) -> LakeExpiry:
        table, place = self._followed(state, ledger_id), self._place(state)
        slowest = partial(slot_of_slowest, ledger.storage, ledger.layout)
        return LakeExpiry(table, place, hashes_of(ledger), log, slowest=slowest)

    def _followed(self, state: TableState, ledger_id: str, log: Log | None = None) -> LakeTable:
        """The table for one follower: its calls come from a thread of its own.

        Args:
            state: The table as it was opened.
            ledger_id: Uuid of its ledger.
            log: Gets columns that are not taken up; without a log the table follows no columns.
        """
        on_look = None
        if self._options.follows and log is not None:
            on_look = partial(self._observed.update, log=log)
        catalog = self._new_catalog()
        metadata = self._same_table(catalog, state.identity).metadata
        return LakeTable(
            catalog,
            self._name,
            state.identity.uuid,
            ledger=ledger_id,
            ledger_property=_own_mark(metadata, ledger_id),
            on_look=on_look,
        )

    def _place(self, state: TableState) -> LakePlace:
        location, stores = state.identity.location, self._options.stores
        storage, root = open_storage(location, stores)
        return LakePlace(storage, root, location.rstrip("/"), stores, state.files.compression)

    def apply(self, partitions: Sequence[DesiredPartition]) -> tuple[ParkedPartition, ...]:
        """See `TableSink.apply`: a lake table's partitions come with their files."""
        del partitions
        return ()

    def close(self) -> None:
        """See `TableSink.close`."""
        for catalog in self._opened:
            catalog.close()
        self._opened, self._catalog, self._columns_catalog = [], None, None

    # Opening

    def _own_catalog(self) -> LakeCatalog:
        if self._catalog is None:
            self._catalog = self._new_catalog()
        return self._catalog

    def _new_catalog(self) -> LakeCatalog:
        catalog = pooled_catalog(self._connection, self._options.timeout_s)
        self._opened.append(catalog)
        return catalog

    def _same_table(self, catalog: LakeCatalog, identity: TableIdentity) -> Table:
        table = catalog.load(self._name)
        if table is None or str(table.metadata.table_uuid) != identity.uuid:
            raise TableMismatchError(
                "the table was dropped" + (" and created again" if table else ""),
                where=self._where,
                hint="bring it back; a new start of the job makes one with create: if_missing",
            )
        return table

    def _create(self, catalog: LakeCatalog) -> Table:
        if self._identity is not None:
            raise TableMismatchError(
                "the table was dropped",
                where=self._where,
                hint="bring it back; a new start of the job makes one with create: if_missing",
            )
        wanted = self._desired()
        self._refuse_other_case(catalog)
        return catalog.create(self._name, *wanted)

    def _refuse_other_case(self, catalog: LakeCatalog) -> None:
        """Refuse to make a second table whose name differs from another's in letter case only."""
        other = catalog.spelt_otherwise(self._name)
        if other is not None:
            raise TableMismatchError(
                f"the catalog has {other}, whose name differs in letter case only",
                where=self._where,
                hint=f"write table.iceberg.name: {other}; or create the other table by yourself, "
                "if you want both",
            )

    def _desired(self) -> tuple[IcebergSchema, PartitionSpec, NewTable]:
        """A table to create.

        Raises:
            TableNotFoundError: The job file does not have it created.
        """
        options = self._options
        if not options.create or options.schema is None:
            hint = "create it, or write create: if_missing with columns that the job file declares"
            if options.create and options.columns_of_sql:
                hint = "`sluiceway run JOB` creates it with the columns of its SQL"
            raise TableNotFoundError(
                "the catalog does not have the table", where=self._where, hint=hint
            )
        stored = (Field(name, StringType()) for name in self._lake.stored)
        schema = iceberg_schema((*options.schema.fields, *stored), key=self._lake.key)
        properties = {**_NEW_PROPERTIES, **dict(self._lake.properties)}
        more = NewTable(options.location, properties)
        return schema, spec_to_create(self._lake.fields, schema), more

    # What the table is

    def _state_of(self, metadata: TableMetadata) -> TableState:
        check_writable(metadata, self._where)
        spec_fields = self._lake.fields
        try:
            find_spec(
                list(metadata.specs().values()),
                metadata.default_spec_id,
                spec_fields,
                metadata.schema(),
            )
        except TableMismatchError as error:
            raise TableMismatchError(error.message, where=self._where, hint=error.hint) from error
        schema, further = self._schema(metadata), self._further(metadata)
        filled = Schema((*schema.fields, *further))
        names = {field.name.lower() for field in filled.fields}
        names |= {name.lower() for name in self._lake.stored}
        settings = (
            (FIELD_IDS, ids_setting(self._file_ids(metadata))),
            (INSTANTS, instants_setting(filled)),
        )
        codec = metadata.properties.get("write.parquet.compression-codec", "zstd").lower()
        choice = FileChoice(FileFormat.PARQUET, _CODECS.get(codec, "zstd"), settings=settings)
        return TableState(
            identity=self._identity_of(metadata),
            schema=schema,
            partition_columns=tuple(field.name for field in spec_fields),
            ledger=metadata.properties.get(LEDGER_PROPERTY),
            files=choice,
            warnings=table_warnings(metadata, names, where=self._where, keyed=bool(self._lake.key)),
            columns=columns_of(metadata),
            further=further,
        )

    def _further(self, metadata: TableMetadata) -> tuple[Field, ...]:
        """Columns that the job file does not have, where the route takes them up."""
        declared = self._options.schema
        if declared is None or not self._options.follows:
            return ()
        names = (*(field.name for field in declared.fields), *self._lake.stored)
        return further_fields(metadata, frozenset(name.lower() for name in names))

    def _names(self) -> tuple[str, ...]:
        """Columns that the route fills, as the job file spells them."""
        declared = self._options.schema
        names = () if declared is None else (field.name for field in declared.fields)
        return (*names, *self._lake.stored)

    def _file_ids(self, metadata: TableMetadata) -> dict[str, int]:
        ids = field_ids(metadata.schema(), self._names())
        return {**ids, KIND_COLUMN: KIND_FIELD_ID} if self._lake.key else ids

    def _identity_of(self, metadata: TableMetadata) -> TableIdentity:
        location = metadata.location.rstrip("/")
        database, name = self._name
        identity = TableIdentity(
            catalog=self._own_catalog().place,
            database=database,
            name=name,
            created_at_s=0,
            location=location,
            uuid=str(metadata.table_uuid),
            ledger_place=ledger_place(location, str(metadata.table_uuid), self._lake.ledger),
        )
        check_ledger_place(identity.ledger_place, location, named=self._lake.ledger is not None)
        return identity

    def _schema(self, metadata: TableMetadata) -> Schema:
        """Columns of the files, except columns that the route makes for its partitions."""
        held, twins = own_columns(metadata.schema(), self._names())
        others = [each for each in metadata.schema().fields if each not in held.values()]
        named = {name.lower() for name in self._names()}
        problems = [
            f"columns {one} and {other} differ in letter case only, and the job file names neither "
            "as the table does"
            for one, other in twins
            if self._options.schema is None or one.lower() in named
        ]
        key = {name.lower() for name in self._lake.key}
        problems += [f"key column {name} is missing" for name in sorted(key - held.keys())]
        for name in self._lake.stored:
            problems += column_problems(Field(name, StringType()), held.pop(name.lower(), None))
        fields: list[Field] = []
        if self._options.schema is not None:
            fields = list(self._options.schema.fields)
            for each in fields:
                # Of the key no value is ever null, whatever the job file says of the column.
                wanted = replace(each, required=each.required or each.name.lower() in key)
                problems += column_problems(wanted, held.pop(wanted.name.lower(), None))
            problems += [
                f"column {field.name} is required in the table, and nothing fills it"
                for field in metadata.schema().fields
                if field.required and (field.name.lower() in held or field in others)
            ]
        else:
            for field in held.values():
                try:
                    kind = from_iceberg(field.field_type)
                except ValueError as error:
                    problems.append(f"column {field.name}: {error}")
                    continue
                fields.append(added_field(field.name, kind, self._where, metadata.properties))
        if problems:
            raise TableMismatchError(
                "; ".join(problems),
                where=self._where,
                hint="change the table or the columns in the job file",
            )
        return Schema(tuple(fields))


def _own_mark(metadata: TableMetadata, ledger: str) -> str:
    """What the table's property has to say for this ledger to feed it.

    As it is spelt there, where it names this ledger. Another one may have marked the table too,
    in the moment in which it had no mark: that one's is never taken for the own.
    """
    held = metadata.properties.get(LEDGER_PROPERTY, "")
    own = held.partition("@")[0] == ledger
    return held if own else f"{ledger}@{metadata.location.rstrip('/')}"
