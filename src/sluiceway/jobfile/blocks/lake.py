"""Blocks of a job file for lake tables: connections to Iceberg catalogs, and the table's own."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from sluiceway.jobfile.blocks.block import Block
from sluiceway.jobfile.blocks.metastore import MetastoreKerberos, MetastoreTls, metastore_options
from sluiceway.jobfile.blocks.table_target import TableTarget
from sluiceway.jobfile.blocks.values import (
    LakeName,
    Line,
    Location,
    Option,
    Secret,
    ThriftUri,
    duration,
    wrong,
)
from sluiceway.types.reader_names import RESERVED_COLUMNS

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
        uri: HTTP address of the catalog.
        warehouse: Name of one of its warehouses; None is the catalog's default.
        token: Bearer token; None sends none.
        credential: OAuth2 login, `client_id:client_secret`; None uses none.
        oauth_uri: HTTP address that gives tokens; None is what the catalog says.
        scope: OAuth2 scope of `credential`; None is the client's default.
        sigv4: Whether requests are signed for Amazon.
        region: AWS region of the signature; None is what the machine's settings say.
        properties: Further settings of the client and of its file access, under the client's names.
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
        warehouse: Folder of databases without a folder of their own in the metastore; None takes
            the metastore's.
        properties: Further settings of the client's file access.
    """

    uri: ThriftUri
    tls: MetastoreTls | None = None
    kerberos: MetastoreKerberos | None = None
    warehouse: Line | None = None
    properties: Mapping[str, Option] = Field(default_factory=dict)

    def options(self) -> tuple[tuple[str, str], ...]:
        """Options of the metastore for a client, without its address."""
        return metastore_options(self.tls, self.kerberos)


class SqlCatalog(Block):
    """Iceberg tables in a database: SQLite on a laptop, PostgreSQL elsewhere.

    Attributes:
        uri: SQLAlchemy address of the database, for example `sqlite:////data/catalog.db`.
        warehouse: Folder of the tables.
        catalog: Name of the catalog in the database; other clients must use the same.
        properties: Further settings of the client's file access.
    """

    uri: Secret | Line
    warehouse: Location
    catalog: Line = "lake"
    properties: Mapping[str, Option] = Field(default_factory=dict)


class GlueCatalog(Block):
    """Amazon's Glue. Its settings are handed on; it was not tried.

    Attributes:
        region: AWS region of the catalog.
        warehouse: Folder of the tables; None takes that of the Glue database.
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
        name: Name in the catalog, `namespace.table`.
        ledger: Folder of the ledger; None is next to the location of the table.
        publish_interval_ms: Time between two snapshots.
        max_lag_ms: Age of the oldest rows waiting for a snapshot at which the route stops reading.
        on_unproven: What happens if expired snapshots hide the history since our last one.
        properties: Table properties of a table that is created.
        keep_snapshots_ms: Age at which a running job expires snapshots; None keeps all.
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
        """Namespace as in the job file, with dots where it is nested."""
        return self.name.rpartition(".")[0]

    @property
    def table(self) -> str:
        """Table as in the job file."""
        return self.name.rpartition(".")[2]


def meta_name(field: str) -> str:
    """Column name in a lake table for a field of `meta` without a name in the job file."""
    name = f"_{field}"
    return f"_source{name}" if name in RESERVED_COLUMNS else name


def named_meta(value: Any) -> Any:
    """Give fields of `meta` names that engines can read; a mapping of names stays unchanged."""
    if isinstance(value, tuple) and all(isinstance(field, str) for field in value):
        return (
            {field: meta_name(field) for field in value} if len({*value}) == len(value) else value
        )
    return value


def field_name(column: str, transform: str) -> str:
    """Name of a partition field, in Spark's form: `ts_hour`, `id_bucket_16`.

    An unknown transform gets a name too, so that only the transform is reported as wrong.
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
