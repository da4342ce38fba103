"""OpenLineage events: what a route reads and fills, and how far one of its runs has come.

A route is a streaming job; each term of its ledger is a run. Names of topics, tables and places
follow OpenLineage's naming rules, so that other tools' events refer to the same dataset.
Source: https://openlineage.io/docs/spec/naming and the facets' JSON schemas.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from importlib.metadata import version
from typing import Any, ClassVar
from uuid import NAMESPACE_URL, uuid5

from sluiceway.chains.lake_upstream import LAKE_SOURCE
from sluiceway.followers.lineage_columns import NO_ORIGINS, ColumnOrigins, Origin
from sluiceway.sinks.contract import TableIdentity, TableState
from sluiceway.sources.contract import TABLE_TOPIC
from sluiceway.sources.registry import SourceAccess, first_server
from sluiceway.storage.locations import normalise_location
from sluiceway.types.hive_types import format_hive_type
from sluiceway.types.strict_json import BigInt

PRODUCER = f"urn:sluiceway:{version('sluiceway')}"
"""The producer of the events, in the events."""

_SPEC = "https://openlineage.io/spec"
_EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_FACETS = {
    "jobType": "2-0-4/JobTypeJobFacet",
    "processing_engine": "1-1-1/ProcessingEngineRunFacet",
    "schema": "1-2-0/SchemaDatasetFacet",
    "symlinks": "1-0-1/SymlinksDatasetFacet",
    "version": "1-0-1/DatasetVersionDatasetFacet",
    "columnLineage": "1-2-0/ColumnLineageDatasetFacet",
    "inputStatistics": "1-0-0/InputStatisticsInputDatasetFacet",
    "outputStatistics": "1-0-2/OutputStatisticsOutputDatasetFacet",
}
_JOB_TYPE = {
    "processingType": "STREAMING",
    "integration": "SLUICEWAY",
    "jobType": "ROUTE",
    "emissionPattern": {"eventTrigger": "PERIODIC", "eventContentMode": "ACCUMULATIVE"},
}
_S3 = ("s3", "s3a", "s3n")
_MOST_INPUT_FIELDS = 5000
"""Most input fields in the column facet of one event; with more the event has none."""


class RunState(StrEnum):
    """State of a run in an event."""

    START = "START"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    ABORT = "ABORT"


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of a run's commits.

    Attributes:
        read: Topic -> records read.
        written: Rows in files of the table.
        size_bytes: Size of these files; `files` is their number.
        slots: Table that was read -> newest slot of its ledger that rows were computed from.
        slot: Newest slot of the route's ledger that changed rows; -1 before any.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"slots", "slot"})

    read: dict[str, int] = field(default_factory=dict)
    written: BigInt = field(default_factory=lambda: BigInt(0))
    size_bytes: BigInt = field(default_factory=lambda: BigInt(0))
    files: int = 0
    slots: dict[str, int] = field(default_factory=dict)
    slot: int = -1

    def plus(self, read: Mapping[str, int], written: int, size_bytes: int, files: int) -> "Totals":
        """The totals with those of a record added."""
        topics = {*self.read, *read}
        return Totals(
            {topic: self.read.get(topic, 0) + read.get(topic, 0) for topic in sorted(topics)},
            BigInt(self.written + written),
            BigInt(self.size_bytes + size_bytes),
            self.files + files,
            self.slots,
            self.slot,
        )


@dataclass(frozen=True, slots=True)
class LineageRoute:
    """A route's part of its events.

    Attributes:
        namespace: Namespace of the job file's block.
        job: Name of the job and of the route, such as `orders.orders`.
        ledger: Uuid of its ledger.
        source: Namespace of its topics.
        topics: The topics that it reads, as known when its driver began.
        table: The table that it fills.
        origins: Origins of its columns.
    """

    namespace: str
    job: str
    ledger: str
    source: str
    topics: tuple[str, ...]
    table: TableState
    origins: ColumnOrigins = NO_ORIGINS


def source_namespace(access: SourceAccess) -> str:
    """Namespace of a source's topics: kind of the connection, `://`, and its first server.

    Of a table that is read: that of the name that its catalog gives it, as who fills it says.
    """
    if access.kind in ("table", LAKE_SOURCE):
        return _of_catalog(first_server(access))
    return f"{access.kind}://{first_server(access)}"


def table_name(location: str) -> tuple[str, str]:
    """Namespace and name of a table by its place, as other engines' events have it.

    `s3a://bucket/ods.db/orders` -> (`s3://bucket`, `ods.db/orders`); a local folder is of `file`.
    """
    place = normalise_location(location)
    scheme, separator, rest = place.partition("://")
    if not separator:
        return "file", place
    authority, _, path = rest.partition("/")
    if scheme in _S3:
        return f"s3://{authority}", path
    return f"{scheme}://{authority}", f"/{path}"


def catalog_namespace(identity: TableIdentity) -> str:
    """Namespace of the table's name in its catalog."""
    return _of_catalog(identity.catalog.split(",")[0])


