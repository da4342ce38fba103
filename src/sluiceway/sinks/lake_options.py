"""What a route says of a lake table in addition to its name and columns, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sluiceway.storage.access import NO_STORES, Stores
from sluiceway.types.strict_json import decode, encode

IDENTITY = "identity"
METASTORE_PREFIX = "metastore."
"""Prefix of settings of a Hive catalog that say how its metastore is reached."""


@dataclass(frozen=True, slots=True)
class LakeField:
    """A partition field: a transform of a column that the files hold.

    Attributes:
        name: Name of the field in the table's partition spec.
        column: What it is made from.
        transform: As Iceberg writes it: `identity`, `hour`, `bucket[16]`.
    """

    name: str
    column: str
    transform: str = IDENTITY


@dataclass(frozen=True, slots=True)
class LakeOptions:
    """A lake table.

    Attributes:
        fields: Partition fields, in the order of the route's partition rules.
        stored: Columns, all of them text, that the route makes for its partitions and the files
            hold in addition to the rows' columns.
        ledger: Where the ledger lies; None is next to the table's location.
        publish_interval_s: Seconds from one snapshot to the next; epochs between them share one.
        max_lag_s: How far the table may lag the ledger before no epoch is planned.
        target_bytes: What a file should weigh; smaller ones of a batch are merged.
        halt_unproven: Whether a table is left alone whose history cannot be followed back to our
            last snapshot.
        properties: Properties of a table that is created.
        ready_property: Whether the table's properties say which hours are complete.
        ready_tag_ms: How long a tag is kept of the snapshot that has a complete hour; None makes
            no tags.
        key: Columns by which a change finds the row that it replaces; none appends all rows.
        offset_column: Column with the offset of a row's record; empty without a key.
        partition_column: Column with its source partition, likewise.
        topic_column: Column with its topic; empty where the table has none, as with a single topic.
        compact: Whether a running driver merges small files that publishes have left; a keyed
            table does so within its publishes.
        keep_snapshots_s: After which a running driver expires snapshots; None keeps all.
        keeps_case: Whether the catalog keeps names apart that differ in letter case only.
    """

    fields: tuple[LakeField, ...] = ()
    stored: tuple[str, ...] = ()
    ledger: str | None = None
    publish_interval_s: float = 30.0
    max_lag_s: float = 86_400.0
    target_bytes: int = 128 << 20
    halt_unproven: bool = False
    properties: tuple[tuple[str, str], ...] = field(default=())
    ready_property: bool = True
    ready_tag_ms: int | None = None
    key: tuple[str, ...] = ()
    offset_column: str = ""
    partition_column: str = ""
    topic_column: str = ""
    compact: bool = False
    keep_snapshots_s: float | None = None
    keeps_case: bool = True


FILE_ACCESS_PROPERTY = "py-io-impl"
"""By which the client of a catalog finds its file access."""
FILE_ACCESS = "sluiceway.sinks.iceberg.catalog.store_files.StoreFileIO"
STORES_PROPERTY = "sluiceway.stores"


def catalog_place(settings: Mapping[str, str]) -> str:
    """Address of a catalog without name and password, which may stand after a `?` too.

    Args:
        settings: Settings of its connection, with their `kind`.
    """
    place = settings.get("uri", settings.get("glue.region", settings.get("kind", "")))
    head, at, tail = place.rpartition("@")
    scheme = head.partition("//")[0]
    return (f"{scheme}//{tail}" if at else place).partition("?")[0]


def stores_setting(stores: Stores) -> str:
    """Stores as one setting of a catalog. May hold secrets: never logged."""
    return encode(stores).decode()


def parse_stores(setting: str | None) -> Stores:
    """What `stores_setting` made; as the environment says where there is none."""
    return NO_STORES if setting is None else decode(setting.encode(), Stores)
