"""How a table is reached that a route reads, as options of a source."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from sluiceway.errors import SourceUnavailableError, TableMismatchError, TableNotFoundError
from sluiceway.sinks.registry import CatalogAccess, column_names, find_table
from sluiceway.sinks.table_options import TableOptions
from sluiceway.sources.contract import AS_OF, TABLE_TOPIC
from sluiceway.storage.access import NO_STORES, StoreAccess, Stores

ROOT = "root"
"""Option that only readers get: where the table lies, so that no task asks a catalog."""

FOLLOW, HALT, IGNORE = "follow", "halt", "ignore"
"""What a route does with rows that were replaced in the table that it reads."""

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class UpstreamOptions:
    """A table to read.

    Attributes:
        name: `database.table`.
        metastore: Address of its catalog, as `TableOptions.metastore`.
        metastore_options: How that is reached, besides its address.
        stores: How the store that it lies on is reached.
        columns: Names of what is read, in lower case; none reads all.
        root: Where it lies; empty where the catalog has to be asked.
        on_correction: What becomes of rows that were replaced: `follow`, `halt` or `ignore`.
        as_of: See `AS_OF`; empty reads rows as they come.
    """

    name: str
    metastore: str
    metastore_options: Pairs = ()
    stores: Stores = NO_STORES
    columns: tuple[str, ...] = ()
    root: str = ""
    on_correction: str = FOLLOW
    as_of: str = ""

    @property
    def topic(self) -> str:
        """What stands for a topic."""
        return f"{TABLE_TOPIC}{self.name}"

    def texts(self) -> Pairs:
        """The same as options of a source."""
        stores = [[each.kind, each.options] for each in self.stores.accesses]
        return (
            ("columns", json.dumps(self.columns)),
            ("metastore", self.metastore),
            ("metastore_options", json.dumps(self.metastore_options)),
            ("on_correction", self.on_correction),
            ("stores", json.dumps([stores, self.stores.unclear])),
            ("table", self.name),
        )

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> "UpstreamOptions":
        """What `texts` has made."""
        stores, unclear = json.loads(texts["stores"])
        accesses = (StoreAccess(kind, _pairs(options)) for kind, options in stores)
        return cls(
            name=texts["table"],
            metastore=texts["metastore"],
            metastore_options=_pairs(json.loads(texts["metastore_options"])),
            stores=Stores(tuple(accesses), tuple(unclear)),
            columns=tuple(json.loads(texts["columns"])),
            root=texts.get(ROOT, ""),
            on_correction=texts.get("on_correction", FOLLOW),
            as_of=texts.get(AS_OF, ""),
        )

    def found_root(self) -> str:
        """Where the table lies; asks its catalog where that is not known.

        Raises:
            TableNotFoundError: The catalog does not have it.
            MetastoreUnavailableError: It does not answer.
        """
        return self.root or find_table(CatalogAccess(), self.table()).home

    def check_columns(self) -> None:
        """See that the table has what is read of it: a misspelt column would be null for ever.

        Raises:
            TableMismatchError: It lacks a column, or is no table of files.
            MetastoreUnavailableError: Its catalog does not answer.
        """
        if self.root:
            return
        held = column_names(self.table())
        missing = sorted(set(self.columns) - {name.lower() for name in held})
        if missing:
            raise TableMismatchError(
                f"the table that is read has no column {', '.join(missing)}",
                where=self.topic,
                hint=f"its columns: {', '.join(held)}; correct name or path of the column",
            )

    def table(self) -> TableOptions:
        """The table, for who asks its catalog."""
        options = TableOptions(
            metastore=self.metastore,
            metastore_options=self.metastore_options,
            database="",
            table="",
            schema=None,
            partition_columns=(),
            create=False,
            stores=self.stores,
        )
        return options.named(self.name)


def _pairs(listed: list[list[str]]) -> Pairs:
    return tuple((name, value) for name, value in listed)


def missing(topic: str) -> TableNotFoundError:
    """Why units of a table cannot be found: it does not exist."""
    return TableNotFoundError(
        "the table that is read does not exist",
        where=topic,
        hint="run the job that fills it, or correct `table` or `connection` in the job file",
    )


def missing_yet(topic: str) -> SourceUnavailableError:
    """Why a route waits for a table that no job has created."""
    return SourceUnavailableError(
        "the table does not exist yet; it is looked for again",
        where=topic,
        hint="run the job that fills it, or correct `table` or `connection` in the job file",
    )
