"""The driver's view of a Hive table: found or created, checked, its partitions kept equal."""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sluiceway.catalog.hive_table import HiveColumn, HivePartition, MetastoreTable
from sluiceway.catalog.thrift_values import STATS_ACCURATE
from sluiceway.errors import (
    InvariantError,
    JobFileError,
    LedgerMismatchError,
    TableMismatchError,
)
from sluiceway.sinks.added_columns import added_properties
from sluiceway.sinks.contract import (
    ColumnsRefused,
    ColumnToHave,
    DesiredPartition,
    InspectedTable,
    ParkedPartition,
    PlannedTable,
    ShownPartition,
    TableIdentity,
    TableSink,
    TableState,
    Values,
)
from sluiceway.sinks.files.contract import INT96, MICROS, PARQUET_FILES, FileChoice
from sluiceway.sinks.hive.catalogs import TableCatalog, find_hive_table, identity_of, open_catalog
from sluiceway.sinks.hive.partition_effects import apply_partitions, partition_name
from sluiceway.sinks.hive.table_check import (
    check_definition,
    check_writable,
    file_choice,
    filled_columns,
    schema_of,
    table_to_create,
    warnings_of,
)
from sluiceway.sinks.hive.table_format import (
    FileSettings,
    creation_problem,
    file_settings,
    format_warnings,
)
from sluiceway.sinks.partition_path import catalog_values
from sluiceway.sinks.table_options import TableOptions, table_not_found
from sluiceway.storage.locations import (
    is_absolute_location,
    normalise_location,
    refuse_missing_parent,
    same_location,
)
from sluiceway.storage.registry import open_storage
from sluiceway.types.evolution import Columns, is_extension
from sluiceway.types.file_formats import compression_problem
from sluiceway.types.hive_types import format_hive_type
from sluiceway.types.iso_time import parse_iso_timestamp
from sluiceway.types.schema import LocalTimestampType, Schema, TimestampType, leaves


class InspectedHiveTable(InspectedTable):
    """See `InspectedTable`.

    Args:
        client: Client that the table was read with; the sink closes it.
        table: The table as it was read.
        options: What the job file says of it.
        identity: Identity of the table.
        ledger: Its property `sluiceway.ledger`.
        state: Gives the table as a start would take it.
    """

    def __init__(
        self,
        client: TableCatalog,
        table: MetastoreTable,
        options: TableOptions,
        *,
        identity: TableIdentity,
        ledger: str | None,
        state: Callable[[], TableState],
    ) -> None:
        self.identity = identity
        self.ledger = ledger
        self._client = client
        self._table = table
        self._options = options
        self._state = state

    def state(self) -> TableState:
        """See `InspectedTable.state`."""
        return self._state()

    def files(self) -> FileChoice:
        """See `InspectedTable.files`."""
        try:
            wanted = self._options.schema or schema_of(self._table)
            return file_choice(self._table, self._options, wanted)
        except TableMismatchError:
            return PARQUET_FILES

    def partitions(self, wanted: Sequence[Values]) -> dict[Values, ShownPartition]:
        """See `InspectedTable.partitions`."""
        return self._named([partition_name(self._table, each) for each in wanted])

    def other_partitions(self, wanted: Sequence[Values]) -> dict[Values, ShownPartition]:
        """See `InspectedTable.other_partitions`."""
        ours = {partition_name(self._table, each) for each in wanted}
        held = self._client.list_partition_names(self._table.database, self._table.name)
        return self._named(sorted({*held} - ours))

    def _named(self, names: Sequence[str]) -> dict[Values, ShownPartition]:
        found = self._client.get_partitions(self._table.database, self._table.name, names)
        return {values: self._shown(partition) for values, partition in found.items()}

    def _shown(self, partition: HivePartition) -> ShownPartition:
        differences = tuple(partition.layout.differences(self._table.layout, narrower=True))
        return ShownPartition(partition.layout.location, differences)


