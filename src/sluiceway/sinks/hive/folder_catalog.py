"""A catalog in a folder: what a metastore keeps of tables, where there is no metastore.

    <folder>/_catalog/<database>/<table>/table/<number>.json
    <folder>/_catalog/<database>/<table>/<id>/dt=20261120/hr=08/<number>.json

An entry is a file with a number. A change puts the next number if it is absent: of two writers one
goes first, and the other reads again. The entry with the highest number holds. Some
before it stay: a folder's listing is made while others write, and must not miss them all.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar
from uuid import uuid4

from sluiceway.catalog.hive_table import (
    AddOutcome,
    HiveColumn,
    HiveLayout,
    HivePartition,
    MetastoreTable,
    NewPartition,
    PartitionChange,
    refuse_another,
)
from sluiceway.errors import StorageUnavailableError, TableMismatchError
from sluiceway.sinks.partition_path import catalog_folder
from sluiceway.sinks.table_options import FOLDER
from sluiceway.storage.access import Stores
from sluiceway.storage.contract import PutResult, Storage
from sluiceway.storage.locations import normalise_location
from sluiceway.storage.registry import open_storage
from sluiceway.types.strict_json import StrictJsonError, decode, encode

Kind = TypeVar("Kind")

_READS_LIKE = 4
_DIGITS = 12
_LOOKS = 5
_KEPT = 8


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    type: str


@dataclass(frozen=True, slots=True)
class _TableEntry:
    """A table as its entry has it; an earlier table of its name has another `id`."""

    id: str
    created_at_s: int
    location: str
    serde: str
    input_format: str
    output_format: str
    serde_parameters: dict[str, str]
    columns: tuple[_Column, ...]
    partition_columns: tuple[_Column, ...]
    parameters: dict[str, str]


@dataclass(frozen=True, slots=True)
class _PartitionEntry:
    values: tuple[str, ...]
    location: str


class FolderCatalog:
    """Does what `MetastoreClient` does, for the tables of one folder. Every call may be repeated.

    Used on the driver only; safe for several threads and for several processes.

    Args:
        folder: Path or URI.
        stores: How the store that it lies on is reached.

    Raises:
        JobFileError: The folder is no place that is served here.
    """

    def __init__(self, folder: str, stores: Stores) -> None:
        self.uris = f"{FOLDER}{folder}"
        self._stores = stores
        self._folder = normalise_location(folder).rstrip("/")
        self._storage, root = open_storage(self._folder, stores)
        self._root = f"{root}/_catalog"
        self._staging = f"{self._root}/_staging"

    def get_table(self, database: str, table: str) -> MetastoreTable | None:
        """See `MetastoreClient.get_table`."""
        found = self._find(database, table)
        return None if found is None else _as_table(database, table, found)

    def major_version(self) -> int:
        """Version of a metastore whose readers understand all that we write."""
        return _READS_LIKE

    def default_location(self, database: str, table: str = "") -> str:
        """See `MetastoreClient.default_location`."""
        folder = f"{self._folder}/{database}.db"
        return f"{folder}/{table}" if table else folder

    def create_database_if_missing(self, database: str) -> str:
        """See `MetastoreClient.create_database_if_missing`; each database is there."""
        return self.default_location(database)

    def create_table(self, table: MetastoreTable) -> MetastoreTable:
        """See `MetastoreClient.create_table`."""
        location = table.layout.location or self.default_location(table.database, table.name)
        storage, root = open_storage(normalise_location(location), self._stores)
        storage.make_folders(root)
        made = _TableEntry(
            id=uuid4().hex,
            created_at_s=int(time.time()),
            location=location,
            serde=table.layout.serde,
            input_format=table.layout.input_format,
            output_format=table.layout.output_format,
            serde_parameters=dict(table.layout.serde_parameters),
            columns=_columns(table.layout.columns),
            partition_columns=_columns(table.partition_columns),
            parameters=dict(table.parameters),
        )
        entry = self._table_entry(table.database, table.name)
        held = entry.change(partial(_unless_there, encode(made)))
        found = _as_table(table.database, table.name, _read(held, _TableEntry, entry.folder))
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
        """See `MetastoreClient.alter_table_parameters`."""

        def altered(held: _TableEntry) -> _TableEntry:
            changed = {**held.parameters, **put}
            kept = {key: value for key, value in changed.items() if key not in remove}
            return replace(held, parameters=kept)

        return self._alter(database, table, altered)

    def alter_columns(
        self,
        database: str,
        table: str,
        columns: Sequence[HiveColumn],
        *,
        put: Mapping[str, str],
    ) -> MetastoreTable:
        """See `MetastoreClient.alter_columns`; partitions have the table's columns."""

        def altered(held: _TableEntry) -> _TableEntry:
            return replace(held, columns=_columns(columns), parameters={**held.parameters, **put})

        return self._alter(database, table, altered)

    def drop_table(self, database: str, table: str) -> None:
        """See `MetastoreClient.drop_table`."""
        self._table_entry(database, table).remove()

    def list_partition_names(self, database: str, table: str, *, limit: int = -1) -> list[str]:
        """See `MetastoreClient.list_partition_names`."""
        found = self._require(database, table)
        root = self._partitions(database, table, found)
        names: list[str] = []
        for folder in self._folders(root, len(found.partition_columns)):
            if len(names) == limit:
                break
            if self._entry(folder).read()[1] is not None:
                names.append(folder.removeprefix(f"{root}/"))
        return names

    def get_partitions(
        self, database: str, table: str, names: Sequence[str]
    ) -> dict[tuple[str, ...], HivePartition]:
        """See `MetastoreClient.get_partitions`."""
        held = self._require(database, table)
        layout = _layout(held)
        root, found = self._partitions(database, table, held), {}
        for name in names:
            _, raw = self._entry(f"{root}/{name}").read()
            if raw is not None:
                entry = _read(raw, _PartitionEntry, name)
                at = replace(layout, location=entry.location)
                found[entry.values] = HivePartition(entry.values, at, {})
        return found

    def add_partitions(
        self, database: str, table: str, partitions: Sequence[NewPartition]
    ) -> AddOutcome:
        """See `MetastoreClient.add_partitions`."""
        held = self._require(database, table)
        existed = []
        for each in partitions:
            made = encode(_PartitionEntry(each.values, each.location))
            entry = self._partition(database, table, held, each.values)
            if entry.change(partial(_unless_there, made)) != made:
                existed.append(each.values)
        return AddOutcome(tuple(existed), ())

    def alter_partitions(
        self,
        database: str,
        table: str,
        changes: Sequence[PartitionChange],
        *,
        at_once: bool = False,
    ) -> tuple[tuple[str, ...], ...]:
        """See `MetastoreClient.alter_partitions`; only their places are kept here.

        Each partition is a file of its own: they change one after the other.
        """
        del at_once
        held = self._require(database, table)
        missing = []
        for change in changes:
            entry = self._partition(database, table, held, change.values)
            if entry.read()[1] is None:
                missing.append(change.values)
            elif change.location is not None:
                made = encode(_PartitionEntry(change.values, change.location))
                entry.change(partial(_whatever_there_is, made))
        return tuple(missing)

    def drop_partition(self, database: str, table: str, values: Sequence[str]) -> None:
        """See `MetastoreClient.drop_partition`."""
        held = self._require(database, table)
        self._partition(database, table, held, tuple(values)).remove()

    def close(self) -> None:
        """Nothing is held. Safe to repeat."""

    def _find(self, database: str, table: str) -> _TableEntry | None:
        entry = self._table_entry(database, table)
        _, raw = entry.read()
        return None if raw is None else _read(raw, _TableEntry, entry.folder)

    def _require(self, database: str, table: str) -> _TableEntry:
        found = self._find(database, table)
        if found is None:
            raise TableMismatchError("the table is gone", where=f"{database}.{table}")
        return found

    def _alter(
        self, database: str, table: str, altered: Callable[[_TableEntry], _TableEntry]
    ) -> MetastoreTable:
        entry, where = self._table_entry(database, table), f"{database}.{table}"

        def change(raw: bytes | None) -> bytes:
            if raw is None:
                raise TableMismatchError("the table is gone", where=where)
            return encode(altered(_read(raw, _TableEntry, entry.folder)))

        return _as_table(database, table, _read(entry.change(change), _TableEntry, entry.folder))

    def _entry(self, folder: str) -> "_Entry":
        return _Entry(self._storage, folder, self._staging)

    def _table_entry(self, database: str, table: str) -> "_Entry":
        return self._entry(f"{self._root}/{database}/{table}/table")

    def _partitions(self, database: str, table: str, held: _TableEntry) -> str:
        return f"{self._root}/{database}/{table}/{held.id}"

    def _partition(
        self, database: str, table: str, held: _TableEntry, values: tuple[str, ...]
    ) -> "_Entry":
        name = catalog_folder([column.name for column in held.partition_columns], values)
        return self._entry(f"{self._partitions(database, table, held)}/{name}")

    def _folders(self, root: str, depth: int) -> Iterator[str]:
        if depth == 0:
            yield root
            return
        for each in self._storage.list(root):
            if each.is_dir:
                yield from self._folders(each.path, depth - 1)


