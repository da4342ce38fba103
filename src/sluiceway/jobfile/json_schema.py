"""The shape of a job file as JSON Schema (draft 7), for editors. Made from the models.

It knows keys, types, words and forms of texts. Only `validate` knows rules that depend on several
keys, on files and on servers. So a file that fits the schema may still be wrong, never the reverse.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AfterValidator, BeforeValidator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from sluiceway.jobfile.blocks.block import Block
from sluiceway.jobfile.blocks.columns import ColumnsFrom, ColumnSpec
from sluiceway.jobfile.blocks.dirty import REASONS, DirtyStoreSpec
from sluiceway.jobfile.blocks.event_time import parse_instant_us
from sluiceway.jobfile.blocks.metastore import check_principal
from sluiceway.jobfile.blocks.models import JobFileBlocks, StartSpec
from sluiceway.jobfile.blocks.retention import duration_text
from sluiceway.jobfile.blocks.table import (
    FROM_SQL,
    KEY_ORIGINS,
    META_NAMES,
    check_time_pattern,
)
from sluiceway.jobfile.blocks.values import (
    LOSSY_RULES,
    BootstrapServers,
    ColumnName,
    JobName,
    LakeName,
    Location,
    Master,
    Option,
    PlainValue,
    Port,
    Secret,
    TableName,
    ThriftUri,
    TimeZone,
    TypeText,
    parse_duration_ms,
    parse_rate_per_s,
    parse_size_bytes,
)
from sluiceway.plugins import plugin_names

Schema = dict[str, Any]

_REFERENCE = r"\$\{(env|file):[^}]+\}"
_DEFINITIONS = "#/definitions/"
_ATTRIBUTE = re.compile(r"^    (\w+): (.+(?:\n     +.+)*)", re.MULTILINE)
_MOST_BYTES = 1 << 30


def job_file_schema() -> Schema:
    """The schema of a job file, with the plug-ins that are installed here."""
    made = _Schemas()
    root = made.block(JobFileBlocks)
    chain = made.chain()
    requirements = made.requirements(JobFileBlocks)
    for name in chain:
        # With `routes` the file's blocks are defaults, and each route fills in missing keys.
        made.definitions[name].pop("required", None)
        made.definitions[name].pop("oneOf", None)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Sluiceway job file",
        "description": "Topics into tables, exactly once. The command `validate` checks the rest.",
        **{key: value for key, value in root.items() if key != "required"},
        "required": ["version", "name", "connections"],
        "if": {"required": ["routes"]},
        "else": requirements,
        "definitions": dict(sorted(made.definitions.items())),
    }


class _Schemas:
    """Collects a definition for each block that occurs."""

    def __init__(self) -> None:
        self.definitions: dict[str, Schema] = {}
        self._blocks: dict[str, type[Block]] = {}

    def block(self, block: type[Block]) -> Schema:
        """A mapping with the keys of a block, and its required keys."""
        plugins = sorted({name for group in block.PLUGINS for name in plugin_names(group)})
        told = _attributes(block)
        properties: Schema = {}
        for name, info in block.model_fields.items():
            key = info.alias or name
            value = self._field(block, key, info)
            inner = _single(info.annotation)
            said = told.get(name) or told.get(key) or ("" if inner is None else _summary(inner))
            properties[key] = {**value, **_said(said)}
            properties[key] |= _default(info, value)
        for name in plugins:
            properties[name] = {"type": "object", "description": "A plug-in and its options."}
        schema: Schema = {
            "type": "object",
            "description": _summary(block),
            "properties": properties,
            "additionalProperties": False if block.NAMED is None else self.reference(block.NAMED),
        }
        required = [
            info.alias or name
            for name, info in block.model_fields.items()
            if info.is_required() and (block.__name__, name) not in _MADE
        ]
        if required:
            schema["required"] = required
        choices = [*block.ONE_OF, *plugins]
        if choices:
            schema["oneOf"] = [{"required": [key]} for key in choices]
        return schema

    def chain(self) -> set[str]:
        """Definitions of blocks right below the file: a route overlays its own over them."""
        found: set[str] = set()
        waiting: list[type[Block]] = [JobFileBlocks]
        while waiting:
            for info in waiting.pop().model_fields.values():
                block = _single(info.annotation)
                if block is not None and block.__name__ not in found and not _replaces(block):
                    found.add(block.__name__)
                    waiting.append(block)
        return found

    def requirements(self, block: type[Block]) -> Schema:
        """What a file without `routes` must have, block by block."""
        schema: Schema = {}
        required, properties = [], {}
        for name, info in block.model_fields.items():
            key = info.alias or name
            if info.is_required() and (block.__name__, name) not in _MADE:
                required.append(key)
            inner = _single(info.annotation)
            if inner is not None and not _replaces(inner):
                below = self.requirements(inner)
                if below:
                    properties[key] = below
        if required:
            schema["required"] = required
        if block.__name__ in _OR_ELSE:
            schema["anyOf"] = _OR_ELSE[block.__name__]
        if properties:
            schema["properties"] = properties
        if block.ONE_OF:
            schema["oneOf"] = [{"required": [key]} for key in block.ONE_OF]
        return schema

    def _field(self, block: type[Block], key: str, info: FieldInfo) -> Schema:
        special = _SPECIAL.get((block.__name__, key))
        if special is not None:
            return special(self)
        found = self._of(info.annotation, tuple(info.metadata))
        if key in block.NULL_WORDS:
            found = {"anyOf": [found, {"type": "null"}]}
        return found

    def _of(self, annotation: Any, metadata: tuple[Any, ...] = ()) -> Schema:
        """The schema of a type; a function that reads a text goes before the type."""
        for one in metadata:
            if isinstance(one, BeforeValidator | AfterValidator) and one.func in _READ_BY:
                return dict(_READ_BY[one.func])
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            return self._of(arguments[0], (*arguments[1:], *metadata))
        if origin in (Union, UnionType):
            return self._union([each for each in arguments if each is not NoneType])
        if origin is Literal:
            words = list(arguments)
            return {"enum": words} if len(words) > 1 else {"const": words[0]}
        if origin is tuple:
            return {"type": "array", "items": self._of(arguments[0])}
        if origin is Mapping:
            return {"type": "object", "additionalProperties": self._of(arguments[1])}
        if isinstance(annotation, type) and issubclass(annotation, Block):
            return self.reference(annotation)
        return {"type": _TYPES[annotation]}

    def _union(self, kinds: list[Any]) -> Schema:
        found: list[Schema] = []
        for kind in kinds:
            schema = self._of(kind)
            if schema not in found:
                found.append(schema)
        return found[0] if len(found) == 1 else {"anyOf": found}

    def reference(self, block: type[Block]) -> Schema:
        """A reference to a block's definition, which the first reference creates."""
        name = block.__name__
        if self._blocks.setdefault(name, block) is not block:
            raise ValueError(f"two blocks are called {name}")
        if name not in self.definitions:
            self.definitions[name] = {}
            self.definitions[name] = self.block(block)
        # Draft 7 ignores all keys next to a reference.
        return {"allOf": [{"$ref": f"{_DEFINITIONS}{name}"}]}


