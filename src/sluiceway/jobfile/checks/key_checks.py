"""Rules for tables with a key: required settings, and settings without a meaning."""

from collections.abc import Iterator, Mapping
from typing import Any

from sluiceway.jobfile.blocks.block import mapping
from sluiceway.jobfile.blocks.table import FROM_REGISTRY, KEY_ORIGINS, KEYS_OF_ONE_COLUMN
from sluiceway.jobfile.blocks.table_target import ICEBERG, table_kind
from sluiceway.jobfile.positions import Path, Positions
from sluiceway.jobfile.problems import JobFileProblem, quoted, undeclared

_NO_KEYS = ("float", "double", "array", "map", "struct", "binary", "boolean")


def key_column_problems(name: str, column: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Why a declared column cannot be in a key, and what to do; nothing where it can.

    Args:
        name: Name of the column in the key.
        column: The written keys of its declaration.
    """
    kind = str(column.get("type", "")).strip().lower()
    if kind.startswith(_NO_KEYS):
        text = f"expected a key of whole numbers, decimals, texts or times, got {quoted(kind)}"
        yield text, "choose the columns of the database's primary key"
    for made in ("expression", "constant", "default"):
        if made in column:
            text = f"expected a key column as the source has it, {quoted(name)} has `{made}`"
            yield text, "choose a column that is read from the row"


_KEY: Path = ("table", "key")
_ON_TRUNCATE: Path = ("table", "on_truncate")
_CANAL_TABLE: Path = ("format", "canal", "table")
_KEY_FORMAT: Path = ("table", "key_format")
_ONLY_WITH_KEY = ("key_order", "key_order_wait", "key_format", "on_truncate")
_CHANGE_LOGS = ("debezium", "maxwell", "canal")
_ROWS = ("json", "csv", "avro", "protobuf")
"""Formats whose payload is a whole row."""
_NEEDED_META = ("partition", "offset")
_MEANINGLESS: tuple[tuple[Path, str], ...] = (
    (("ready",), "a row may change at any time, so no hour of it is ever complete"),
    (("event_time",), "the log's order decides, and no change is late"),
)


def check_key(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Refuse invalid keys. Called once a route and load.

    Args:
        data: The file as plain data; may be of the wrong shape.
        positions: Positions in the file.
    """
    table = mapping(data, "table")
    if "key" not in table:
        for name in _ONLY_WITH_KEY:
            if name in table:
                text = f"expected `{name}` with `key` only"
                yield JobFileProblem(
                    positions.key(("table", name)), text, "remove it, or name the key"
                )
        if positions.has(_CANAL_TABLE):
            text = "expected `table` of canal with `table.key` only"
            yield JobFileProblem(positions.key(_CANAL_TABLE), text, "remove it, or name the key")
        return
    if table_kind(data) != ICEBERG:
        text = "expected `key` in tables of the kind iceberg only"
        yield JobFileProblem(positions.key(_KEY), text, "remove it, or write table.iceberg")
        return
    for path, why in _MEANINGLESS:
        if positions.has(path):
            text = f"expected no `{path[0]}` with `key`: {why}"
            yield JobFileProblem(positions.key(path), text, "remove it")
    yield from _check_format(data, positions)
    yield from _check_key_format(data, positions)
    yield from _check_key_origin(data, positions)
    yield from _check_truncate(data, positions)
    yield from _check_meta(data, positions)
    yield from _check_columns(table, positions)
    yield from _check_partitions(table, positions)


def _check_format(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    named = mapping(data, "format")
    if "canal" in named and mapping(data, "table").get("key_order", "by_key") == "by_key":
        text = "expected a `key_order` with the format canal, whose records have no key"
        todo = "write one_partition, or by_partition with canal.mq.partitionHash by the key"
        yield JobFileProblem(positions.key(_KEY), text, todo)
    for name in named:
        if name in (*_CHANGE_LOGS, *_ROWS):
            continue
        text = f"`key` with the format {name}"
        known = ", ".join((*_CHANGE_LOGS, *_ROWS))
        todo = f"write one of {known}, or remove `key` to keep all rows"
        mark = positions.key(("format", name))
        yield JobFileProblem(mark, f"{text} is not in this version", todo, not_yet=True)


def _check_key_format(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Allow a key format only where record keys are read and their format is not known."""
    table, formats = mapping(data, "table"), mapping(data, "format")
    if "key_format" not in table:
        return
    at, told = positions.value(_KEY_FORMAT), table["key_format"]
    for name in _CHANGE_LOGS:
        if name in formats:
            text = f"expected no `key_format` with the format {name}, whose keys are known"
            yield JobFileProblem(positions.key(_KEY_FORMAT), text, "remove it")
    if table.get("key_order", "by_key") != "by_key":
        text = f"expected no `key_format` with `key_order: {table['key_order']}`"
        todo = "remove it: the records' own keys are not looked at"
        yield JobFileProblem(positions.key(_KEY_FORMAT), text, todo)
    if told == "registry" and not _names_registry(formats):
        text = "expected `registry` in the format with `key_format: registry`"
        yield JobFileProblem(at, text, "name one, or write json or text")
    key, bare = table.get("key"), KEYS_OF_ONE_COLUMN.get(told)
    if bare is not None and not (isinstance(key, tuple) and len(key) == 1):
        text = f"expected one column in `key` with `key_format: {told}`, which is {bare}"
        yield JobFileProblem(at, text, "list it: key: [id]")


def _names_registry(formats: Mapping[str, Any]) -> bool:
    return any("registry" in mapping(formats, name) for name in ("debezium", *_ROWS))


def _check_key_origin(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Require that the key's source knows its columns."""
    announcer, formats = mapping(data, "table").get("key"), mapping(data, "format")
    if announcer not in KEY_ORIGINS:
        return
    at, todo = positions.value(_KEY), "list the columns: key: [id]"
    if "canal" in formats:
        yield JobFileProblem(
            at, f"expected columns, not {announcer}: records of canal have no key", todo
        )
    elif announcer == FROM_REGISTRY and not _names_registry(formats):
        name = next(iter(formats), "debezium")
        text = f"expected `registry` in the format {name} with `key: from_registry`"
        yield JobFileProblem(at, text, f"name one, write from_topic_key, or {todo}")
    elif announcer == FROM_REGISTRY and mapping(data, "table").get("key_format") == "json":
        text = "expected no `key_format: json` with `key: from_registry`, which knows no such key"
        yield JobFileProblem(at, text, f"write from_topic_key, or {todo}")


def _check_truncate(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Require an order of truncates: each is ordered only within its own source partition."""
    table, formats = mapping(data, "table"), mapping(data, "format")
    if table.get("on_truncate") != "apply":
        return
    at = positions.value(_ON_TRUNCATE)
    topics = mapping(data, "source").get("topics")
    if table.get("key_order") != "one_partition" or not _is_one(topics):
        text = "expected one topic and `key_order: one_partition` with `on_truncate: apply`"
        yield JobFileProblem(
            at, text, "changes of other source partitions have no order with a truncate"
        )
    for name in ("maxwell", *_ROWS):
        if name in formats:
            text = f"expected no `on_truncate: apply` with the format {name}, which sends none"
            yield JobFileProblem(at, text, "remove it")
    if "canal" in formats and "table" not in mapping(formats, "canal"):
        text = "expected `table` of canal with `on_truncate: apply`"
        todo = "name it: a topic of Canal may have changes of other tables"
        yield JobFileProblem(at, text, todo)


def _is_one(topics: object) -> bool:
    return isinstance(topics, tuple) and len(topics) == 1


def _check_meta(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    meta = mapping(data, "table").get("meta", ())
    held = set(meta) if isinstance(meta, (Mapping, tuple)) else set()
    needed = [*_NEEDED_META]
    topics = mapping(data, "source").get("topics")
    if not isinstance(topics, tuple) or len(topics) > 1:
        needed.insert(0, "topic")
    lacking = [name for name in needed if name not in held]
    if lacking:
        text = f"expected {', '.join(needed)} in `meta` with `key`, {lacking[0]} is missing"
        at = positions.key(("table", "meta")) if "meta" in mapping(data, "table") else None
        yield JobFileProblem(at or positions.key(_KEY), text, "they say which change a row is from")


def _check_columns(table: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    key = table.get("key")
    columns = table.get("columns")
    names = [name for name in key if isinstance(name, str)] if isinstance(key, tuple) else []
    declared: dict[str, Mapping[str, Any]] | None = None
    if isinstance(columns, tuple):
        declared = {
            str(column.get("name")).lower(): column
            for column in columns
            if isinstance(column, Mapping)
        }
    for index, name in enumerate(names):
        at = positions.value((*_KEY, index))
        if name.lower() in [each.lower() for each in names[:index]]:
            yield JobFileProblem(at, f"expected {quoted(name)} once", "remove the second one")
        if declared is None:
            continue
        column = declared.get(name.lower())
        if column is None:
            text = f"expected a declared column, got {quoted(name)}"
            yield JobFileProblem(at, text, undeclared(name, declared))
            continue
        for text, todo in key_column_problems(name, column):
            yield JobFileProblem(at, text, todo)


def _check_partitions(table: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    parts = table.get("partition_by")
    for index, part in enumerate(parts if isinstance(parts, tuple) else ()):
        if isinstance(part, Mapping) and "column" not in part:
            text = "expected partitions by columns with `key`: a change has no partition else"
            at = positions.key(("table", "partition_by", index))
            yield JobFileProblem(at, text, "write {column: NAME, transform: ...}")
