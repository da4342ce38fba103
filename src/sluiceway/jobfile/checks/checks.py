"""Checks across the blocks of a job file.

The checks read plain data and ignore parts of the wrong shape, which the models report. So they run
even when the models refuse the file, and all problems come at once.
"""

import re
from collections.abc import Iterator, Mapping, Set
from typing import Any

from pydantic_core import PydanticCustomError

from sluiceway.jobfile.blocks.block import mapping
from sluiceway.jobfile.blocks.event_time import OWN_FIELDS
from sluiceway.jobfile.blocks.lake import meta_name
from sluiceway.jobfile.blocks.ready import check_ready
from sluiceway.jobfile.blocks.retention import check_retention
from sluiceway.jobfile.blocks.table import (
    META_NAMES,
    event_time_units,
    is_nested,
    is_timestamp,
    may_hold_times,
    struct_field,
    takes_from_registry,
)
from sluiceway.jobfile.blocks.table_target import (
    HIVE,
    HIVE_CATALOGS,
    ICEBERG,
    table_kind,
    table_path,
)
from sluiceway.jobfile.blocks.topic_pattern import (
    MAX_TOPIC_NAME,
    groups_in,
    missing_groups,
    pattern_of,
)
from sluiceway.jobfile.blocks.values import (
    MAX_PATH_KEYS,
    PLAIN_TOPIC,
    TOPIC_TODO,
    is_plain_topic,
    parse_duration_ms,
)
from sluiceway.jobfile.blocks.written_columns import (
    CHANGES,
    decoded_columns,
    decoded_path,
    written_columns,
    written_name,
)
from sluiceway.jobfile.checks.key_checks import check_key
from sluiceway.jobfile.checks.lake_checks import check_lake
from sluiceway.jobfile.checks.route_by_checks import VALUE_GROUP, check_route_by
from sluiceway.jobfile.checks.subject_checks import check_subject
from sluiceway.jobfile.checks.table_source_checks import check_bootstrap, check_table_source
from sluiceway.jobfile.checks.transform_checks import check_transform
from sluiceway.jobfile.positions import Path, Positions
from sluiceway.jobfile.problems import JobFileProblem, Mark, quoted, undeclared
from sluiceway.plugins import PluginGroup, plugin_names
from sluiceway.sources.kafka.own_options import OWN_KAFKA_OPTIONS
from sluiceway.types.key_path import path_keys
from sluiceway.types.reader_names import RESERVED_COLUMNS, is_hidden_folder, partition_name_problem

_TOPICS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("dirty", "store", "topic"), "dirty rows would be read again, and be dirty again, for ever"),
    (("ready", "kafka", "topic"), "announcements would be read as rows"),
    (("ready", "counts", "topic"), "counts would be read as rows"),
)


