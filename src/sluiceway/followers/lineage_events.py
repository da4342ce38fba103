"""Events of OpenLineage: what a route reads, what it fills, and how far a run of it has come.

A route is a job that streams; each term of its ledger is a run. Names of topics, tables and places
follow OpenLineage's rules for names, so that other tools' events meet ours at the same dataset.
Source: https://openlineage.io/docs/spec/naming and the facets' JSON schemas.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from importlib.metadata import version
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from sluiceway.followers.lineage_columns import NO_ORIGINS, ColumnOrigins, Origin
from sluiceway.sinks.contract import TableIdentity, TableState
from sluiceway.sources.contract import TABLE_TOPIC
from sluiceway.sources.registry import SourceAccess, first_server
from sluiceway.storage.locations import normalise_location
from sluiceway.types.hive_types import format_hive_type
from sluiceway.types.strict_json import BigInt

PRODUCER = f"urn:sluiceway:{version('sluiceway')}"
"""Who makes the events, as they say it."""

_SPEC = "https://openlineage.io/spec"
_EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_FACETS = {
    "jobType": "2-0-4/JobTypeJobFacet",
    "processing_engine": "1-1-1/ProcessingEngineRunFacet",
    "schema": "1-2-0/SchemaDatasetFacet",
    "symlinks": "1-0-1/SymlinksDatasetFacet",
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
"""Of one event. A route of many topics and columns would have more; then it tells none."""


class RunState(StrEnum):
    """What an event says of its run."""

    START = "START"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    ABORT = "ABORT"


@dataclass(frozen=True, slots=True)
class Totals:
    """What a run has committed.

    Attributes:
        read: Topic -> records read.
        written: Rows in files of the table.
        size_bytes: Of these files; `files` says how many.
    """

    read: dict[str, int] = field(default_factory=dict)
    written: BigInt = field(default_factory=lambda: BigInt(0))
    size_bytes: BigInt = field(default_factory=lambda: BigInt(0))
    files: int = 0

    def plus(self, read: Mapping[str, int], written: int, size_bytes: int, files: int) -> "Totals":
        """With a record's own."""
        topics = {*self.read, *read}
        return Totals(
            {topic: self.read.get(topic, 0) + read.get(topic, 0) for topic in sorted(topics)},
            BigInt(self.written + written),
            BigInt(self.size_bytes + size_bytes),
            self.files + files,
        )


@dataclass(frozen=True, slots=True)
class LineageRoute:
    """What events say of a route.

    Attributes:
        namespace: Of the job file's block.
        job: Name of the job and of the route, `orders.orders`.
        ledger: Uuid of its ledger.
        source: Namespace of its topics.
        topics: Those that it reads, as known when its driver has begun.
        table: That it fills.
        origins: What its columns are made of.
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
    if access.kind == "table":
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
    """Namespace of the name that its catalog gives a table."""
    return _of_catalog(identity.catalog.split(",")[0])


def _of_catalog(first: str) -> str:
    return f"hive://{first.removeprefix('thrift://')}" if first.startswith("thrift:") else first


def run_id(ledger: str, term: int) -> str:
    """The same for each event of a run, whoever tells it."""
    return str(uuid5(NAMESPACE_URL, f"urn:sluiceway:{ledger}:{term}"))


def run_event(route: LineageRoute, state: RunState, term: int, at_ms: int, totals: Totals) -> bytes:
    """One event, as JSON.

    Args:
        route: Whose.
        state: What it says.
        term: Of the run.
        at_ms: When it happened, milliseconds since 1970.
        totals: What the run has committed up to it.
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
        "inputs": [_input(route.source, topic, totals.read.get(topic, 0)) for topic in topics],
        "outputs": [_output(route, topics, totals)],
    }
    return json.dumps(event, sort_keys=True, separators=(",", ":")).encode()


def _input(source: str, topic: str, rows: int) -> dict[str, Any]:
    return {
        "namespace": source,
        "name": topic.removeprefix(TABLE_TOPIC),
        "inputFacets": _facet("inputStatistics", {"rowCount": rows}),
    }


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
    """Columns of its files, then those of a Hive table that its folders say."""
    fields = [
        {"name": each.name, "type": format_hive_type(each.type)} for each in table.schema.fields
    ]
    # A lake table's partition fields are made from columns; they are none.
    folders = () if table.identity.uuid else table.partition_columns
    return fields + [{"name": name} for name in folders]


def _column_lineage(route: LineageRoute, topics: Sequence[str]) -> dict[str, Any]:
    """The facet of columns; none where no field is known, or where there are too many."""
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
