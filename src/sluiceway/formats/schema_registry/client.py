"""The calls of the Confluent Schema Registry's REST API that reading needs, over HTTP.

No redirects, no proxies: credentials go to the address in the job file and nowhere else.
"""

import base64
import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from sluiceway.errors import SchemaRegistryRefusedError, SchemaRegistryUnavailableError
from sluiceway.formats.schema_registry.frame import guid_of
from sluiceway.formats.schema_registry.settings import RegistrySettings
from sluiceway.host.http import HttpClient

TIMEOUT_S = 10.0
MAX_ANSWER_BYTES = 16 * 1024 * 1024
MAX_REFERENCES = 1000
MAX_REFERENCE_DEPTH = 100

# Error codes for a subject, a version and a schema that the registry does not have.
_UNKNOWN = (40401, 40402, 40403)
_OK, _NOT_FOUND, _SERVER_ERROR = 200, 404, 500
_TRY_LATER = (408, 425, 429)
_GUIDS = "/schemas/guids/"
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema in a registry.

    Attributes:
        kind: `AVRO`, `PROTOBUF` or `JSON`.
        text: The schema.
        references: Name and text of the schemas that it uses, dependencies first.
    """

    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()

    @property
    def resolved(self) -> dict[str, str]:
        """The references by name, as registries resolve them: of several versions the first."""
        found: dict[str, str] = {}
        for name, text in self.references:
            found.setdefault(name, text)
        return found


@dataclass(frozen=True, slots=True)
class SubjectVersion:
    """A version of a subject."""

    subject: str
    version: int
    schema: RegisteredSchema

    def __str__(self) -> str:
        return f"{self.subject} version {self.version}"


class RegistryClient:
    """Client of a registry. Keeps one connection per address; used by one thread at a time.

    Args:
        settings: The registry.
        timeout_s: Longest wait for one step of a call, in seconds.

    Raises:
        SchemaRegistryRefusedError: A file of certificates cannot be used.
    """

    def __init__(self, settings: RegistrySettings, *, timeout_s: float = TIMEOUT_S) -> None:
        self._settings = settings
        tls = _tls_context(settings)
        self._http = HttpClient(timeout_s, tls=tls, most_bytes=MAX_ANSWER_BYTES)

    def schema_of_id(self, number: int) -> RegisteredSchema | None:
        """The schema of an id or a GUID, and the schemas that it refers to.

        Args:
            number: Number from `confluent_frame`.

        Returns:
            None when the registry does not know the id.

        Raises:
            SchemaRegistryUnavailableError: It does not answer now.
            SchemaRegistryRefusedError: It answers and refuses, or is no registry.
        """
        guid = guid_of(number)
        found = self._get(f"/schemas/ids/{number}" if guid is None else f"{_GUIDS}{guid}")
        return None if found is None else self._with_references(found)

    def of_subject(self, subject: str, version: int | None = None) -> SubjectVersion | None:
        """A version of a subject; None when the registry does not know the subject or version.

        Args:
            subject: Its name.
            version: From 1 up; None is the newest.

        Raises:
            SchemaRegistryUnavailableError: It does not answer now.
            SchemaRegistryRefusedError: It answers and refuses, or is no registry.
        """
        wanted = "latest" if version is None else version
        found = self._get(f"/subjects/{quote(subject, safe='')}/versions/{wanted}")
        if found is None:
            return None
        number = found.get("version")
        if type(number) is not int or version not in (None, number):
            raise SchemaRegistryRefusedError(
                f"the schema registry does not say which version of {subject} it answers with",
                where=self._where(),
                hint="is schema_registry.url a schema registry?",
            )
        return SubjectVersion(subject, number, self._with_references(found))

    def _with_references(self, found: Mapping[str, Any]) -> RegisteredSchema:
        references: dict[tuple[str, ...], tuple[str, str]] = {}
        self._add_references(found, references, above=())
        kind = str(found.get("schemaType", "AVRO"))
        return RegisteredSchema(kind, _text(found), tuple(references.values()))

    def _add_references(
        self,
        holder: Mapping[str, Any],
        references: dict[tuple[str, ...], tuple[str, str]],
        *,
        above: tuple[tuple[str, ...], ...],
    ) -> None:
        listed = holder.get("references") or []
        if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
            raise SchemaRegistryRefusedError(
                "the schema registry does not say what a schema refers to",
                where=self._where(),
                hint="is schema_registry.url a schema registry?",
            )
        for one in listed:
            name = str(one.get("name"))
            subject, version = str(one.get("subject")), str(one.get("version"))
            key = (name, subject, version)
            if key in references or key in above:
                continue
            if len(references) + len(above) > MAX_REFERENCES:
                raise SchemaRegistryRefusedError(
                    f"a schema refers to more than {MAX_REFERENCES} others", where=self._where()
                )
            if len(above) > MAX_REFERENCE_DEPTH:
                raise SchemaRegistryRefusedError(
                    f"schemas refer to each other more than {MAX_REFERENCE_DEPTH} levels deep",
                    where=self._where(),
                )
            path = f"/subjects/{quote(subject, safe='')}/versions/{quote(version, safe='')}"
            found = self._get(path)
            if found is None:
                raise SchemaRegistryRefusedError(
                    f"a schema refers to {subject} version {version}, which is not there",
                    where=self._where(),
                    hint="register it, or restore what was deleted",
                )
            self._add_references(found, references, above=(*above, key))
            references[key] = (name, _text(found))

    def _get(self, path: str) -> Mapping[str, Any] | None:
        """Ask the addresses in turn; None where the registry does not know the path."""
        failure: Exception | None = None
        for url in self._settings.urls:
            try:
                status, body = self._http.get(f"{url}{path}", self._headers())
            except ssl.SSLCertVerificationError as error:
                why = error.verify_message
                raise SchemaRegistryRefusedError(
                    f"the certificate of the schema registry is not trusted: {why}",
                    where=url,
                    hint="name its authority: schema_registry.ca_file",
                ) from error
            except (OSError, http.client.HTTPException) as error:
                failure = error
                continue
            if status >= _SERVER_ERROR or status in _TRY_LATER:
                failure = ConnectionError(f"HTTP {status}: {_reason(body)}")
                continue
            return self._answer(url, path, status, body)
        detail = f"{type(failure).__name__}: {failure}" if failure else "no address"
        raise SchemaRegistryUnavailableError(
            f"the schema registry does not answer: {detail[:200]}",
            where=self._where(),
            hint="rows are read again when it does; none of them is dirty for that",
        )

    def _answer(self, url: str, path: str, status: int, body: bytes) -> Mapping[str, Any] | None:
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            found = None
        known = isinstance(found, dict)
        # Registries that are older than GUIDs do not know the path either.
        if status == _NOT_FOUND and known and (_is_unknown(found) or path.startswith(_GUIDS)):
            return None
        if status == _OK and known and isinstance(found.get("schema"), str):
            return dict(found)
        hints = {
            401: "it wants a login: schema_registry.username and password, or token",
            403: "the login has no right to read schemas",
            404: "is the path of schema_registry.url the registry's?",
        }
        raise SchemaRegistryRefusedError(
            f"the schema registry answers HTTP {status}: {_reason(body)}",
            where=url,
            hint=hints.get(status, "is schema_registry.url a schema registry?"),
        )

    def _headers(self) -> dict[str, str]:
        settings = self._settings
        headers = {"Accept": _ACCEPT}
        if settings.token:
            headers["Authorization"] = f"Bearer {settings.token}"
        elif settings.username:
            login = f"{settings.username}:{settings.password}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(login).decode('ascii')}"
        return headers

    def _where(self) -> str:
        return ", ".join(self._settings.urls)


def _text(found: Mapping[str, Any]) -> str:
    return str(found["schema"])


def _is_unknown(found: Mapping[str, Any]) -> bool:
    """Whether the answer is a registry's: other servers answer 404 too."""
    return found.get("error_code") in _UNKNOWN


def _reason(body: bytes) -> str:
    return ascii(body[:120].decode("utf-8", "replace"))


def _tls_context(settings: RegistrySettings) -> ssl.SSLContext | None:
    if not any(url.startswith("https://") for url in settings.urls):
        return None
    try:
        context = ssl.create_default_context(cafile=settings.ca_file or None)
        if settings.certificate_file:
            context.load_cert_chain(settings.certificate_file, settings.key_file or None)
    except (OSError, ValueError) as error:
        raise SchemaRegistryRefusedError(
            f"a certificate for the schema registry cannot be used: {error}",
            where=", ".join(settings.urls),
            hint="check ca_file, certificate_file and key_file on this machine",
        ) from error
    return context
