"""Thin client of the Hive Metastore (2.3 to 4.0), idempotent and in batches."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from pymetastore.hive_metastore import ttypes

from sluiceway.catalog.connection import (
    AlreadyExists,
    InvalidObject,
    MetastoreCalls,
    MethodMissingError,
    NoSuchObject,
    ServerFailure,
    major_version,
)
from sluiceway.catalog.hive_table import (
    AddOutcome,
    HiveColumn,
    HivePartition,
    MetastoreTable,
    NewPartition,
    PartitionChange,
    RejectedPartition,
    refuse_another,
)
from sluiceway.catalog.thrift_values import (
    STATS_ACCURATE,
    partition_value,
    raw_partition,
    raw_table,
    table_value,
)
from sluiceway.errors import (
    MetastoreUnavailableError,
    StorageRefusedError,
    TableMismatchError,
    UnhealthyEnvironmentError,
)
from sluiceway.storage.access import NO_STORES, Stores
from sluiceway.storage.registry import ensure_folder

# Words of the metastore and of the file systems below it. A full disk or an absent name node has
# other words, and is waited for.
_REFUSALS = re.compile(
    r"permission denied|access ?control ?exception|read-only file ?system|not a directory"
    r"|parentnotdirectory|filealreadyexists|java\.io\.filenotfoundexception"
    r"|mkdirs failed|unable to create (one|database path)",
    re.IGNORECASE,
)


@contextmanager
def location_refusals(what: str, location: str) -> Iterator[None]:
    """Separate a location that the metastore cannot create from a metastore that fails.

    Args:
        what: What is created there, for the message.
        location: Where; empty for the metastore's own default.

    Raises:
        UnhealthyEnvironmentError: The metastore says that the location cannot be written.
    """
    try:
        yield
    except MetastoreUnavailableError as error:
        cause = error.__cause__
        said = cause.message or "" if isinstance(cause, ServerFailure) else ""
        if not _REFUSALS.search(said):
            raise
        raise UnhealthyEnvironmentError(
            f"the metastore cannot make the folder of {what}: {said}",
            where=location or "the metastore's warehouse",
            hint="give its user the right to write there, or set another `location`",
        ) from error


Item = TypeVar("Item")

_READ_BATCH = 500
# A server creates and checks each partition's folder: smaller batches end in time.
_WRITE_BATCH = 200
_KEEP_STATS = {"DO_NOT_UPDATE_STATS": "true"}


def batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """`items` in order, at most `size` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


@dataclass(frozen=True, slots=True)
class ParameterSwap:
    """A change of a table's parameters, and when it may happen.

    Attributes:
        key: Parameter that must be unchanged since it was read.
        expected: Its value at that time.
        put: All parameters to set.
    """

    key: str
    expected: str
    put: Mapping[str, str]


