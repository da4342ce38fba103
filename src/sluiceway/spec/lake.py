"""Blocks of a job file for lake tables: connections to Iceberg catalogs, and the table's own."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from sluiceway.spec.block import Block
from sluiceway.spec.kerberos import MetastoreKerberos
from sluiceway.spec.metastore import MetastoreTls, metastore_options
from sluiceway.spec.table_target import TableTarget
from sluiceway.spec.values import (
    ColumnName,
    LakeName,
    Line,
    Location,
    Option,
    Secret,
    ThriftUri,
    duration,
    wrong,
)

ICEBERG = "iceberg"
_TRANSFORM = re.compile(r"identity|year|month|day|hour|(?:bucket|truncate)\[([1-9][0-9]{0,8})\]")


def _check_transform(text: str) -> str:
    if not _TRANSFORM.fullmatch(text):
        forms = "`identity`, `year`, `month`, `day`, `hour`, `bucket[N]` or `truncate[W]`"
        raise wrong(forms, "choose one")
    return text


def _check_http(text: str) -> str:
    if not re.fullmatch(r"https?://[^\s@]+", text):
        raise wrong("`https://host/path`", "write the catalog's address, without a login")
    return text


TransformText = Annotated[str, AfterValidator(_check_transform)]
HttpUri = Annotated[str, AfterValidator(_check_http)]


class RestCatalog(Block):
    """An Iceberg REST catalog.

    Attributes:
        uri: Its address.
        warehouse: Which of its warehouses.
        token: Bearer token.
        credential: `client_id:client_secret` of OAuth2.
        oauth_uri: Where tokens are given; None: where the catalog says.
        scope: That is asked for with `credential`.
        sigv4: Whether requests are signed for Amazon.
        region: Of the signature.
        properties: Further settings of the client, as it names them; also those of its file access.
    """

    uri: HttpUri
    warehouse: Line | None = None
    token: Secret | Line | None = None
    credential: Secret | Line | None = None
    oauth_uri: HttpUri | None = None
    scope: Line | None = None
    sigv4: bool = False
    region: Line | None = None
    properties: Mapping[str, Option] = Field(default_factory=dict)


class HiveCatalog(Block):
    """Iceberg tables in a Hive Metastore.

    Attributes:
        uri: `thrift://host:port`.
        tls: Encryption; None without.
        kerberos: A login by SASL; None without.
        warehouse: Folder of databases that the metastore does not give one.
        properties: Further settings of the client's file access.
    """

    uri: ThriftUri
    tls: MetastoreTls | None = None
    kerberos: MetastoreKerberos | None = None
    warehouse: Line | None = None
    properties: Mapping[str, Option] = Field(default_factory=dict)

    def options(self) -> tuple[tuple[str, str], ...]:
        """How the metastore is reached besides its address, as a client takes it."""
        return metastore_options(self.tls, self.kerberos)


class SqlCatalog(Block):
    """Iceberg tables in a database: SQLite on a laptop, PostgreSQL elsewhere.

    Attributes:
        uri: As SQLAlchemy writes it.
        warehouse: Folder of its tables.
        catalog: Name by which other clients of the same database find the tables.
        properties: Further settings of the client's file access.
    """

    uri: Secret | Line
    warehouse: Location
    catalog: Line = "lake"
    properties: Mapping[str, Option] = Field(default_factory=dict)


class GlueCatalog(Block):
    """Amazon's Glue. Its settings are handed on; it was not tried.

    Attributes:
        region: Of the catalog.
        warehouse: Folder of its tables.
        properties: Further settings of the client.
    """

    region: Line
    warehouse: Line | None = None
    properties: Mapping[str, Option] = Field(default_factory=dict)


class IcebergConnection(Block):
    """A catalog of Iceberg tables; exactly one kind is given."""

    ONE_OF = ("rest", "hive", "sql", "glue")
    rest: RestCatalog | None = None
    hive: HiveCatalog | None = None
    sql: SqlCatalog | None = None
    glue: GlueCatalog | None = None


class IcebergTable(TableTarget):
    """A lake table.

    Attributes:
        ledger: Folder of the ledger; None is beside the table's location.
        publish_interval_ms: From one snapshot to the next.
        max_lag_ms: How old the oldest rows may be that wait for a snapshot before reading waits.
        on_unproven: What happens when expired snapshots keep the history from being followed.
        properties: Of a table that is created.
        keep_snapshots_ms: After which a running job expires snapshots; None keeps all.
    """

    LATER = frozenset({"spark_runtime"})
    name: LakeName
    ledger: Location | None = None
    publish_interval_ms: Annotated[int, *duration("1s", "1h")] = Field(
        default=30_000, alias="publish_interval"
    )
    max_lag_ms: Annotated[int, *duration("1m", "30d")] = Field(default=86_400_000, alias="max_lag")
    on_unproven: Literal["warn", "halt"] = "warn"
    keep_snapshots_ms: Annotated[int, *duration("1h", "365d")] | None = Field(
        default=None, alias="keep_snapshots"
    )
    properties: Mapping[str, Option] = Field(default_factory=dict)

    @property
    def database(self) -> str:
        """Namespace as the job file spells it, with dots where it is nested."""
        return self.name.rpartition(".")[0]

    @property
    def table(self) -> str:
        """Table as the job file spells it."""
        return self.name.rpartition(".")[2]


class LakePartition(Block):
    """A partition field by a transform of a column; its name is made of both."""

    column: ColumnName
    transform: TransformText


# Spark refuses to read tables with a column of one of these names.
# Source: Iceberg's `MetadataColumns`.
RESERVED_COLUMNS = frozenset({
    "_file",
    "_pos",
    "_deleted",
    "_spec_id",
    "_partition",
    "_row_id",
    "_last_updated_sequence_number",
    "_change_type",
    "_change_ordinal",
    "_commit_snapshot_id",
})  # fmt: skip


def meta_name(field: str) -> str:
    """Name of a lake table's column for a field of `meta` that the job file does not name."""
    name = f"_{field}"
    return f"_source{name}" if name in RESERVED_COLUMNS else name


def named_meta(value: Any) -> Any:
    """Give fields of `meta` names that engines read; a mapping of names stays as it is."""
    if isinstance(value, tuple) and all(isinstance(field, str) for field in value):
        return (
            {field: meta_name(field) for field in value} if len({*value}) == len(value) else value
        )
    return value


def field_name(column: str, transform: str) -> str:
    """Name of a partition field, as Spark names it: `ts_hour`, `id_bucket_16`.

    What is no transform has a name too, so that only the transform is told as wrong.
    """
    if transform == "identity":
        return column
    words = re.sub(r"\W+", "_", transform).rstrip("_")
    return f"{column}_{words}".replace("truncate", "trunc")


def named_partitions(value: Any) -> Any:
    """Give partition fields of a lake table the names that their transforms make."""
    if not isinstance(value, tuple):
        return value
    found = []
    for item in value:
        if isinstance(item, Mapping) and "column" in item and "name" not in item:
            column, transform = item["column"], item.get("transform", "identity")
            if isinstance(column, str) and isinstance(transform, str):
                found.append({"name": field_name(column, transform), **item})
                continue
        found.append(item)
    return tuple(found)