def check_side_topics(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Refuse a side topic or a topic of counts that the route also reads.

    Args:
        data: The file as plain data; may be of the wrong shape.
        positions: Positions in the file.
    """
    source = mapping(data, "source")
    yield from _connections(data, source, positions)
    topics = source.get("topics")
    pattern = pattern_of(topics)
    listed = topics if isinstance(topics, tuple) else ()
    for path, why in _TOPICS:
        block = mapping(data, *path[:-1])
        topic = block.get(path[-1])
        if block.get("connection") not in (None, source.get("connection")):
            continue
        if not isinstance(topic, str):
            continue
        if topic in listed or (pattern is not None and pattern.fullmatch(topic)):
            text = f"expected a topic that the route does not take in, got {quoted(topic)}: {why}"
            todo = "name another topic, or leave this one out of the route's `topics`"
            yield JobFileProblem(positions.value(path), text, todo)


def _connections(
    data: Mapping[str, Any], source: Mapping[str, Any], positions: Positions
) -> Iterator[JobFileProblem]:
    """Require a Kafka connection for side topics when the source is not Kafka."""
    known = mapping(data, "connections")
    named = source.get("connection")
    own = mapping(known, named) if isinstance(named, str) else {}
    for path, _ in _TOPICS:
        block = mapping(data, *path[:-1])
        name = block.get("connection")
        if isinstance(name, str):
            if known and "kafka" not in mapping(known, name):
                text = f"expected the name of a Kafka connection, got {quoted(name)}"
                at = positions.value((*path[:-1], "connection"))
                yield JobFileProblem(at, text, "declare it under `connections`")
        elif own and "kafka" not in own and isinstance(block.get(path[-1]), str):
            text = "expected the key `connection` with a source that is not Kafka, got none"
            todo = "name a Kafka connection: dirty rows, announcements and counts go through Kafka"
            yield JobFileProblem(positions.key(path), text, todo)


_CONNECTION_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
_SOURCE = ("source",)
_REQUIRED: tuple[tuple[tuple[str, ...], tuple[str, ...], PluginGroup | None], ...] = (
    (_SOURCE, ("kafka", "rocketmq"), PluginGroup.SOURCES),
    (("table", HIVE), HIVE_CATALOGS, PluginGroup.SINKS),
    (("table", ICEBERG), (ICEBERG,), None),
)
_STORE_KINDS = ("s3", "hdfs")
_SCHEMA_FORMATS = frozenset({"avro", "protobuf"})
_WITH_REGISTRY = _SCHEMA_FORMATS | {"json", "debezium"}
_ZONED = frozenset({"processing_time", "record_time"})
_UNITS = frozenset({"s", "ms", "us", "ns", "iso8601"})
_OWN_SPARK_SETTINGS = {
    "spark.master": "run.master",
    "spark.app.name": "name",
    "spark.speculation": "run.straggler_timeout",
}


def cross_check(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Check names, references and dependencies across blocks. Called once per load.

    Args:
        data: The file as plain data, without refused keys; may be of the wrong shape.
        positions: Positions in the file.
    """
    yield from _check_connections(data, positions)
    yield from _check_registry(data, positions)
    yield from _check_unknown_wait(data, positions)
    yield from _check_options(data, positions)
    yield from check_subject(data, positions)
    yield from _check_names(data, positions)
    yield from _check_columns(data, positions)
    yield from _check_partitions(data, positions)
    yield from _check_topics(data, positions)
    yield from check_route_by(data, positions)
    yield from _check_template(data, positions)
    yield from _check_start(data, positions)
    yield from _check_event_time(data, positions)
    yield from _check_evolution(data, positions)
    yield from check_ready(data, positions)
    yield from check_side_topics(data, positions)
    yield from check_retention(data, positions)
    yield from check_lake(data, positions)
    yield from check_key(data, positions)
    yield from check_table_source(data, positions)
    yield from check_transform(data, positions)
    yield from check_bootstrap(data, positions)


def _items(data: object, *path: str) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The mappings of a list with their paths."""
    found = mapping(data, *path[:-1]).get(path[-1])
    for index, item in enumerate(found if isinstance(found, tuple) else ()):
        if isinstance(item, Mapping):
            yield (*path, index), item


def _check_connections(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    connections = mapping(data, "connections")
    for name in connections:
        if not _CONNECTION_NAME.fullmatch(name):
            text = f"expected 1 to 64 letters, digits, `_`, `-`, got {quoted(name)}"
            yield JobFileProblem(
                positions.key(("connections", name)), text, "rename the connection"
            )
    wanted = mapping(data, "table", table_kind(data)).get("storage")
    if isinstance(wanted, str):
        kinds = {*_STORE_KINDS, *plugin_names(PluginGroup.STORAGE)}
        if not _is_reported(connections.get(wanted), kinds):
            text = f"expected the name of a connection to a store, got {quoted(wanted)}"
            todo = f"add one of the kinds {', '.join(sorted(kinds))}, or remove the key"
            yield JobFileProblem(positions.value(table_path(positions, "storage")), text, todo)
    source = mapping(data, *_SOURCE)
    reads_table = "table" in source
    for parent, built_in, group in _REQUIRED:
        if parent == _SOURCE and reads_table:
            built_in = (*HIVE_CATALOGS, ICEBERG)  # noqa: PLW2901
            group = None  # noqa: PLW2901 - another kind of source
        others = () if group is None else plugin_names(group)
        kinds = {*built_in, *others}
        wanted = mapping(data, *parent).get("connection")
        if not isinstance(wanted, str) or _is_reported(connections.get(wanted), kinds):
            continue
        fitting = [name for name, found in connections.items() if kinds & mapping(found).keys()]
        kind = " or ".join([*built_in, *others])
        article = "an" if kind.startswith(ICEBERG) else "a"
        text = f"expected the name of {article} {kind} connection, got {quoted(wanted)}"
        todo = (
            f"write one of: {', '.join(fitting)}" if fitting else f"add {article} {kind} connection"
        )
        if parent == ("table", HIVE) and ICEBERG in mapping(connections.get(wanted)):
            todo = "write `iceberg:` in place of `hive:`, or name a connection of that kind"
        yield JobFileProblem(positions.value((*parent, "connection")), text, todo)


def _check_registry(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Require that the format's registry is a connection to a registry."""
    connections = mapping(data, "connections")
    fitting = [name for name, of in connections.items() if "schema_registry" in mapping(of)]
    for kind in mapping(data, "format"):
        wanted = mapping(data, "format", kind).get("registry")
        if isinstance(wanted, str) and wanted not in fitting and kind in _WITH_REGISTRY:
            text = f"expected the name of a schema_registry connection, got {quoted(wanted)}"
            todo = f"write one of: {', '.join(fitting)}" if fitting else "add such a connection"
            yield JobFileProblem(positions.value(("format", kind, "registry")), text, todo)
    debezium = mapping(data, "format", "debezium")
    if "encoding" in debezium and "registry" not in debezium:
        text = "expected `encoding` with `registry` only: without one payloads are JSON"
        yield JobFileProblem(positions.key(("format", "debezium", "encoding")), text, "remove it")


def _check_unknown_wait(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Require that an unknown id is given up well before its task is."""
    for kind in sorted(_SCHEMA_FORMATS | {"debezium"}):
        block = mapping(data, "format", kind)
        run = mapping(data, "run")
        wait_ms = _duration_ms(block.get("unknown_schema_wait", "30s"))
        patience_ms = _duration_ms(run.get("straggler_timeout", "60s"))
        if "registry" not in block or not wait_ms or not patience_ms or 2 * wait_ms <= patience_ms:
            continue
        own = "unknown_schema_wait" in block
        path = ("format", kind, "unknown_schema_wait") if own else ("run", "straggler_timeout")
        text = (
            f"expected half of run.straggler_timeout at most for format.{kind}.unknown_schema_wait"
        )
        waits = block.get("unknown_schema_wait", "30s"), run.get("straggler_timeout", "60s")
        got = f"got {waits[0]} and {waits[1]}"
        yield JobFileProblem(
            positions.value(path), f"{text}, {got}", "lower the one or raise the other"
        )


def _duration_ms(text: object) -> int | None:
    """A duration; None for a text that is reported elsewhere."""
    try:
        return parse_duration_ms(text)
    except PydanticCustomError:
        return None


def _is_reported(connection: object, kinds: Set[str]) -> bool:
    """Whether a connection has a kind, or no kind at all, which is reported elsewhere."""
    if connection is None:
        return False
    given = mapping(connection).keys()
    return bool(kinds & given) or not given


def _check_options(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    for name in mapping(data, "connections"):
        options = ("connections", name, "kafka", "properties")
        for key in OWN_KAFKA_OPTIONS.keys() & mapping(data, *options).keys():
            text = f"expected options that are yours to set, got {quoted(key)}"
            todo = "remove it; the job file and the ledger decide it"
            yield JobFileProblem(positions.key((*options, key)), text, todo)
    path = ("run", "spark_conf")
    for key in mapping(data, *path):
        if key in _OWN_SPARK_SETTINGS:
            text = f"expected Spark settings that are yours to set, got {quoted(key)}"
            todo = f"use {quoted(_OWN_SPARK_SETTINGS[key])} of the job file"
            yield JobFileProblem(positions.key((*path, key)), text, todo)
        elif not key.startswith("spark."):
            text = f"expected a Spark setting, got {quoted(key)}"
            yield JobFileProblem(positions.key((*path, key)), text, "begin it with `spark.`")


def _names(data: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    """All column names of the table, in the order of their claims."""
    # A partition by the column of its own name moves that column out of the files: one name.
    moved = {
        str(partition.get("name", "")).lower()
        for _, partition in _items(data, "table", "partition_by")
        if str(partition.get("column")).lower() == str(partition.get("name", "")).lower()
    }
    for path, item in written_columns(data):
        name = written_name(path, item)
        if str(name).lower() in moved:
            moved.remove(str(name).lower())
        elif isinstance(name, str):
            yield name, (*path, "name") if "name" in item else path
    for path, item in _items(data, "table", "partition_by"):
        name = item.get("name")
        if isinstance(name, str):
            yield name, (*path, "name")
    yield from _meta_names(data)


def _meta_names(data: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    meta = mapping(data, "table").get("meta")
    if isinstance(meta, tuple):
        for index, field in enumerate(meta):
            if isinstance(field, str) and field in META_NAMES:
                lake = table_kind(data) == ICEBERG
                yield meta_name(field) if lake else META_NAMES[field], ("table", "meta", index)
    for field, name in mapping(meta).items():
        if isinstance(name, str):
            yield name, ("table", "meta", field)


def _check_names(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    taken: dict[str, Path] = {}
    reserved = RESERVED_COLUMNS if table_kind(data) == ICEBERG else frozenset[str]()
    for name, path in _names(data):
        if name.lower() in reserved:
            text = f"expected names that Iceberg does not keep for itself, got {quoted(name)}"
            todo = "take another name: Spark refuses to read a table with this one"
            yield JobFileProblem(_name_mark(positions, path), text, todo)
        first = taken.setdefault(name.lower(), path)
        if first is not path:
            line = _name_mark(positions, first).line
            text = f"expected names that differ in more than case, got {quoted(name)} again"
            todo = f"rename one; Hive keeps columns and partitions together (line {line})"
            yield JobFileProblem(_name_mark(positions, path), text, todo)


def _name_mark(positions: Positions, path: Path) -> Mark:
    """Mark of a name: its value, except for a field that the key of its override names."""
    overridden = path[:-1] == (*CHANGES, "override")
    return positions.key(path) if overridden else positions.value(path)


def _check_columns(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    for path, column in decoded_columns(data):
        type_text = column.get("type")
        if "unit" in column and isinstance(type_text, str) and not may_hold_times(type_text):
            text = f"expected `unit` with types of times only, got {quoted(type_text)}"
            yield JobFileProblem(positions.key((*path, "unit")), text, "remove the unit")


def _declared(
    data: Mapping[str, Any], path: tuple[str, ...] = ("table", "columns")
) -> dict[str, str | None] | None:
    """Types of the declared columns by lower-case name; None when the table decides."""
    if not isinstance(mapping(data, *path[:-1]).get(path[-1]), tuple):
        return None
    return {
        column["name"].lower(): column.get("type") if isinstance(column.get("type"), str) else None
        for _, column in _items(data, *path)
        if isinstance(column.get("name"), str)
    }


def _check_partitions(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    declared = _declared(data)
    table, location = mapping(data, "table"), mapping(data, "table", HIVE).get("location")
    whole = table.get("partition_by") == ()
    if whole and isinstance(location, str) and is_hidden_folder(location):
        text = f"expected a folder that readers do not hide, got {quoted(location)}"
        todo = "rename it: it begins with `_` or `.`, and no partition's folder lies below it"
        yield JobFileProblem(positions.value(table_path(positions, "location")), text, todo)
    for path, partition in _items(data, "table", "partition_by"):
        name = partition.get("name")
        if isinstance(name, str) and table_kind(data) == HIVE:
            problem = partition_name_problem(name)
            if problem is not None:
                text = f"expected a name that readers find partitions by, got {quoted(name)}"
                yield JobFileProblem(
                    positions.value((*path, "name")), text, f"rename it: {problem}"
                )
        if "timezone" in partition and not _ZONED & partition.keys():
            text = "expected `timezone` with processing_time or record_time only"
            todo = "remove it; event_time.timezone is that of event times"
            yield JobFileProblem(positions.key((*path, "timezone")), text, todo)
        column = partition.get("column")
        if not isinstance(column, str) or declared is None:
            continue
        at = positions.value((*path, "column"))
        if column.lower() not in declared:
            text = f"expected a declared column, got {quoted(column)}"
            yield JobFileProblem(at, text, undeclared(column, declared))
        elif is_nested(declared[column.lower()] or ""):
            text = f"expected a column of a plain type, got {quoted(column)}"
            yield JobFileProblem(at, text, "partition by a column that holds one value")


def _check_topics(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    source = mapping(data, "source")
    topics, connection = source.get("topics"), source.get("connection")
    named = mapping(data, "connections", connection) if isinstance(connection, str) else {}
    seen: set[str] = set()
    for index, topic in enumerate(topics if isinstance(topics, tuple) else ()):
        if isinstance(topic, str) and "kafka" in named and not is_plain_topic(topic):
            text = f"expected {PLAIN_TOPIC}, got {quoted(topic)}"
            yield JobFileProblem(positions.value(("source", "topics", index)), text, TOPIC_TODO)
        if isinstance(topic, str) and topic in seen:
            text = f"expected each topic once, got {quoted(topic)} again"
            yield JobFileProblem(positions.value(("source", "topics", index)), text, "remove one")
        seen.add(str(topic))


def _check_template(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Check a table's name with groups of the topic pattern, which stands for several tables."""
    topics = mapping(data, "source").get("topics")
    table = mapping(data, "table", table_kind(data))
    name = table.get("name")
    if not isinstance(name, str) or not groups_in(name):
        return
    path = table_path(positions, "name")
    pattern = pattern_of(topics)
    by_value = "route_by" in data and set(groups_in(name)) == {VALUE_GROUP}
    if isinstance(topics, tuple) and not by_value:
        text = f"expected a plain name for topics that are listed, got {quoted(name)}"
        yield JobFileProblem(
            positions.value(path), text, "write the pattern as text, not as a list"
        )
    for group in missing_groups(name, pattern) if pattern else ():
        text = f"expected groups of the pattern, got {quoted('{' + group + '}')}"
        todo = f"{quoted(str(topics))} has {pattern.groups if pattern else 0}; {{0}} is all of it"
        yield JobFileProblem(positions.value(path), text, todo)
    if "location" in table:
        text = f"expected no location for the tables of {quoted(name)}"
        yield JobFileProblem(positions.key(table_path(positions, "location")), text, "remove it")


def _check_start(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Refuse offsets of a topic that is not read: they would be ignored."""
    topics = mapping(data, "source").get("topics")
    for topic in mapping(data, "source", "start", "offsets"):
        pattern = pattern_of(topics)
        listed = topic in topics if isinstance(topics, tuple) else pattern is None
        if not listed and (pattern is None or not pattern.fullmatch(topic[:MAX_TOPIC_NAME])):
            text = f"expected offsets of topics that are read, got {quoted(topic)}"
            path = ("source", "start", "offsets", topic)
            yield JobFileProblem(positions.key(path), text, "correct the name or remove it")


def _check_event_time(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    users = [path for path, item in _items(data, "table", "partition_by") if "event_time" in item]
    if users and not positions.has(("event_time",)):
        text = "expected an `event_time` block for this partition, got none"
        todo = "add event_time: {field: ..., unit: ms}"
        if mapping(data, "source").get("mode") == "recompute":
            todo = "remove `partition_by`: the columns of `source.unit` are the partition"
        yield JobFileProblem(positions.key((*users[0], "event_time")), text, todo)
    if not users and "event_time" in data and "partition_by" in mapping(data, "table"):
        text = "expected a partition that uses `event_time`, got none"
        yield JobFileProblem(positions.key(("event_time",)), text, "add one or remove the block")
    yield from _check_late(data, positions)
    declared = _declared(data, decoded_path(data))
    block = mapping(data, "event_time")
    field = block.get("field")
    how = [key for key in ("unit", "format") if key in block]
    if field in OWN_FIELDS:
        for key in how:
            text = f"expected no `{key}` for {field}"
            yield JobFileProblem(positions.key(("event_time", key)), text, "remove it")
        return
    if len(how) > 1:
        text = "expected `unit` or `format`, got both"
        yield JobFileProblem(positions.key(("event_time", "format")), text, "remove one")
    if declared is None or not isinstance(field, str) or field.startswith("$"):
        return
    type_text, todo = _follow(declared, field)
    if todo:
        text = f"expected the path of a declared column, got {quoted(field)}"
        yield JobFileProblem(positions.value(("event_time", "field")), text, todo)
    elif type_text is not None:
        yield from _check_event_time_type(data, positions, type_text)


def _check_late(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Check `late`, `reopen_every` and `late_table` against each other and against `ready`."""
    ready, block = mapping(data, "ready"), mapping(data, "event_time")
    waits = "ready" in data and ready.get("visible", "on_ready") == "on_ready"
    if block.get("late") == "reopen" and waits:
        text = "`late: reopen` of partitions that are visible on_ready is not in this version"
        todo = "write late: side_output, or visible: on_commit"
        yield JobFileProblem(positions.value(("event_time", "late")), text, todo, not_yet=True)
    if "reopen_every" in block and block.get("late") != "reopen" and "ready" not in data:
        text = "expected `reopen_every` with a block `ready` or `late: reopen` only"
        todo = "remove it: nothing of this table is announced"
        yield JobFileProblem(positions.key(("event_time", "reopen_every")), text, todo)
    if "late_table" in block and block.get("late") == "dirty":
        text = "expected no `late_table` with `late: dirty`: nothing is put aside"
        todo = "remove it; dirty.store names a table of dirty rows"
        yield JobFileProblem(positions.key(("event_time", "late_table")), text, todo)


def _check_event_time_type(
    data: Mapping[str, Any], positions: Positions, type_text: str
) -> Iterator[JobFileProblem]:
    """Require a unit for a number, and refuse one for a text."""
    units, unit = event_time_units(type_text), mapping(data, "event_time").get("unit")
    if "format" in mapping(data, "event_time"):
        if "iso8601" not in units or is_timestamp(type_text):
            text = f"expected no `format` for the values of {quoted(type_text)}"
            todo = "remove it" if None in units else "write unit: s, ms, us or ns instead"
            yield JobFileProblem(positions.key(("event_time", "format")), text, todo)
        return
    if not units:
        return  # Upper layers know all types and report unreadable ones.
    if unit is None and None not in units:
        text = f"expected `unit` for the numbers of {quoted(type_text)}, got none"
        yield JobFileProblem(positions.key(("event_time",)), text, "add unit: s, ms, us or ns")
    elif isinstance(unit, str) and unit in _UNITS and unit not in units:
        text = f"expected a unit that reads {quoted(type_text)}, got {quoted(unit)}"
        todo = "remove it" if None in units else "write s, ms, us or ns"
        yield JobFileProblem(positions.value(("event_time", "unit")), text, todo)


def _follow(declared: Mapping[str, str | None], field: str) -> tuple[str | None, str]:
    """Type of the value at a path, if known; else what to do about the path."""
    try:
        first, *rest = path_keys(field)
    except ValueError:
        return None, ""  # The model refuses it.
    if len(rest) >= MAX_PATH_KEYS:
        return None, ""  # The model refuses it; following it could take for ever.
    if first.lower() not in declared:
        return None, undeclared(first, declared, quoted(first))
    type_text = declared[first.lower()]
    for name in rest:
        if type_text is None:
            return None, ""
        if struct_field(type_text, name) is None:
            return None, f"{quoted(type_text)} has no field {quoted(name)}"
        type_text = struct_field(type_text, name)
    if type_text is not None and is_nested(type_text):
        return None, f"name one value inside {quoted(field)}"
    return type_text, ""


def _keeps_rows_in_json(formats: Mapping[str, Any]) -> bool:
    """Whether the format is a change log whose messages are JSON, with a row each."""
    return "maxwell" in formats or (
        "debezium" in formats and "registry" not in mapping(formats, "debezium")
    )


def _check_evolution(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Allow new columns only for JSON, whose fields are known, and with a metastore."""
    evolution, path = mapping(data, "table").get("evolution"), ("table", "evolution")
    formats = mapping(data, "format")
    json = formats.get("json")
    typed = evolution == "add_columns" and takes_from_registry(mapping(data, "table"))
    if evolution in ("add_columns", "quarantine"):
        told = evolution == "add_columns" and _keeps_rows_in_json(formats)
        if json is None and not typed and not told:
            also = ", debezium without a registry or maxwell" if evolution == "add_columns" else ""
            text = f"expected the format json{also} with {quoted(evolution)}"
            yield JobFileProblem(positions.value(path), text, "write fail or follow_table")
        elif "unknown_fields" in mapping(json):
            text = f"expected no `unknown_fields` with {quoted(evolution)}, which decides it"
            yield JobFileProblem(
                positions.key(("format", "json", "unknown_fields")), text, "remove it"
            )
    store = mapping(data, "table", "hive").get("connection")
    found = mapping(mapping(data, "connections").get(store) if isinstance(store, str) else None)
    hive = table_kind(data) == HIVE
    if evolution in ("follow_table", "add_columns") and hive and found and "metastore" not in found:
        text = f"expected a metastore connection with {quoted(evolution)}"
        yield JobFileProblem(positions.value(path), text, "write fail or quarantine")