def _of_catalog(first: str) -> str:
    return f"hive://{first.removeprefix('thrift://')}" if first.startswith("thrift:") else first


def run_id(ledger: str, term: int) -> str:
    """Id of a run; the same in each of its events, from any driver."""
    return str(uuid5(NAMESPACE_URL, f"urn:sluiceway:{ledger}:{term}"))


def run_event(route: LineageRoute, state: RunState, term: int, at_ms: int, totals: Totals) -> bytes:
    """One event, as JSON.

    Args:
        route: The route.
        state: State of the run.
        term: Term of the run.
        at_ms: Time of the event, milliseconds since 1970.
        totals: Totals of the run at that time.
    """
    topics = sorted({*route.topics, *totals.read})
    event = {
        "eventType": state.value,
        "eventTime": _time(at_ms),
        "producer": PRODUCER,
        "schemaURL": _EVENT,
        "run": {
            "runId": run_id(route.ledger, term),
            "facets": _facet(
                "processing_engine", {"name": "sluiceway", "version": version("sluiceway")}
            ),
        },
        "job": {
            "namespace": route.namespace,
            "name": route.job,
            "facets": _facet("jobType", _JOB_TYPE),
        },
        "inputs": [_input(route.source, topic, totals) for topic in topics],
        "outputs": [_output(route, topics, totals)],
    }
    return json.dumps(event, sort_keys=True, separators=(",", ":")).encode()


def _input(source: str, topic: str, totals: Totals) -> dict[str, Any]:
    slot = totals.slots.get(topic)
    version = {} if slot is None else {"facets": _version(slot)}
    return {
        "namespace": source,
        "name": topic.removeprefix(TABLE_TOPIC),
        **version,
        "inputFacets": _facet("inputStatistics", {"rowCount": totals.read.get(topic, 0)}),
    }


def _version(slot: int) -> dict[str, Any]:
    """A state of a table, by the slot of its ledger."""
    return _facet("version", {"datasetVersion": f"slot:{slot}"})


def _output(route: LineageRoute, topics: Sequence[str], totals: Totals) -> dict[str, Any]:
    table, identity = route.table, route.table.identity
    namespace, name = table_name(identity.location)
    known = {"namespace": catalog_namespace(identity), "name": str(identity), "type": "TABLE"}
    return {
        "namespace": namespace,
        "name": name,
        "facets": {
            **_facet("schema", {"fields": _fields(table)}),
            **_facet("symlinks", {"identifiers": [known]}),
            **_column_lineage(route, topics),
            **({} if totals.slot < 0 else _version(totals.slot)),
        },
        "outputFacets": _facet(
            "outputStatistics",
            {
                "rowCount": int(totals.written),
                "size": int(totals.size_bytes),
                "fileCount": totals.files,
            },
        ),
    }


def _fields(table: TableState) -> list[dict[str, str]]:
    """Columns of the table's files, then a Hive table's partition columns."""
    fields = [
        {"name": each.name, "type": format_hive_type(each.type)} for each in table.schema.fields
    ]
    # A lake table's partition fields are made from columns; they are none themselves.
    folders = () if table.identity.uuid else table.partition_columns
    return fields + [{"name": name} for name in folders]


def _column_lineage(route: LineageRoute, topics: Sequence[str]) -> dict[str, Any]:
    """The facet of columns; empty where no field is known, or where there are too many."""
    origins = {name: each for name, each in route.origins.columns.items() if each.fields}
    filtered = route.origins.filtered
    fields = sum(len(each.fields) for each in (*origins.values(), filtered))
    if not origins or fields * len(topics) > _MOST_INPUT_FIELDS:
        return {}
    named = {
        name: {"inputFields": _input_fields(route.source, topics, each, "DIRECT")}
        for name, each in origins.items()
    }
    facet: dict[str, Any] = {"fields": named}
    if filtered.fields:
        facet["dataset"] = _input_fields(route.source, topics, filtered, "INDIRECT")
    return _facet("columnLineage", facet)


def _input_fields(
    source: str, topics: Sequence[str], origin: Origin, kind: str
) -> list[dict[str, Any]]:
    made: dict[str, Any] = {"type": kind, "subtype": "IDENTITY"}
    if kind == "INDIRECT":
        made["subtype"] = "FILTER"
    elif origin.made_by:
        made["subtype"] = "TRANSFORMATION"
    if origin.made_by:
        made["description"] = origin.made_by
    return [
        {"namespace": source, "name": name, "field": field, "transformations": [made]}
        for name in (topic.removeprefix(TABLE_TOPIC) for topic in topics)
        for field in origin.fields
    ]


def _facet(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    path = _FACETS[name]
    schema = f"{_SPEC}/facets/{path}.json#/$defs/{path.partition('/')[2]}"
    return {name: {"_producer": PRODUCER, "_schemaURL": schema, **values}}


def _time(at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
