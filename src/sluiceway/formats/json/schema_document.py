"""JSON Schema documents: texts -> nodes, which refer to each other by `$ref`.

Source: JSON Schema draft 2020-12, core, section 8; `definitions` come from draft-07.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from sluiceway.formats.schema_columns import NoColumnsError

MAX_SCHEMA_CHARS = 4 * 1024 * 1024

Node = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SchemaPlace:
    """A schema, and the document that contains it.

    Attributes:
        node: The schema; `True` accepts any value, `False` none.
        document: Address of the document, the base of its references.
    """

    node: Any
    document: str


@dataclass(slots=True)
class Documents:
    """A schema and the schemas that it refers to, by address."""

    _by_address: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(
        cls, text: str, others: Iterable[tuple[str, str]] = ()
    ) -> "tuple[Documents, SchemaPlace]":
        """Read a schema.

        Args:
            text: Text of the schema.
            others: Addresses and texts of schemas that it refers to.

        Raises:
            NoColumnsError: A text is no JSON.
        """
        found = cls()
        for name, other in others:
            document = _load(other)
            found._by_address[name] = document
            found._by_address[_address(document, name)] = document
        document = _load(text)
        address = _address(document, "")
        found._by_address[address] = document
        return found, SchemaPlace(document, address)

    def refer(self, place: SchemaPlace, reference: str) -> SchemaPlace | None:
        """The target of a `$ref`; None when there is none.

        Args:
            place: Where the reference stands.
            reference: Its text: an address, a pointer after `#`, or both.
        """
        try:
            address, pointer = urldefrag(reference)
            if address and address not in self._by_address:
                address = urljoin(place.document, address)
        except ValueError:
            return None
        if not address:
            address = place.document
        if address not in self._by_address:
            return None
        node = self._by_address[address]
        for step in unquote(pointer).split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(node, dict) or key not in node:
                return None
            node = node[key]
        if pointer and not pointer.startswith("/"):
            return None
        return SchemaPlace(node, address)


def _load(text: str) -> Any:
    if len(text) > MAX_SCHEMA_CHARS:
        raise NoColumnsError(f"the schema has more than {MAX_SCHEMA_CHARS} characters")
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except ValueError as error:
        raise NoColumnsError(f"it is no JSON: {error}") from error
    except RecursionError as error:
        raise NoColumnsError("it is nested too deep") from error


def _address(document: Any, name: str) -> str:
    own = document.get("$id") if isinstance(document, dict) else None
    try:
        return urldefrag(own)[0] if isinstance(own, str) and own else name
    except ValueError:
        return name