def columns_with(
    table: MetastoreTable, wanted: Sequence[ColumnToHave]
) -> tuple[tuple[HiveColumn, ...], dict[str, str]]:
    """The table's columns and the desired ones.

    Returns:
        All columns, new ones last; and properties that say how the changed ones are read.

    Raises:
        TableMismatchError: A column is there with a type that the wanted one does not extend, or
            the metastore does not hold the columns.
    """
    provider = table.parameters.get("spark.sql.sources.provider", "")
    if provider.lower() not in ("", "hive"):
        raise TableMismatchError(
            f"Spark keeps the columns of its {provider} tables in properties of its own",
            where=str(table),
            hint="alter it with Spark SQL",
        )
    columns = {column.name.lower(): column for column in table.layout.columns}
    changed = []
    for item in wanted:
        held = columns.get(item.name)
        if held is None:
            columns[item.name] = HiveColumn(item.name, item.type)
            changed.append(item)
        elif is_extension(held.type, item.type):
            columns[item.name] = HiveColumn(held.name, item.type)
            # Its key is what it was.
            changed.append(replace(item, key=item.name))
        elif not is_extension(item.type, held.type):
            raise TableMismatchError(
                f"column {held.name} is {held.type} and cannot become {item.type}",
                where=str(table),
                hint="somebody else has altered the table; start the job again",
            )
    return tuple(columns.values()), added_properties(changed)


def lacking_columns(table: MetastoreTable, expected: Schema) -> tuple[ColumnToHave, ...]:
    """What has to be added to the table so that it has the expected columns.

    A column that is there with a type which cannot be extended to the expected one is left out.

    Args:
        table: The table as the metastore has it.
        expected: Columns of the job file.
    """
    held = {column.name.lower(): column.type for column in table.layout.columns}
    found = []
    for field in expected.fields:
        name, wanted = field.name.lower(), format_hive_type(field.type)
        before = held.get(name)
        if before is None or (is_extension(before, wanted) and not is_extension(wanted, before)):
            # A value that lies deeper has no key at the payload's top.
            key = name if len(field.path) > 1 else (field.path or (field.name,))[0]
            found.append(ColumnToHave(name, wanted, key))
    return tuple(found)


LEDGER_PROPERTY = "sluiceway.ledger"
WATERMARK_PROPERTY = "sluiceway.watermark"
_READS_MICROS = 4


def open_hive_table(table: TableOptions, options: Mapping[str, str]) -> TableSink:
    """A table of the metastore, as `OpenSink` has it; the connection has no further options."""
    del options
    return HiveTableSink(table)


