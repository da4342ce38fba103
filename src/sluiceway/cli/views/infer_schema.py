"""The `columns` block of a schema: of a subject, of a file, or of a job file's format."""

from pathlib import Path
from typing import TYPE_CHECKING

from sluiceway.cli.views.proposal_trial import refused
from sluiceway.cli.views.proposed_columns import column_line, columns_text
from sluiceway.errors import SchemaRegistryRefusedError, WrongUsageError
from sluiceway.formats.avro.columns import avro_columns
from sluiceway.formats.json.schema_columns import json_schema_columns
from sluiceway.formats.options import AVRO_SCHEMA, AVRO_SCHEMAS, PROTOBUF_MESSAGE
from sluiceway.formats.protobuf.columns import message_columns, proto_columns
from sluiceway.formats.protobuf.decoder import given_schema
from sluiceway.formats.protobuf.descriptor_set import read_descriptor_set
from sluiceway.formats.protobuf.schema import MAX_SCHEMA_BYTES, ProtobufSchemaError
from sluiceway.formats.record_keys import subject_columns
from sluiceway.formats.schema_columns import NoColumnsError
from sluiceway.formats.schema_registry.client import RegistryClient
from sluiceway.formats.schema_registry.settings import RegistrySettings
from sluiceway.jobfile.blocks.schema_formats import check_registry_url
from sluiceway.jobfile.compile.schema_formats import named_registry
from sluiceway.route.registry_columns import read_subject
from sluiceway.types.hive_types import format_hive_type

if TYPE_CHECKING:
    from sluiceway.formats.schema_columns import SchemaColumn
    from sluiceway.formats.schema_registry.client import SubjectVersion
    from sluiceway.jobfile.blocks.models import RouteSpec
    from sluiceway.jobfile.compile.config import RouteConfig

DESCRIPTOR_SUFFIXES = (".desc", ".pb", ".binpb", ".protoset")
SCHEMA_SUFFIXES = (".avsc", ".proto", ".schema.json", *DESCRIPTOR_SUFFIXES)


def subject_block(url: str, subject: str, version: int | None, message: str | None) -> str:
    """The block of a subject, from a registry without a login.

    Raises:
        SchemaRegistryUnavailableError: The registry does not answer.
        SchemaRegistryRefusedError: It refuses, or does not know the subject.
        WrongUsageError: It is no schema of rows.
    """
    try:
        check_registry_url(url)
    except ValueError as error:
        # A text that is no such address may hold a password, and is not repeated.
        raise WrongUsageError(
            "--registry is no address of a registry without a login",
            hint="--registry http://HOST:PORT/PATH; for a login name a job file: `infer JOB`",
        ) from error
    found = RegistryClient(RegistrySettings(url)).of_subject(subject, version)
    if found is None:
        told = "" if version is None else f" version {version}"
        raise SchemaRegistryRefusedError(
            f"the schema registry does not know the subject {subject}{told}",
            where=url,
            hint="is it the subject's whole name? That of a topic's values ends in -value",
        )
    return _of_subject(found, message)


def file_block(path: Path, message: str | None) -> str:
    """The block of a file that holds a schema.

    Raises:
        WrongUsageError: It cannot be read, or is no schema of rows.
    """
    try:
        data = path.read_bytes()[: MAX_SCHEMA_BYTES + 1]
        return _block(path.name, _of_file(path.name, data, message))
    except OSError as error:
        raise WrongUsageError(f"{path} cannot be read: {error.strerror}") from error
    except (NoColumnsError, ProtobufSchemaError, UnicodeDecodeError) as error:
        raise WrongUsageError(f"{path}: {error}") from error


def route_block(spec: "RouteSpec", config: "RouteConfig", message: str | None) -> str | None:
    """The block of the schema that a route's format reads by; None when it reads without one.

    Raises:
        SluicewayError: As `subject_block`.
    """
    if named_registry(spec) is not None:
        wanted = spec.table.subject
        named = message or (None if wanted is None else wanted.message)
        return _of_subject(read_subject(spec, config.topics), named)
    options = dict(config.format.options)
    try:
        if config.format.name == "avro":
            # Of several schemas the last one is the newest, by custom.
            of = (AVRO_SCHEMA, AVRO_SCHEMAS)
            *_, newest = (text for name, text in options.items() if name.startswith(of))
            return _block("the job file's schema", avro_columns(newest, meant=True))
        if config.format.name == "protobuf":
            named = message or options[PROTOBUF_MESSAGE]
            return _block(named, message_columns(given_schema(options), named, meant=True))
    except (NoColumnsError, ValueError) as error:
        raise WrongUsageError(f"the job file's schema: {error}") from error
    return None


def _of_file(name: str, data: bytes, message: str | None) -> "tuple[SchemaColumn, ...]":
    if name.endswith(DESCRIPTOR_SUFFIXES):
        return message_columns(read_descriptor_set(data), message, meant=True)
    text = data.decode("utf-8")
    if name.endswith(".proto"):
        return proto_columns(text, message, meant=True)
    of_schema = avro_columns if name.endswith(".avsc") else json_schema_columns
    return of_schema(text, meant=True)


def _of_subject(found: "SubjectVersion", message: str | None) -> str:
    try:
        return _block(
            f"{found}, {found.schema.kind}", subject_columns(found.schema, message, meant=True)
        )
    except NoColumnsError as error:
        raise WrongUsageError(f"the subject {found}: {error}") from error


def _block(name: str, columns: "tuple[SchemaColumn, ...]") -> str:
    return columns_text([name], [_that_works(column) for column in columns])


def _that_works(column: "SchemaColumn") -> str:
    """The column's line; a comment where no job file can have the column."""
    line = _line(column)
    problem = refused(line)
    return column_line(column.name, "", [f"DOUBT: {problem}"]) if problem else line


def _line(column: "SchemaColumn") -> str:
    notes = [f"DOUBT: {note}" for note in column.notes]
    settings = ["timezone: UTC"] if column.is_clock else []
    if column.misnamed:
        return column_line(column.name, "", [f"DOUBT: {column.misnamed}"])
    if column.type is not None:
        return column_line(column.name, format_hive_type(column.type), notes, settings)
    if column.as_text:
        doubt = f"DOUBT: {column.refused}; kept as text"
        return column_line(column.name, "string", [doubt], as_text=True)
    return column_line(column.name, "", [f"DOUBT: {column.refused}"])
