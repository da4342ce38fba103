"""The envelopes of Debezium, Maxwell and Canal as data, and how to recognise other messages."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Message = Mapping[str, object]

HEARTBEAT = "heartbeat"
LOAD_MARK = "bootstrap"
SKIPPED_KINDS = frozenset({HEARTBEAT, LOAD_MARK})
"""Kinds of messages that only show that the source is alive, or that it begins or ends a load."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """One kind of change log.

    Attributes:
        name: Name of the format.
        marker: Path to the text with the kind of the change.
        images: For each marker of a change: path to the row after it.
        may_lack_image: Markers of changes that some databases send without the row.
        plain: Markers of changes with one path of the row, which columns can read together.
        wrapper: Key around a message that has its schema; empty when none has.
        other_kind: Returns the kind of a message that changes no row; None for an unknown one.
        tombstones: Default for records without a payload.
        deletes: Markers of changes after which the row is gone.
        old: For each marker of a change that may change the key: path to the values before it.
            Other formats send a delete and an insert instead.
        first: Bytes that are in every first message of a table's snapshot, and in no other; empty
            where the log does not mark it.
    """

    name: str
    marker: tuple[str, ...]
    images: Mapping[str, tuple[str, ...]]
    plain: frozenset[str]
    other_kind: Callable[[Message], str | None]
    may_lack_image: frozenset[str] = frozenset()
    wrapper: str = ""
    tombstones: tuple[str, str] = ("dirty", "skip")
    deletes: frozenset[str] = frozenset()
    old: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    first: bytes = b""


def _debezium_kind(message: Message) -> str | None:
    kind = {"t": "truncate", "m": "message"}.get(str(message.get("op")))
    if kind == "message" and "message" not in message:
        # TiCDC's watermark; a message of PostgreSQL has content of its own.
        return HEARTBEAT
    if kind is not None or message.get("op") is not None:
        return kind
    if "ddl" in message or "tableChanges" in message:
        return "schema_change"
    if message.get("status") in ("BEGIN", "END") and "id" in message:
        return "transaction"
    if "ts_ms" in message and not message.keys() & {"before", "after", "source"}:
        return HEARTBEAT
    return None


def _maxwell_kind(message: Message) -> str | None:
    marker = str(message.get("type"))
    if marker in ("bootstrap-start", "bootstrap-complete"):
        return LOAD_MARK
    return "ddl" if marker.startswith(("table-", "database-")) else None


_CANAL_DDL = frozenset(
    {"CREATE", "ALTER", "ERASE", "TRUNCATE", "RENAME", "CINDEX", "DINDEX", "DROP"}
)
_CANAL_OTHER = {
    "QUERY": "query",
    "GTID": "transaction",
    "XACOMMIT": "transaction",
    "XAROLLBACK": "transaction",
    "MHEARTBEAT": HEARTBEAT,
    # TiCDC's, about one a second.
    "TIDB_WATERMARK": HEARTBEAT,
}


def _canal_kind(message: Message) -> str | None:
    marker = str(message.get("type"))
    if message.get("isDdl") is True or marker in _CANAL_DDL:
        return "ddl"
    return _CANAL_OTHER.get(marker)


DEBEZIUM = Envelope(
    name="debezium",
    marker=("op",),
    images={"c": ("after",), "u": ("after",), "r": ("after",), "d": ("before",)},
    plain=frozenset("cur"),
    other_kind=_debezium_kind,
    may_lack_image=frozenset("d"),
    wrapper="payload",
    # Debezium writes a tombstone after each delete, so that compaction can drop the row's key.
    tombstones=("skip", "dirty"),
    deletes=frozenset("d"),
    # `first`, or `first_in_data_collection`; an incremental snapshot has neither. In a text of the
    # row, quotes come with a backslash before them.
    first=b'"snapshot":"first',
)
MAXWELL = Envelope(
    name="maxwell",
    marker=("type",),
    images=dict.fromkeys(("insert", "update", "delete", "bootstrap-insert"), ("data",)),
    plain=frozenset({"insert", "update", "delete", "bootstrap-insert"}),
    other_kind=_maxwell_kind,
    deletes=frozenset({"delete"}),
    old={"update": ("old",)},
)
CANAL = Envelope(
    name="canal",
    marker=("type",),
    # A message is one row of the table, with all the rows that it changed as an array. `INIT` is a
    # row of a full load.
    images=dict.fromkeys(("INSERT", "UPDATE", "DELETE", "INIT"), ()),
    plain=frozenset({"INSERT", "UPDATE", "DELETE", "INIT"}),
    other_kind=_canal_kind,
)
