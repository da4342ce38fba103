"""What Debezium, Maxwell and Canal put around rows; data, and how to tell other messages."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Message = Mapping[str, object]

HEARTBEAT = "heartbeat"
LOAD_MARK = "bootstrap"
SKIPPED_KINDS = frozenset({HEARTBEAT, LOAD_MARK})
"""Of messages that only say that the source lives, or that it begins or ends to load rows."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """One kind of change log.

    Attributes:
        name: Of the format.
        marker: Path to the text that says what happened.
        images: For each marker of a change: path to the row as it was changed.
        may_lack_image: Markers of changes that some databases tell without the row.
        plain: The markers of changes that one path serves, so that they are read by columns.
        wrapper: Key around a message that comes with its schema; empty when none does.
        other_kind: From a message that changes no row to its kind; None when it is none known.
        tombstones: What happens to records without a payload, unless the job file says so.
        deletes: Markers of changes after which the row is gone.
        old: For each marker of a change that may be of the key: path to the values before it.
            Others tell such a change as a delete and an insert.
        first: Bytes of every message with which a snapshot of a table begins, and of no other;
            none where the log does not tell.
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
        # TiCDC's watermark: a message of PostgreSQL brings what it says.
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
    # Debezium writes one behind each delete, so that compaction can drop the row's key.
    tombstones=("skip", "dirty"),
    deletes=frozenset("d"),
    # `first`, or `first_in_data_collection`; an incremental snapshot has neither. In a text of
    # the row quotes come with a backslash before them.
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
    # A message is one row of the table, with all the rows that it changed as an array.
    # `INIT` is a row of a full load.
    images=dict.fromkeys(("INSERT", "UPDATE", "DELETE", "INIT"), ()),
    plain=frozenset({"INSERT", "UPDATE", "DELETE", "INIT"}),
    other_kind=_canal_kind,
)