class HiveTableSink(TableSink):
    """A Hive table of files. Used on the driver, by one thread at a time.

    Args:
        options: The table.

    Raises:
        JobFileError: The metastore's URI, the location or the compression cannot be.
    """

    def __init__(self, options: TableOptions) -> None:
        _check_options(options)
        self._options = options
        self._client = open_catalog(
            options.metastore, options.timeout_s, options.stores, options.metastore_options
        )
        self._identity: TableIdentity | None = None
        self._ledger: str | None = None
        self._settings: FileSettings | None = None
        self._version: int | None = None
        self._observed: MetastoreTable | None = None
        # An answer from before an ALTER must not be taken for one from after it.
        self._looking = threading.Lock()

    def open(self) -> TableState:
        """See `TableSink.open`."""
        table = self._client.get_table(self._options.database, self._options.table)
        if table is None:
            table = self._create()
        state = self._state_to_be(table)
        self._identity = state.identity
        self._ledger = state.ledger
        self._settings = file_settings(table.layout, table.parameters)
        with self._looking:
            self._observed = table
        return state

    def find(self) -> TableIdentity:
        """See `TableSink.find`."""
        return find_hive_table(self._options)

    def inspect(self) -> InspectedHiveTable:
        """See `TableSink.inspect`."""
        table = self._present()
        return InspectedHiveTable(
            self._client,
            table,
            self._options,
            identity=identity_of(self._client.uris, table),
            ledger=table.parameters.get(LEDGER_PROPERTY),
            state=lambda: self._state_to_be(table),
        )

    def foresee(self) -> PlannedTable:
        """See `TableSink.foresee`.

        Raises:
            JobFileError: The table cannot be created as the job file says.
        """
        options = self._options
        table = self._client.get_table(options.database, options.table)
        if table is not None:
            state = self._state_to_be(table)
            statement = add_columns_statement(table, state.lacking) if state.lacking else ""
            place = table.layout.location
            return PlannedTable(str(table), place, state, exists=True, statement=statement)
        wanted = self._to_create()
        location = options.location
        if location is None:
            location = self._client.default_location(options.database, options.table)
        wanted = replace(wanted, layout=replace(wanted.layout, location=location))
        state, statement = self._state_of(wanted), create_statement(wanted)
        return PlannedTable(str(wanted), location, state, exists=False, statement=statement)

    def observed_columns(self) -> Columns | None:
        """See `TableSink.observed_columns`."""
        return None if self._observed is None else _columns(self._observed)

    def observed_state(self) -> TableState:
        """See `TableSink.observed_state`."""
        if self._observed is None:
            raise InvariantError("the table is used before it was opened")
        return self._state_of(self._observed)

    def add_columns(self, columns: Sequence[ColumnToHave]) -> TableState | ColumnsRefused:
        """See `TableSink.add_columns`."""
        identity = self._opened()
        with self._looking:
            table = self._read_checked(identity)
            try:
                merged, keys = columns_with(table, columns)
                # What the table's format cannot hold is not put into the metastore.
                self._state_of(replace(table, layout=replace(table.layout, columns=merged)))
                if merged != table.layout.columns:
                    table = self._client.alter_columns(table.database, table.name, merged, put=keys)
            except TableMismatchError as error:
                return ColumnsRefused(error.message)
            self._observed = table
        return self._state_of(table)

    def _state_to_be(self, table: MetastoreTable) -> TableState:
        """As `_state_of`, with the columns that the route adds once it holds the ledger."""
        expected = self._options.schema
        lacking = lacking_columns(table, expected) if self._options.adds and expected else ()
        if not lacking:
            return self._state_of(table)
        columns, _ = columns_with(table, lacking)
        layout = replace(table.layout, columns=columns)
        return replace(self._state_of(replace(table, layout=layout)), lacking=lacking)

    def _state_of(self, table: MetastoreTable) -> TableState:
        """The table as a route sees it, when it can be written."""
        check_writable(table)
        check_definition(table, self._options)
        columns = filled_columns(table, self._options)
        files = file_choice(table, self._with_timestamps(columns.written), columns.written)
        return TableState(
            identity=identity_of(self._client.uris, table),
            schema=columns.schema,
            partition_columns=tuple(column.name for column in table.partition_columns),
            ledger=table.parameters.get(LEDGER_PROPERTY),
            files=files,
            warnings=(*warnings_of(table, columns.null), *format_warnings(files, columns.written)),
            columns=_columns(table),
            further=columns.further,
        )

    def mark_ledger(self, state: TableState, ledger: str) -> None:
        """See `TableSink.mark_ledger`.

        Takes the trust from the table's statistics in the same step: Hive would answer
        count(*) from them without reading new files.
        """
        self._mark(state, (None, ledger), ledger)

    def move_ledger(self, state: TableState, held: str, ledger: str) -> None:
        """See `TableSink.move_ledger`."""
        self._mark(state, (None, held, ledger), ledger)

    def _mark(self, state: TableState, known: Collection[str | None], ledger: str) -> None:
        table = self._same_table(state.identity)
        held = table.parameters.get(LEDGER_PROPERTY)
        if held in known:
            table = self._client.alter_table_parameters(
                table.database,
                table.name,
                put={LEDGER_PROPERTY: ledger},
                remove=(STATS_ACCURATE,),
            )
            held = table.parameters.get(LEDGER_PROPERTY)
        if held != ledger:
            raise LedgerMismatchError(
                f"the table's property {LEDGER_PROPERTY} is {held}, expected {ledger}",
                where=str(table),
                hint="another ledger feeds this table; a table has one",
            )
        self._ledger = ledger

    def apply(self, partitions: Sequence[DesiredPartition]) -> tuple[ParkedPartition, ...]:
        """See `TableSink.apply`."""
        return apply_partitions(
            self._client,
            self._same_table(self._opened()),
            partitions,
            stores=self._options.stores,
        )

    def shown(self, partitions: Sequence[DesiredPartition]) -> dict[tuple[str, ...], str] | None:
        """See `TableSink.shown`."""
        table = self._same_table(self._opened())
        names = [partition_name(table, catalog_values(each.values)) for each in partitions]
        held = self._client.get_partitions(table.database, table.name, names)
        return {
            each.values: held[key].layout.location
            for each in partitions
            if (key := catalog_values(each.values)) in held
        }

    def mark_complete(self, until_us: int) -> None:
        """See `TableSink.mark_complete`."""
        table = self._same_table(self._opened())
        text = format_iso_us(until_us)
        held = table.parameters.get(WATERMARK_PROPERTY)
        if held is None or not _is_as_late(held, until_us):
            self._client.alter_table_parameters(
                table.database, table.name, put={WATERMARK_PROPERTY: text}, remove=()
            )

    def close(self) -> None:
        """See `TableSink.close`."""
        self._client.close()

    def _with_timestamps(self, schema: Schema) -> TableOptions:
        """The options with the form of Parquet's timestamps; Hive reads INT64 ones from 4 on."""
        options = self._options
        if options.parquet_timestamps is not None or not _has_timestamps(schema):
            return options
        if self._version is None:
            self._version = self._client.major_version()
        form = MICROS if self._version >= _READS_MICROS else INT96
        return replace(options, parquet_timestamps=form)

    def _present(self) -> MetastoreTable:
        table = self._client.get_table(self._options.database, self._options.table)
        if table is None:
            raise table_not_found(self._options)
        return table

    def _create(self) -> MetastoreTable:
        options = self._options
        where = f"{options.database}.{options.table}"
        if self._identity is not None:
            # It was there: a user has dropped it, and would not want it back unasked.
            raise TableMismatchError(
                "the table was dropped",
                where=where,
                hint="bring it back; a new start of the job makes one with create: if_missing",
            )
        wanted = self._to_create()
        self._client.create_database_if_missing(options.database)
        return self._client.create_table(wanted)

    def _to_create(self) -> MetastoreTable:
        """The table that is created when it is missing, if it may be."""
        options = self._options
        if not options.create or options.schema is None:
            raise table_not_found(options)
        problem = creation_problem(options)
        if problem is not None:
            where = f"{options.database}.{options.table}"
            raise JobFileError(problem, where=where, hint="change table.hive in the job file")
        if options.location is not None:
            storage, root = open_storage(options.location, options.stores)
            refuse_missing_parent(storage, root, create=options.create_location)
        return table_to_create(options, options.schema)

    def _opened(self) -> TableIdentity:
        if self._identity is None:
            raise InvariantError("the table is used before it was opened")
        return self._identity

    def _same_table(self, identity: TableIdentity) -> MetastoreTable:
        """The table as it is now, when it is still the one that was opened."""
        with self._looking:
            self._observed = table = self._read_checked(identity)
        return table

    def _read_checked(self, identity: TableIdentity) -> MetastoreTable:
        table = self._client.get_table(identity.database, identity.name)
        change = None
        if table is None:
            change = "was dropped"
        elif table.created_at_s != identity.created_at_s:
            change = f"was created again at {table.created_at_s}, not {identity.created_at_s}"
        elif not same_location(table.layout.location, identity.location):
            change = f"was moved from {identity.location} to {table.layout.location}"
        elif self._settings != file_settings(table.layout, table.parameters):
            change = "has another SerDe, format or delimiters than it had"
        elif self._ledger is not None and table.parameters.get(LEDGER_PROPERTY) != self._ledger:
            change = f"has lost its property {LEDGER_PROPERTY}: it was created again or altered"
        if table is None or change:
            raise TableMismatchError(f"the table {change}", where=str(identity))
        check_writable(table)
        return table