class _Entry:
    """The entry under one name, by numbered files in a folder of its own."""

    def __init__(self, storage: Storage, folder: str, staging: str) -> None:
        self._storage = storage
        self._staging = staging
        self.folder = folder

    def read(self) -> tuple[int, bytes | None]:
        """Number and content that hold now; 0 and None where there is nothing."""
        while True:
            numbers = self._numbers()
            if not numbers:
                return 0, None
            raw = self._storage.read(self._path(numbers[-1]))
            if raw is not None:
                return numbers[-1], raw
            # It was replaced since it was listed.

    def change(self, make: Callable[[bytes | None], bytes]) -> bytes:
        """Have `make` of what holds hold, whoever else writes; what holds then."""
        while True:
            number, raw = self.read()
            wanted = make(raw)
            if wanted == raw:
                return wanted
            for folder in (self._staging, self.folder):
                self._storage.make_folders(folder)
            path = self._path(number + 1)
            try:
                put = self._storage.put_if_absent(path, wanted, tmp_folder=self._staging)
            except StorageUnavailableError:
                held = self._numbers()
                if held and held[-1] <= number + 1:
                    raise
                # Others have gone on so far that what was put is removed, before it was read back.
                continue
            if put is not PutResult.CREATED:
                continue
            held = self._numbers()
            if held[-1:] != [number + 1]:
                # Others have put this number and the next ones, and removed this one, meanwhile;
                # or the table was dropped.
                self._storage.remove(path)
                continue
            for each in held[:-_KEPT]:
                self._storage.remove(self._path(each))
            return wanted

    def remove(self) -> None:
        """Let nothing hold any more. Safe to repeat."""
        self._storage.remove(self.folder)

    def _numbers(self) -> list[int]:
        """All numbers, in order. An empty folder is listed again: it is being written to."""
        for _ in range(_LOOKS):
            names = (each.path.rpartition("/")[2] for each in self._storage.list(self.folder))
            stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
            found = sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())
            if found or self._storage.status(self.folder) is None:
                return found
        return []

    def _path(self, number: int) -> str:
        return f"{self.folder}/{number:0{_DIGITS}d}.json"


