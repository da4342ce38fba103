"""Formats whose payloads are read by schemas, and their registries, as frozen values."""

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from sluiceway.jobfile.blocks.block import Block
from sluiceway.jobfile.blocks.values import Line, Secret, duration, is_host_port, wrong
from sluiceway.jobfile.references import MAX_SCHEMA_BYTES

_DEFAULT_PORTS = {"http": 80, "https": 443}


def check_registry_url(text: str) -> str:
    """Check the addresses of a schema registry; they must hold no login.

    Raises:
        ValueError: They are no such addresses.
    """
    for one in text.split(","):
        parts = urlsplit(one.strip())
        host = parts.netloc if re.search(r":[0-9]+$", parts.netloc) else f"{parts.netloc}:80"
        plain = not (parts.username or parts.query or parts.fragment or " " in one.strip())
        plain = plain and one.isprintable() and one.isascii()
        if parts.scheme not in _DEFAULT_PORTS or not is_host_port(host) or not plain:
            expected = "`http://host:port` or `https://host:port/path`, several with commas between"
            raise wrong(expected, "write the address without a login; that has keys of its own")
    return text


def _check_schema(text: str) -> str:
    if not text.strip() or len(text.encode()) > MAX_SCHEMA_BYTES:
        raise wrong(
            f"a schema of at most {MAX_SCHEMA_BYTES:,} bytes",
            "write it, or ${file:/path} of a file that holds it",
        )
    return text


RegistryUrl = Annotated[str, AfterValidator(check_registry_url)]
SchemaText = Annotated[str, AfterValidator(_check_schema)]
UnknownWait = Annotated[int, *duration("0s", "5m")]


class SchemaRegistryConnection(Block):
    """How to reach a server with the REST API of the Confluent Schema Registry.

    Attributes:
        url: HTTP address of the registry; several with commas between, the first that answers
            counts.
        username: User of HTTP basic authentication, together with `password`; None sends none.
        password: Password, from a reference such as `${env:NAME}`; None sends none.
        token: Bearer token; None sends none.
        ca_file: PEM file of the authorities to trust, on every worker; None trusts the machine's.
        certificate_file: PEM file of the client's certificate, with `key_file`; None sends none.
        key_file: PEM file of its key; None without one.
    """

    url: RegistryUrl
    username: Line | None = None
    password: Secret | None = None
    token: Secret | None = None
    ca_file: Line | None = None
    certificate_file: Line | None = None
    key_file: Line | None = None


class AvroFormat(Block):
    """Avro records. Exactly one of `registry`, `schema` and `schemas` is given.

    Attributes:
        registry: Name of the connection to a schema registry; payloads are in Confluent's wire
            format. None with another key.
        schema_text: The one schema of all payloads, which are bare records; None with another key.
        schemas: Schemas of payloads in Avro's single-object encoding; None with another key.
        tombstones: What happens to records without a value.
        unknown_wait_ms: How long a task waits for a schema id that the registry does not know.
    """

    ONE_OF = ("registry", "schema", "schemas")
    registry: Line | None = None
    schema_text: SchemaText | None = Field(default=None, alias="schema")
    schemas: tuple[SchemaText, ...] | None = None
    tombstones: Literal["skip", "dirty"] = "dirty"
    unknown_wait_ms: UnknownWait = Field(default=30_000, alias="unknown_schema_wait")


class ProtobufFormat(Block):
    """Protobuf messages. Exactly one of `registry`, `descriptor_set` and `schema` is given.

    Attributes:
        registry: Name of a schema registry's connection; payloads are in Confluent's wire format.
            None with another key.
        descriptor_set: Descriptor file of protoc on the driver's machine; None with another key.
        schema_text: Text of a `.proto` file; None with another key.
        message: Full name of the message; None: the message that the registry or schema names.
        tombstones: What happens to records without a value.
        unknown_wait_ms: How long a task waits for a schema id that the registry does not know.
    """

    ONE_OF = ("registry", "descriptor_set", "schema")
    registry: Line | None = None
    descriptor_set: Line | None = None
    schema_text: SchemaText | None = Field(default=None, alias="schema")
    message: Line | None = None
    tombstones: Literal["skip", "dirty"] = "dirty"
    unknown_wait_ms: UnknownWait = Field(default=30_000, alias="unknown_schema_wait")