def _check_options(options: TableOptions) -> None:
    where = f"{options.database}.{options.table}"
    if options.file_format is not None and options.compression is not None:
        problem = compression_problem(options.file_format, options.compression)
        if problem is not None:
            raise JobFileError(problem, where=where, hint="change table.hive.compression")
    if options.location is not None and not is_absolute_location(
        normalise_location(options.location)
    ):
        raise JobFileError(f"the location {options.location!r} is not absolute", where=where)


def _has_timestamps(schema: Schema) -> bool:
    kinds = (kind for field in schema.fields for kind, _ in leaves(field.type, field.policy))
    return any(isinstance(kind, TimestampType | LocalTimestampType) for kind in kinds)


def _columns(table: MetastoreTable) -> Columns:
    return tuple((column.name, column.type) for column in table.layout.columns)


def format_iso_us(us: int) -> str:
    """A time as `2026-11-20T09:00:00Z`, with a fraction when it has one."""
    since = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)
    return since.isoformat().replace("+00:00", "Z")


def _is_as_late(held: str, until_us: int) -> bool:
    """Whether a table says so much already; what is no time was written by another program."""
    try:
        return parse_iso_timestamp(held) >= until_us
    except ValueError:
        return False


def create_statement(table: MetastoreTable) -> str:
    """`CREATE EXTERNAL TABLE`, as it would make the same table.

    Args:
        table: The table as it would be created, with its location.
    """
    layout = table.layout
    lines = [
        f"CREATE EXTERNAL TABLE {_name(table.database)}.{_name(table.name)} (",
        _column_lines(layout.columns),
        ")",
    ]
    if table.partition_columns:
        lines += ["PARTITIONED BY (", _column_lines(table.partition_columns), ")"]
    lines.append(f"ROW FORMAT SERDE {_text(layout.serde)}")
    if layout.serde_parameters:
        lines.append(f"WITH SERDEPROPERTIES ({_properties(layout.serde_parameters.items())})")
    lines += [
        f"STORED AS INPUTFORMAT {_text(layout.input_format)}",
        f"  OUTPUTFORMAT {_text(layout.output_format)}",
        f"LOCATION {_text(layout.location)}",
    ]
    properties = [each for each in table.parameters.items() if each[0] != "EXTERNAL"]
    if properties:
        lines.append(f"TBLPROPERTIES ({_properties(properties)})")
    return "\n".join(lines)


def add_columns_statement(table: MetastoreTable, columns: Sequence[ColumnToHave]) -> str:
    """`ALTER TABLE ... ADD COLUMNS`, and a change of each column whose structs get fields."""
    held = {column.name.lower() for column in table.layout.columns}
    name = f"{_name(table.database)}.{_name(table.name)}"
    added = [HiveColumn(each.name, each.type) for each in columns if each.name not in held]
    lines = []
    if added:
        lines.append(f"ALTER TABLE {name} ADD COLUMNS (\n{_column_lines(added)}\n) CASCADE")
    lines += [
        f"ALTER TABLE {name} CHANGE {_name(each.name)} {_name(each.name)} {each.type} CASCADE"
        for each in columns
        if each.name in held
    ]
    return ";\n".join(lines)


def _column_lines(columns: Sequence[HiveColumn]) -> str:
    return ",\n".join(f"  {_name(column.name)} {column.type}" for column in columns)


def _properties(pairs: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{_text(name)}={_text(value)}" for name, value in sorted(pairs))


def _name(text: str) -> str:
    return f"`{text}`"


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    shown = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in escaped)
    return f"'{shown}'"