class MetastoreClient:
    """The calls to a metastore that the product needs. Every call may be repeated.

    Used on the driver only. Reconnects by itself; safe for several threads.

    The folder of a database or table exists before the metastore is asked to create either. Of two
    creations at once a server lets one through. For the other it removes the folder, if it made it,
    with all files in it by then.

    Args:
        uris: `thrift://host:port`, several separated by commas, tried in turn.
        timeout_s: Longest wait for an answer. A server whose database fails may try ten times
            within 20 s before it answers: below 30 s its reason is never seen.
        options: How to connect, see `tls_context`; None for no encryption.
        stores: How the stores are reached in which it makes folders.

    Raises:
        JobFileError: `uris` is not such a list.
    """

    def __init__(
        self,
        uris: str,
        timeout_s: float = 60.0,
        options: Mapping[str, str] | None = None,
        stores: Stores = NO_STORES,
    ) -> None:
        self.uris = uris
        self._stores = stores
        self._connection = MetastoreCalls(uris, timeout_s, options or {})
        self._reader: Callable[[Any, str, str], Any] = _read_by_request

    def get_table(self, database: str, table: str) -> MetastoreTable | None:
        """The table as it is now, or None when it or its database does not exist.

        Raises:
            MetastoreUnavailableError: The metastore does not answer.
        """
        raw = self._raw_table(database, table)
        return None if raw is None else table_value(raw)

    def major_version(self) -> int:
        """The server's major version as it reports it; every version before 4 is 3, or 0.

        Raises:
            MetastoreUnavailableError: The metastore does not answer.
        """
        try:
            # Called where a table is read, so the failpoint of that stands for both.
            text = self._connection.call(
                "read table (the server's version)", lambda client: client.getVersion()
            )
        except MethodMissingError:
            return 0
        return major_version(text)

    def database_location(self, database: str) -> str | None:
        """The folder of a database, by the metastore; None when there is no such database.

        Raises:
            MetastoreUnavailableError: The metastore does not answer.
        """
        found = self._database(database)
        return None if found is None else str(found.locationUri or "")

    def create_database_if_missing(self, database: str) -> str:
        """Create the database where the metastore puts it by default; its location.

        Raises:
            MetastoreUnavailableError: The metastore does not answer.
            StorageUnavailableError: The store of its folder failed.
            UnhealthyEnvironmentError: It cannot make the database's folder.
            TableMismatchError: It refuses.
        """
        found = self._database(database) or self._create_database(database)
        if found is None:
            raise TableMismatchError(f"database {database} was created and is gone again")
        location: str = found.locationUri or ""
        return location

    def _create_database(self, database: str) -> Any:
        wanted = ttypes.Database(name=database, description="", parameters={})
        self._make_folder(self.default_location(database))
        # Another process may have been faster.
        with location_refusals(f"database {database}", ""), suppress(AlreadyExists):
            self._connection.call(
                f"create database {database}",
                lambda client: client.create_database(wanted),
                expected=(AlreadyExists,),
            )
        return self._database(database)

    def default_location(self, database: str, table: str = "") -> str:
        """Where the metastore puts a database, or a table of it, unless it is said.

        Raises:
            MetastoreUnavailableError: The metastore does not answer.
        """
        folder = self.database_location(database)
        if folder is None:
            root = self.database_location("default") or "/"
            folder = f"{root.rstrip('/')}/{database.lower()}.db"
        return f"{folder.rstrip('/')}/{table.lower()}" if table else folder

    def _make_folder(self, location: str) -> None:
        # A driver that may not write there leaves it to the metastore, which may.
        with suppress(StorageRefusedError):
            ensure_folder(location, self._stores)

    def create_table(self, table: MetastoreTable) -> MetastoreTable:
        """Create the table; an existing one must be the same.

        Returns:
            The table as the metastore holds it now.

        Raises:
            MetastoreUnavailableError: The metastore does not answer.
            StorageUnavailableError: The store of its folder failed.
            UnhealthyEnvironmentError: It cannot make the table's folder.
            TableMismatchError: It refuses, or holds another table of this name; says which
                parts differ.
        """
        wanted = table.layout.location
        self._make_folder(wanted or self.default_location(table.database, table.name))
        # An existing table is read back and compared below, as after every creation.
        with location_refusals(f"table {table}", wanted), suppress(AlreadyExists):
            self._connection.call(
                f"create table {table}",
                lambda client: client.create_table(raw_table(table)),
                expected=(AlreadyExists,),
            )
        found = self.get_table(table.database, table.name)
        if found is None:
            raise TableMismatchError(f"table {table} was created and is gone again")
        refuse_another(found, table)
        return found

    def alter_table_parameters(
        self,
        database: str,
        table: str,
        *,
        put: Mapping[str, str],
        remove: Collection[str] = (),
    ) -> MetastoreTable:
        """Set and remove table properties; everything else stays as it is in the metastore.

        Returns:
            The table read back.

        Raises:
            MetastoreUnavailableError: The metastore does not answer.
            TableMismatchError: The table is gone or the metastore refuses.
        """
        raw = self._require_table(database, table)
        changed = {**(raw.parameters or {}), **put}
        changed = {key: value for key, value in changed.items() if key not in remove}
        if changed != raw.parameters:
            raw.parameters = changed
            self._connection.call(
                f"alter table {database}.{table}",
                lambda client: client.alter_table_with_environment_context(
                    database, table, raw, ttypes.EnvironmentContext(dict(_KEEP_STATS))
                ),
            )
            raw = self._require_table(database, table)
        return table_value(raw)

    def alter_columns(
        self,
        database: str,
        table: str,
        columns: Sequence[HiveColumn],
        *,
        put: Mapping[str, str],
    ) -> MetastoreTable:
        """Replace the data columns of a table and of all its partitions, and set properties.

        The metastore changes the partitions in the same transaction (CASCADE). Otherwise readers
        that use a partition's own columns would not see new ones in it.

        Args:
            database: Name of the database.
            table: Its name.
            columns: All columns; kept columns retain their comments.
            put: Table properties to set.

        Returns:
            The table read back.

        Raises:
            MetastoreUnavailableError: The metastore does not answer.
            TableMismatchError: The table is gone or the metastore refuses.
        """
        raw = self._require_table(database, table)
        comments = {column.name.lower(): column.comment for column in raw.sd.cols}
        raw.sd.cols = [
            ttypes.FieldSchema(item.name, item.type, comments.get(item.name.lower()))
            for item in columns
        ]
        raw.parameters = {**(raw.parameters or {}), **put}
        context = ttypes.EnvironmentContext({**_KEEP_STATS, "CASCADE": "true"})

        def alter(client: Any) -> None:
            client.alter_table_with_environment_context(database, table, raw, context)

        self._connection.call(f"alter table {database}.{table} (columns)", alter)
        return table_value(self._require_table(database, table))

    def swap_parameter(
        self, database: str, table: str, swap: ParameterSwap, columns: Sequence[HiveColumn] | None
    ) -> str:
        """Set table parameters if one of them still has the value that was read; no lock is taken.

        Sent once. Only reading the table shows the outcome.

        Args:
            database: Name of the database.
            table: Its name.
            swap: What to set, under which condition.
            columns: New columns; None leaves them unchanged.

        Returns:
            Empty when the metastore says that it is done; else what it said.

        Raises:
            MetastoreUnavailableError: The metastore does not answer; it may have landed.
            TableMismatchError: The table is gone.
        """
        raw = self._require_table(database, table)
        raw.parameters = {**(raw.parameters or {}), **swap.put}
        if columns is not None:
            raw.sd.cols = [ttypes.FieldSchema(item.name, item.type) for item in columns]
        context = ttypes.EnvironmentContext(
            {
                **_KEEP_STATS,
                "expected_parameter_key": swap.key,
                "expected_parameter_value": swap.expected,
            }
        )

        def alter(client: Any) -> None:
            client.alter_table_with_environment_context(database, table, raw, context)

        try:
            self._connection.call(
                f"alter table {database}.{table} (swap)", alter, expected=(ServerFailure,)
            )
        except ServerFailure as error:
            return _said(error) or "refused"
        return ""

    def drop_table(self, database: str, table: str) -> None:
        """Take a table out of the metastore; its files stay. A missing table is no error.

        Raises:
            MetastoreUnavailableError: The metastore does not answer.
        """
        with suppress(NoSuchObject):
            self._connection.call(
                f"alter table {database}.{table} (drop)",
                lambda client: client.drop_table(database, table, False),  # noqa: FBT003
                expected=(NoSuchObject,),
            )

    def list_partition_names(self, database: str, table: str, *, limit: int = -1) -> list[str]:
        """Escaped names (`dt=20261120/hr=08`) of at most `limit` partitions; -1: of all.

        Raises:
            MetastoreUnavailableError: The metastore does not answer.
            TableMismatchError: The table is gone.
        """
        found = self._connection.call(
            f"list partitions of {database}.{table}",
            lambda client: client.get_partition_names(database, table, min(limit, 32767)),
        )
        return list(found)

    def get_partitions(
        self, database: str, table: str, names: Sequence[str]
    ) -> dict[tuple[str, ...], HivePartition]:
        """The existing ones of the named partitions, by their raw values.

        Args:
            database: Name of the database.
            table: Its name.
            names: Escaped, as the metastore spells them.

        Raises:
            MetastoreUnavailableError: The metastore does not answer.
            TableMismatchError: The table is gone.
        """
        found = {}
        for batch in batches(names, _READ_BATCH):
            for raw in self._raw_partitions(database, table, batch):
                partition = partition_value(raw)
                found[partition.values] = partition
        return found

    def add_partitions(
        self, database: str, table: str, partitions: Sequence[NewPartition]
    ) -> AddOutcome:
        """Add partitions with the table's present columns and format, in batches.

        A partition that the metastore refuses does not hold up the others: its batch is halved
        until the partition is alone.

        Raises:
            MetastoreUnavailableError: The metastore does not answer.
            TableMismatchError: The table is gone.
        """
        existed: list[tuple[str, ...]] = []
        rejected: list[RejectedPartition] = []
        # Halves of a refused batch go on top, so the order stays.
        waiting = list(batches(partitions, _WRITE_BATCH))[::-1]
        while waiting:
            batch = waiting.pop()
            try:
                existed.extend(self._add_batch(database, table, batch))
            except (ServerFailure, InvalidObject, AlreadyExists) as error:
                # A metastore without its database fails here and ends the call.
                self._require_table(database, table)
                if len(batch) == 1 and isinstance(error, AlreadyExists):
                    existed.append(batch[0].values)
                elif len(batch) == 1:
                    rejected.append(RejectedPartition(batch[0].values, _said(error)))
                else:
                    middle = len(batch) // 2
                    waiting += [batch[middle:], batch[:middle]]
        return AddOutcome(tuple(existed), tuple(rejected))

    def alter_partitions(
        self,
        database: str,
        table: str,
        changes: Sequence[PartitionChange],
        *,
        at_once: bool = False,
    ) -> tuple[tuple[str, ...], ...]:
        """Move partitions, change their columns, or mark their statistics as unreliable.

        Args:
            database: Name of the database.
            table: Its name.
            changes: What is changed.
            at_once: By one call, which is one transaction of the metastore, however many they are.

        Returns:
            Values of the partitions that do not exist.

        Raises:
            MetastoreUnavailableError: The metastore does not answer.
            TableMismatchError: The table is gone or the metastore refuses.
        """
        missing: list[tuple[str, ...]] = []
        for batch in batches(changes, max(len(changes), 1) if at_once else _WRITE_BATCH):
            found = {
                tuple(raw.values): raw
                for raw in self._raw_partitions(database, table, [item.name for item in batch])
            }
            altered = []
            for change in batch:
                raw = found.get(change.values)
                if raw is None:
                    missing.append(change.values)
                    continue
                raw.sd.location = change.location or raw.sd.location
                if change.columns is not None:
                    raw.sd.cols = [ttypes.FieldSchema(c.name, c.type) for c in change.columns]
                raw.parameters = dict(raw.parameters or {})
                raw.parameters.pop(STATS_ACCURATE, None)
                altered.append(raw)
            self._alter_batch(database, table, altered)
        return tuple(missing)

    def drop_partition(self, database: str, table: str, values: Sequence[str]) -> None:
        """Take a partition out of the table and leave its files. Safe to repeat.

        Raises:
            MetastoreUnavailableError: The metastore does not answer.
            TableMismatchError: The metastore refuses.
        """
        # A missing partition is the wanted result.
        with suppress(NoSuchObject):
            self._connection.call(
                f"alter partitions of {database}.{table}: drop one",
                lambda client: client.drop_partition(database, table, list(values), False),  # noqa: FBT003
                expected=(NoSuchObject,),
            )

    def close(self) -> None:
        """Drop the connection. Safe to repeat."""
        self._connection.close()

    def _raw_table(self, database: str, table: str) -> Any:
        what = f"read table {database}.{table}"
        try:
            return self._read(what, database, table)
        except MethodMissingError:
            # 4.0 has lost the old method, old servers lack the new one; found out once.
            other = _read_by_name if self._reader is _read_by_request else _read_by_request
            self._reader = other
        return self._read(what, database, table)

    def _read(self, what: str, database: str, table: str) -> Any:
        reader = self._reader
        try:
            return self._connection.call(
                what, lambda client: reader(client, database, table), expected=(NoSuchObject,)
            )
        except NoSuchObject:
            return None

    def _require_table(self, database: str, table: str) -> Any:
        raw = self._raw_table(database, table)
        if raw is None:
            raise TableMismatchError("the table is gone", where=f"{database}.{table}")
        return raw

    def _database(self, database: str) -> Any:
        try:
            return self._connection.call(
                f"read database {database}",
                lambda client: client.get_database(database),
                expected=(NoSuchObject,),
            )
        except NoSuchObject:
            return None

    def _raw_partitions(self, database: str, table: str, names: Sequence[str]) -> list[Any]:
        found = self._connection.call(
            f"read partitions of {database}.{table}",
            lambda client: client.get_partitions_by_names(database, table, list(names)),
        )
        return list(found)

    def _add_batch(
        self, database: str, table: str, batch: Sequence[NewPartition]
    ) -> list[tuple[str, ...]]:
        """Values of `batch` that existed before."""
        template = self._require_table(database, table)
        request = ttypes.AddPartitionsRequest(
            dbName=database,
            tblName=table,
            parts=[raw_partition(template, partition) for partition in batch],
            ifNotExists=True,
            needResult=True,
        )
        answer = self._connection.call(
            f"add partitions to {database}.{table}",
            lambda client: client.add_partitions_req(request),
            # AlreadyExists despite the flag: another process adds the same at this moment.
            expected=(ServerFailure, InvalidObject, AlreadyExists),
        )
        added = {tuple(raw.values) for raw in answer.partitions or ()}
        return [partition.values for partition in batch if partition.values not in added]

    def _alter_batch(self, database: str, table: str, altered: list[Any]) -> None:
        if not altered:
            return
        self._connection.call(
            f"alter partitions of {database}.{table}",
            lambda client: client.alter_partitions_with_environment_context(
                database, table, altered, ttypes.EnvironmentContext(dict(_KEEP_STATS))
            ),
        )


def _read_by_request(client: Any, database: str, table: str) -> Any:
    # Without the capability the server reports insert-only tables as a failure of its own. We want
    # to see them, to refuse them by name.
    able = ttypes.ClientCapabilities([ttypes.ClientCapability.INSERT_ONLY_TABLES])
    request = ttypes.GetTableRequest(dbName=database, tblName=table, capabilities=able)
    return client.get_table_req(request).table


def _read_by_name(client: Any, database: str, table: str) -> Any:
    return client.get_table(database, table)


def _said(error: Exception) -> str:
    return getattr(error, "message", None) or type(error).__name__