def _single(annotation: Any) -> type[Block] | None:
    """The block that a key holds directly, not in a list and not by name; None for none."""
    if get_origin(annotation) in (Union, UnionType):
        kinds = [each for each in get_args(annotation) if each is not NoneType]
        return _single(kinds[0]) if len(kinds) == 1 else None
    is_block = isinstance(annotation, type) and issubclass(annotation, Block)
    return annotation if is_block else None


def _replaces(block: type[Block]) -> bool:
    """Whether a route's block replaces the file's as a whole: it is one of its kinds."""
    return bool(block.ONE_OF) and set(block.model_fields) <= set(block.ONE_OF)


def _attributes(block: type[Block]) -> dict[str, str]:
    """Field docs from the docstrings of a block and of its base classes."""
    told: dict[str, str] = {}
    for one in reversed(block.__mro__):
        text = one.__dict__.get("__doc__") or ""
        _, _, attributes = inspect.cleandoc(text).partition("Attributes:\n")
        told |= {name: " ".join(said.split()) for name, said in _ATTRIBUTE.findall(attributes)}
    return told


def _summary(block: type[Block]) -> str:
    """The first paragraph of the block's docstring."""
    return inspect.cleandoc(block.__doc__ or "").partition("\n\n")[0].replace("\n", " ")


