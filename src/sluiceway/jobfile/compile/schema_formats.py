"""Options of formats with schemas, as texts that can be sent to the workers."""

import base64
from pathlib import Path
from typing import NamedTuple

from sluiceway.errors import JobFileError
from sluiceway.formats.options import (
    AVRO_CONNECT,
    AVRO_SCHEMA,
    AVRO_SCHEMAS,
    MAX_PROTOBUF_BYTES,
    PROTOBUF_CONNECT,
    PROTOBUF_DESCRIPTOR_SET,
    PROTOBUF_MESSAGE,
    PROTOBUF_SCHEMA,
)
from sluiceway.formats.registry import FormatChoice
from sluiceway.formats.schema_registry.settings import RegistrySettings
from sluiceway.jobfile.blocks.formats import DebeziumFormat, JsonFormat
from sluiceway.jobfile.blocks.models import RouteSpec
from sluiceway.jobfile.blocks.schema_formats import AvroFormat, ProtobufFormat
from sluiceway.jobfile.blocks.table import KeyFormat
from sluiceway.jobfile.blocks.values import revealed

Options = tuple[tuple[str, str], ...]

_UNKNOWN_WAIT_MS = 30_000


def avro_options(spec: RouteSpec, avro: AvroFormat) -> Options:
    """The options of `formats.avro.decoder.open_avro`.

    Raises:
        JobFileError: The spec was not made by the loader and names no such connection.
    """
    told: dict[str, str] = {"tombstones": avro.tombstones}
    if avro.registry is not None:
        told |= registry_options(spec, avro.registry, avro.unknown_wait_ms)
    if avro.schema_text is not None:
        told[AVRO_SCHEMA] = avro.schema_text
    for number, text in enumerate(avro.schemas or ()):
        told[f"{AVRO_SCHEMAS}{number}"] = text
    return tuple(told.items())


def debezium_options(spec: RouteSpec, debezium: DebeziumFormat) -> Options:
    """The options of the format debezium; with a registry, they name the payloads' encoding."""
    told: dict[str, str] = {
        "other_messages": debezium.other_messages,
        "tombstones": debezium.tombstones,
    }
    if debezium.registry is not None:
        told |= registry_options(spec, debezium.registry, debezium.unknown_wait_ms)
        if debezium.encoding != "avro":
            told["encoding"] = debezium.encoding
    return tuple(told.items())


def record_keys(spec: RouteSpec) -> FormatChoice | None:
    """How to read records' own keys with a registry's schemas; None for all other keys."""
    debezium = spec.format.debezium
    if spec.format.rows_block is not None:
        return _keys_as_values(spec) if key_format(spec) == "registry" else None
    if debezium is None or debezium.registry is None:
        return None
    told = registry_options(spec, debezium.registry, debezium.unknown_wait_ms)
    mark = AVRO_CONNECT if debezium.encoding == "avro" else PROTOBUF_CONNECT
    return FormatChoice(debezium.encoding, tuple({mark: "true", **told}.items()))


def key_format(spec: RouteSpec) -> KeyFormat:
    """The format of records' own keys, for payloads that are whole rows."""
    return spec.table.key_format or ("json" if spec.format.registry is None else "registry")


def key_registry(spec: RouteSpec) -> str | None:
    """The connection of the registry for the records' keys; None for none."""
    plain = spec.format.rows_block is not None and key_format(spec) != "registry"
    return None if plain else spec.format.registry


def _keys_as_values(spec: RouteSpec) -> FormatChoice:
    """Read keys in the values' format, with the same registry."""
    if spec.format.avro is not None:
        return FormatChoice("avro", avro_options(spec, spec.format.avro))
    if spec.format.protobuf is not None:
        return FormatChoice("protobuf", protobuf_options(spec, spec.format.protobuf))
    if spec.format.json_ is None or spec.format.json_.registry is None:
        raise JobFileError("format names no schema registry", where="table.key_format")
    return FormatChoice("json", _json_frame(spec, spec.format.json_.registry))


def json_options(spec: RouteSpec, json: JsonFormat) -> Options:
    """The options of `formats.json`.

    Raises:
        JobFileError: The spec was not made by the loader and names no such connection.
    """
    told = {name: str(value) for name, value in json if value is not None and name != "registry"}
    framed = () if json.registry is None else _json_frame(spec, json.registry)
    return (*told.items(), *framed)


def _json_frame(spec: RouteSpec, registry: str) -> Options:
    """JSON after a schema's id: only the schema has Kafka Connect's meaning of values."""
    return ("frame", "confluent"), *registry_options(spec, registry, _UNKNOWN_WAIT_MS).items()


def protobuf_options(spec: RouteSpec, protobuf: ProtobufFormat) -> Options:
    """The options of `formats.protobuf.decoder.open_protobuf`.

    Raises:
        JobFileError: The descriptor set cannot be read.
    """
    told: dict[str, str] = {"tombstones": protobuf.tombstones}
    if protobuf.registry is not None:
        told |= registry_options(spec, protobuf.registry, protobuf.unknown_wait_ms)
    if protobuf.descriptor_set is not None:
        data = _descriptor_set(Path(protobuf.descriptor_set))
        told[PROTOBUF_DESCRIPTOR_SET] = base64.b64encode(data).decode("ascii")
    if protobuf.schema_text is not None:
        told[PROTOBUF_SCHEMA] = protobuf.schema_text
    if protobuf.message is not None:
        told[PROTOBUF_MESSAGE] = protobuf.message
    return tuple(told.items())


def _descriptor_set(path: Path) -> bytes:
    where = f"format.protobuf.descriptor_set: {path}"
    try:
        if not path.is_file() or path.stat().st_size > MAX_PROTOBUF_BYTES:
            raise JobFileError(
                f"expected a file of at most {MAX_PROTOBUF_BYTES} bytes",
                where=where,
                hint="write it: protoc --include_imports --descriptor_set_out=FILE",
            )
        return path.read_bytes()
    except OSError as error:
        raise JobFileError(
            f"expected a file that can be read: {error.strerror}",
            where=where,
            hint="check its permissions",
        ) from error


class NamedRegistry(NamedTuple):
    """The registry with the schemas of a route's payloads.

    Attributes:
        format: Name of the format.
        connection: Connection to the registry, as in the job file.
    """

    format: str
    connection: str


def named_registry(spec: RouteSpec) -> NamedRegistry | None:
    """The registry that a route's format names; None without one."""
    formats = {
        "avro": spec.format.avro,
        "protobuf": spec.format.protobuf,
        "json": spec.format.json_,
    }
    for name, block in formats.items():
        if block is not None and block.registry is not None:
            return NamedRegistry(name, block.registry)
    return None


def registry_options(spec: RouteSpec, name: str, unknown_wait_ms: int) -> dict[str, str]:
    """A connection to a schema registry as options of a format.

    Raises:
        JobFileError: The spec was not made by the loader and names no such connection.
    """
    return registry_settings(spec, name, unknown_wait_ms).options()


def registry_settings(spec: RouteSpec, name: str, unknown_wait_ms: int = 0) -> RegistrySettings:
    """How to reach a schema registry of the job file.

    Raises:
        JobFileError: The spec was not made by the loader and names no such connection.
    """
    connection = spec.connections.get(name)
    if connection is None or connection.schema_registry is None:
        raise JobFileError(f"format names no schema_registry connection: {name}")
    found = {key: revealed(value) for key, value in connection.schema_registry if value is not None}
    return RegistrySettings(**found, unknown_wait_ms=str(unknown_wait_ms))
