"""Kafka Connect's schemas from JSON Schemas that its converter registered.

Confluent's converter names a value's type in `title`, and writes decimals as text in base64.
"""

from collections.abc import Collection, Mapping
from typing import Any

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.formats.connect_times import CONNECT_TIMES, DECIMAL, VARIABLE_DECIMAL
from sluiceway.formats.json.schema_document import Documents, SchemaPlace
from sluiceway.formats.schema_columns import NoColumnsError
from sluiceway.formats.schema_registry.client import RegisteredSchema
from sluiceway.formats.schema_registry.store import SchemaStore
from sluiceway.types.dirty import DirtyReason

JSON = "JSON"
Node = dict[str, Any]

_MEANT = frozenset({DECIMAL, VARIABLE_DECIMAL, *CONNECT_TIMES})
_MOST_REFERENCES = 100
_KINDS = {"integer": "int64", "number": "float64"}


class ConnectSchemas:
    """Schemas of a registry by id, for JSON that may be Kafka Connect's.

    Args:
        store: Schemas of the registry.
    """

    def __init__(self, store: SchemaStore) -> None:
        self._store = store
        self._read: dict[int, Node | DirtyValueError | None] = {}

    def of(self, keys: Collection[int]) -> Mapping[int, Node | DirtyValueError | None]:
        """Each id's schema for `SchemaView`; None for one without Connect's types.

        Or why payloads of that id are dirty. Called once a batch.

        Raises:
            SchemaRegistryUnavailableError: The registry does not answer.
            SchemaRegistryRefusedError: It refuses to.
        """
        missing = [key for key in keys if key not in self._read]
        unknown: dict[int, DirtyValueError] = {}
        for key, registered in self._store.schemas(missing).items() if missing else ():
            if registered is None:
                unknown[key] = _unknown(self._store.why_unknown(key))
            else:
                self._read[key] = _parsed(key, registered)
        return {key: unknown[key] if key in unknown else self._read[key] for key in keys}


def connect_schema(text: str, others: Collection[tuple[str, str]] = ()) -> Node | None:
    """A JSON Schema in Kafka Connect's form; None where it has none of Connect's types.

    Args:
        text: Text of the schema.
        others: Names and texts of the schemas that it refers to.

    Raises:
        NoColumnsError: The text is no JSON.
    """
    documents, top = Documents.read(text, others)
    nodes = _Nodes(documents)
    found = nodes.of(top)
    nodes.name_fields()
    return found if nodes.meant else None


class _Nodes:
    """Connect's nodes of one document. A schema that contains itself gives such a node."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._made: dict[int, Node] = {}
        self._fields: list[tuple[list[Node], list[tuple[str, Node]]]] = []
        self.meant = False

    def of(self, place: SchemaPlace) -> Node:
        place = self._plain(place)
        node = place.node
        if not isinstance(node, dict):
            return {}
        if id(node) in self._made:
            return self._made[id(node)]
        made: Node = {}
        self._made[id(node)] = made
        self._fill(made, node, place.document)
        return made

    def _fill(self, made: Node, node: Mapping[str, Any], document: str) -> None:
        named, kind = node.get("title"), node.get("connect.type", node.get("type"))
        if isinstance(kind, list):
            kind = next((one for one in kind if one != "null"), None)
        made["type"] = _KINDS.get(kind, kind) if isinstance(kind, str) else None
        if isinstance(named, str):
            made["name"] = named
            self.meant |= named in _MEANT
        if isinstance(node.get("connect.parameters"), dict):
            made["parameters"] = node["connect.parameters"]
        properties, values = node.get("properties"), node.get("additionalProperties")
        if isinstance(properties, dict) and properties:
            made |= {"type": "struct", "fields": []}
            fields = [(name, self.of(SchemaPlace(of, document))) for name, of in properties.items()]
            self._fields.append((made["fields"], fields))
        elif isinstance(values, dict):
            made |= {"type": "map", "keys": {"type": "string"}}
            made["values"] = self.of(SchemaPlace(values, document))
        if isinstance(node.get("items"), dict):
            made |= {"type": "array", "items": self.of(SchemaPlace(node["items"], document))}

    def name_fields(self) -> None:
        """Give each field its name, once all nodes are complete: several may share one schema."""
        for named, fields in self._fields:
            named += [{**of, "field": name} for name, of in fields]

    def _plain(self, place: SchemaPlace) -> SchemaPlace:
        """The schema that it refers to, or its only alternative to null."""
        for _ in range(_MOST_REFERENCES):
            node = place.node
            if not isinstance(node, dict):
                return place
            reference = node.get("$ref")
            choices = node.get("oneOf", node.get("anyOf"))
            if isinstance(reference, str):
                found = self._documents.refer(place, reference)
            elif isinstance(choices, list):
                held = [one for one in choices if one != {"type": "null"}]
                found = SchemaPlace(held[0], place.document) if len(held) == 1 else None
            else:
                return place
            if found is None:
                return SchemaPlace(None, place.document)
            place = found
        return SchemaPlace(None, place.document)


def _parsed(key: int, registered: RegisteredSchema) -> Node | DirtyValueError | None:
    if registered.kind != JSON:
        return _unknown(f"the schema id {key} is {registered.kind}, not {JSON}")
    try:
        return connect_schema(registered.text, registered.references)
    except (NoColumnsError, RecursionError) as error:
        return _unknown(f"the schema id {key} cannot be read: {error}")


def _unknown(what: str) -> DirtyValueError:
    return DirtyValueError(DirtyReason.UNKNOWN_SCHEMA, what, stage="decode")