def _said(description: str) -> Schema:
    return {"description": description} if description else {}


def _default(info: FieldInfo, schema: Schema) -> Schema:
    value = info.default
    if info.is_required() or value is None or value is PydanticUndefined:
        return {}
    if isinstance(value, Block | tuple | Mapping):
        return {}
    if schema.get("pattern") == _DURATION["pattern"]:
        return {"default": duration_text(value)}
    if schema.get("pattern") == _SIZE["pattern"]:
        return {"default": _size_text(value)}
    return {"default": value}


def _size_text(value: int) -> str:
    unit, scale = ("GiB", _MOST_BYTES) if value % _MOST_BYTES == 0 else ("MiB", 1 << 20)
    return f"{value // scale}{unit}"


def _text(pattern: str, *examples: str) -> Schema:
    """A text of a form; a reference may give all of it, or a part."""
    return {
        "type": "string",
        "pattern": f"^(?:{pattern})$|{_REFERENCE}",
        "examples": list(examples),
    }


_DURATION = _text(r"[0-9]{1,9}(?:\.[0-9]{1,6})?(?:ms|s|m|h|d)", "500ms", "10s", "5m", "1h", "1d")
_SIZE = _text("[1-9][0-9]{0,8}(?:KiB|MiB|GiB)", "64KiB", "128MiB", "2GiB")
_RATE = _text("[1-9][0-9]{0,9}/s", "5000/s")
_INSTANT = _text("[0-9]{4}-[0-9]{2}-[0-9]{2}[T ].*(?:Z|[+-][0-9:]{2,8})", "2026-11-20T08:00:00Z")


def _check_of(alias: Any) -> Any:
    """The function that checks texts of an annotated type."""
    return get_args(alias)[1].func


_READ_BY: Mapping[Any, Schema] = {
    parse_duration_ms: _DURATION,
    parse_size_bytes: _SIZE,
    parse_rate_per_s: _RATE,
    parse_instant_us: _INSTANT,
    check_time_pattern: {"type": "string", "examples": ["yyyyMMdd", "yyyy-MM-dd", "HH"]},
    _check_of(JobName): _text("[a-z0-9][a-z0-9_-]{0,63}", "orders"),
    _check_of(ColumnName): _text("[A-Za-z_][A-Za-z0-9_]{0,127}", "order_id"),
    _check_of(TableName): {"type": "string", "examples": ["ods.orders", "ods.app_{1}"]},
    _check_of(LakeName): {"type": "string", "examples": ["ods.orders", "Sales.eu.app-{1}"]},
    check_principal: _text(".+@.+", "etl@EXAMPLE.ORG"),
    _check_of(ThriftUri): _text("thrift://.+:[0-9]+", "thrift://hms:9083"),
    _check_of(BootstrapServers): {"type": "string", "examples": ["k1:9092,k2:9092"]},
    _check_of(TimeZone): {"type": "string", "examples": ["UTC", "Asia/Shanghai"]},
    _check_of(TypeText): {"type": "string", "examples": ["bigint", "string", "decimal(18,2)"]},
    _check_of(Location): {"type": "string", "examples": ["/warehouse/orders", "s3a://bucket/t"]},
    _check_of(Master): {"type": "string", "examples": ["local", "local[4]", "spark://h:7077"]},
    _check_of(Option): {"type": ["string", "number", "boolean"]},
    _check_of(PlainValue): {"type": ["string", "number", "boolean"]},
    _check_of(Port): {"type": "integer", "minimum": 0, "maximum": 65_535},
}
"""Schemas by the function that reads or checks a value."""
_TYPES: Mapping[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    Secret: "string",
}
_WHOLE: Schema = {"type": "integer", "minimum": 0}
_TOPICS: Schema = {
    "anyOf": [
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
        {"type": "string", "examples": ["app_(.*)"]},
    ]
}