def _unless_there(made: bytes, raw: bytes | None) -> bytes:
    return made if raw is None else raw


def _whatever_there_is(made: bytes, raw: bytes | None) -> bytes:
    del raw
    return made


def _columns(columns: Sequence[HiveColumn]) -> tuple[_Column, ...]:
    return tuple(_Column(each.name, each.type) for each in columns)


def _hive_columns(columns: Sequence[_Column]) -> tuple[HiveColumn, ...]:
    return tuple(HiveColumn(each.name, each.type) for each in columns)


def _layout(held: _TableEntry) -> HiveLayout:
    return HiveLayout(
        held.location,
        held.serde,
        held.input_format,
        held.output_format,
        _hive_columns(held.columns),
        held.serde_parameters,
    )


def _as_table(database: str, name: str, held: _TableEntry) -> MetastoreTable:
    return MetastoreTable(
        database=database,
        name=name,
        kind="EXTERNAL_TABLE",
        layout=_layout(held),
        partition_columns=_hive_columns(held.partition_columns),
        parameters=held.parameters,
        created_at_s=held.created_at_s,
    )


def _read(raw: bytes, kind: type[Kind], where: str) -> Kind:
    try:
        return decode(raw, kind)
    except StrictJsonError as error:
        raise TableMismatchError(
            f"its entry in the catalog's folder is damaged: {error}",
            where=where,
            hint="bring the file back from a copy",
        ) from error
