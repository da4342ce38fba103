"""A job file's settings of a lake table and its catalog, as values for the driver."""

from collections.abc import Mapping

from sluiceway.errors import JobFileError
from sluiceway.jobfile.blocks.lake import (
    GlueCatalog,
    HiveCatalog,
    IcebergConnection,
    RestCatalog,
    SqlCatalog,
)
from sluiceway.jobfile.blocks.models import RouteSpec
from sluiceway.jobfile.blocks.table import KEYS_OF_ONE_COLUMN, PartitionSpec
from sluiceway.jobfile.blocks.table_target import FOLDING_KINDS
from sluiceway.jobfile.blocks.values import revealed
from sluiceway.jobfile.compile.schema_formats import key_format, record_keys
from sluiceway.jobfile.compile.stores import route_stores, with_login
from sluiceway.sinks.lake_options import (
    FILE_ACCESS,
    FILE_ACCESS_PROPERTY,
    IDENTITY,
    METASTORE_PREFIX,
    STORES_PROPERTY,
    LakeField,
    LakeOptions,
    stores_setting,
)
from sluiceway.sinks.registry import ICEBERG, CatalogAccess
from sluiceway.storage.access import S3, Stores
from sluiceway.worker.plan import KeyForm, KeyRule

_S3_NAMES = {
    "endpoint": "endpoint",
    "region": "region",
    "access_key": "access-key-id",
    "secret_key": "secret-access-key",
    "session_token": "session-token",
    "profile": "profile-name",
}


def lake_options(spec: RouteSpec) -> LakeOptions | None:
    """A route's table as a lake table; None for a Hive table."""
    lake = spec.table.iceberg
    if lake is None:
        return None
    parts = spec.table.partition_by
    return LakeOptions(
        fields=tuple(map(_field, parts)),
        stored=tuple(part.name for part in parts if part.column is None),
        ledger=lake.ledger,
        publish_interval_s=lake.publish_interval_ms / 1000,
        max_lag_s=lake.max_lag_ms / 1000,
        target_bytes=spec.files.target_size_bytes,
        halt_unproven=lake.on_unproven == "halt",
        properties=tuple(sorted((key, str(value)) for key, value in lake.properties.items())),
        ready_property=spec.ready is not None and spec.ready.table_property,
        ready_tag_ms=None if spec.ready is None else spec.ready.tag_ms,
        key=spec.table.key,
        offset_column=_record_column(spec, "offset"),
        partition_column=_record_column(spec, "partition"),
        topic_column=_record_column(spec, "topic"),
        keep_snapshots_s=None if lake.keep_snapshots_ms is None else lake.keep_snapshots_ms / 1000,
        compact=spec.files.compact != "never" and not spec.table.keyed,
        keeps_case=not any(getattr(spec.table_connection.iceberg, kind) for kind in FOLDING_KINDS),
    )


def key_rule(spec: RouteSpec) -> KeyRule | None:
    """How a route's changes find their rows; None for a route that appends."""
    if not spec.table.keyed:
        return None
    kind = KeyForm.PREFIXED if spec.format.maxwell is not None else KeyForm.CONNECT
    told_by = record_keys(spec)
    if told_by is not None:
        kind = KeyForm.RECORD
    elif spec.format.rows_block is not None and key_format(spec) in KEYS_OF_ONE_COLUMN:
        kind = KeyForm(key_format(spec))
    order = spec.table.key_order
    drain_s = spec.table.key_order_wait_ms / 1000
    return KeyRule(
        spec.table.key,
        kind if order == "by_key" else None,
        drain_s,
        told_by if order == "by_key" else None,
        one_partition=order == "one_partition",
        fills=order == "by_key" and spec.format.rows_block is not None,
    )


def _record_column(spec: RouteSpec, field: str) -> str:
    named = [column.name for column in spec.table.meta if column.field == field]
    return named[0] if spec.table.keyed and named else ""


def _field(part: PartitionSpec) -> LakeField:
    """A partition field; a value that the route computes is a column of the files."""
    if part.column is None:
        return LakeField(part.name, part.name)
    return LakeField(part.name, part.column, part.transform or IDENTITY)


def lake_access(spec: RouteSpec) -> CatalogAccess:
    """How to reach a route's lake catalog.

    Args:
        spec: Route with a lake table.

    Raises:
        JobFileError: The spec was not made by the loader, and names no such connection.
    """
    connection = spec.table_connection.iceberg
    if connection is None:
        raise JobFileError("table.iceberg.connection names no iceberg connection")
    return CatalogAccess(ICEBERG, catalog_settings(spec, connection))


def catalog_settings(spec: RouteSpec, connection: IcebergConnection) -> tuple[tuple[str, str], ...]:
    """How a catalog and files of its tables are reached, in order; may hold secrets.

    Args:
        spec: The route, for its stores and its login.
        connection: Connection of the catalog.
    """
    settings = _settings(spec, connection)
    texts = {name: revealed(value) for name, value in settings.items() if value is not None}
    stores = route_stores(spec)
    if FILE_ACCESS_PROPERTY not in texts and not any(name.startswith("s3.") for name in texts):
        # Metadata files are read in the same way as data files.
        texts |= {FILE_ACCESS_PROPERTY: FILE_ACCESS, STORES_PROPERTY: stores_setting(stores)}
    texts = {**_client_access(stores), **texts}
    return tuple(sorted(texts.items()))


def _client_access(stores: Stores) -> dict[str, str]:
    """The client's options for its own file access to S3, where the connection has settings."""
    held = dict(stores.access(S3).options)
    found = {f"s3.{theirs}": held[ours] for ours, theirs in _S3_NAMES.items() if ours in held}
    if held.get("path_style") != "true" and "endpoint" in held:
        found["s3.force-virtual-addressing"] = "true"
    if "endpoint" in held and "region" not in held:
        # A store that is not Amazon's has none, and would be asked for it.
        found["s3.region"] = "us-east-1"
    return found


def _settings(spec: RouteSpec, connection: IcebergConnection) -> dict[str, object]:
    match connection.rest or connection.hive or connection.sql or connection.glue:
        case RestCatalog() as rest:
            return {
                **_own(rest.properties),
                "kind": "rest",
                "uri": rest.uri,
                "warehouse": rest.warehouse,
                "token": rest.token,
                "credential": rest.credential,
                "oauth2-server-uri": rest.oauth_uri,
                "scope": rest.scope,
                "rest.sigv4-enabled": "true" if rest.sigv4 else None,
                "rest.signing-region": rest.region,
            }
        case HiveCatalog() as hive:
            own = _own(hive.properties)
            reached = with_login(spec, hive.options())
            own |= {f"{METASTORE_PREFIX}{name}": value for name, value in reached}
            return {**own, "kind": "hive", "uri": hive.uri, "warehouse": hive.warehouse}
        case SqlCatalog() as sql:
            own = {**_own(sql.properties), "catalog": sql.catalog}
            return {**own, "kind": "sql", "uri": sql.uri, "warehouse": sql.warehouse}
        case GlueCatalog() as glue:
            own = {**_own(glue.properties), "glue.region": glue.region}
            return {**own, "kind": "glue", "warehouse": glue.warehouse}
        case _:
            raise JobFileError("the iceberg connection names no kind of catalog")


def _own(properties: Mapping[str, object]) -> dict[str, object]:
    return dict(properties)