def _start(schemas: _Schemas) -> Schema:
    return {"anyOf": [{"enum": ["earliest", "latest"]}, schemas.reference(StartSpec)]}


def _columns(schemas: _Schemas) -> Schema:
    return {
        "anyOf": [
            {"enum": ["from_table", "from_registry", FROM_SQL]},
            {"type": "array", "items": schemas.reference(ColumnSpec), "minItems": 1},
            schemas.reference(ColumnsFrom),
        ]
    }


def _meta(_: _Schemas) -> Schema:
    names = list(META_NAMES)
    return {
        "anyOf": [
            {"type": "array", "items": {"enum": names}, "uniqueItems": True},
            {
                "type": "object",
                "properties": {name: {"type": "string"} for name in names},
                "additionalProperties": False,
            },
        ]
    }


def _store(schemas: _Schemas) -> Schema:
    return {"anyOf": [{"const": "beside"}, schemas.reference(DirtyStoreSpec)]}


_MADE = {
    ("PartitionSpec", "name"),
    ("SourceSpec", "connection"),
    ("SourceSpec", "topics"),
    ("JobFileBlocks", "format"),
}
"""(block, key) of what need not be written everywhere: a transform of a lake table has a name, and
a table that is read goes without topics and a format."""
_OR_ELSE: Mapping[str, list[Schema]] = {
    "SourceSpec": [{"required": ["connection", "topics"]}, {"required": ["table"]}],
    "JobFileBlocks": [
        {"required": ["format"]},
        {"properties": {"source": {"type": "object", "required": ["table"]}}},
    ],
}
"""Block -> what it must have of that."""
_SPECIAL: Mapping[tuple[str, str], Callable[[_Schemas], Schema]] = {
    ("SourceSpec", "topics"): lambda _: dict(_TOPICS),
    ("SourceSpec", "start"): _start,
    ("StartSpec", "timestamp"): lambda _: dict(_INSTANT),
    ("StartSpec", "offsets"): lambda _: {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": dict(_WHOLE),
        },
        "examples": [{"orders": {"0": 12, "1": 5}}],
    },
    ("TableSpec", "columns"): _columns,
    ("TableSpec", "key"): lambda _: {
        "anyOf": [
            {"enum": list(KEY_ORIGINS)},
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
        ]
    },
    ("TableSpec", "meta"): _meta,
    ("SubjectSpec", "version"): lambda _: {
        "anyOf": [{"const": "latest"}, {"type": "integer", "minimum": 1}]
    },
    ("EventTimeSpec", "archive_window"): lambda _: {
        "anyOf": [{"const": "unlimited"}, dict(_DURATION)]
    },
    ("RoomsSpec", "mirrored_first"): lambda _: {"anyOf": [{"type": "boolean"}, dict(_DURATION)]},
    ("DirtySpec", "store"): _store,
    ("DirtySpec", "reasons"): lambda _: {
        "type": "object",
        "propertyNames": {"enum": list(REASONS)},
        "additionalProperties": dict(_WHOLE),
    },
    ("ColumnSpec", "on_lossy"): lambda _: {"enum": [*LOSSY_RULES, None]},
    ("FieldOverride", "on_lossy"): lambda _: {"enum": [*LOSSY_RULES, None]},
    ("RouteEntry", "topics"): lambda _: dict(_TOPICS),
}
"""(block, key) -> schema, for values with a reading function of their own."""
