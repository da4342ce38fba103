"""Texts of a job file with a form: names, durations, addresses, secrets."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator
from pydantic_core import PydanticCustomError

from sluiceway.plugins import PluginGroup, plugin_names
from sluiceway.types.key_path import path_keys

NOT_YET = "not_in_this_version"
WRONG_KEY = "wrong_key"
MAX_PATH_KEYS = 50

_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_RATE = re.compile(r"([1-9][0-9]{0,9})/s")
_UNIT_BYTES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_SIZE = re.compile(r"([1-9][0-9]{0,8})(KiB|MiB|GiB)")
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|s|m|h|d)")
_HOST_PORT = re.compile(
    r"(?:[A-Za-z0-9_][A-Za-z0-9._-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\]):(?P<port>[0-9]{1,5})"
)
HIDDEN_KEYS = (
    r"(?i)password|passphrase|secret|token|credential(?!s\.?provider\b)|key\.pem|access\.key"
    r"|api-key|authorization|cookie|account\.key\.|private\.key$|encryption\.key$|jaas\.config|^salt$"
)
"""Parts of option names that hold secrets; a pattern in Python's and Java's syntax.

`...credentials.provider` names a class.
"""
_SECRET_KEY = re.compile(HIDDEN_KEYS)
_TABLE_NAME = re.compile(r"[A-Za-z_]\w{0,127}\.[A-Za-z_]\w{0,127}", re.ASCII)
_LAKE_NAME = re.compile(r"[A-Za-z0-9_][\w-]{0,127}(\.[A-Za-z0-9_][\w-]{0,127}){1,9}", re.ASCII)
_GROUP = re.compile(r"\{\w{1,64}\}", re.ASCII)
_PUBLIC_KEYS = frozenset({"sasl.oauthbearer.token.endpoint.url"})
_STORES = frozenset({"hdfs", "viewfs", "s3", "s3a", "s3n", "oss"})
_LATER_STORES = frozenset({"abfs", "abfss", "gs"})
_REMOTE = re.compile(r"(?:hdfs|viewfs)://[A-Za-z0-9._:-]*/(.+)|(?:s3[an]?|oss)://[a-z0-9.-]+/(.+)")
LOSSY_RULES = (
    *("dirty", "null", "truncate", "text"),
    *(
        f"round({mode})"
        for mode in ("half_up", "half_even", "half_down", "up", "down", "floor", "ceiling")
    ),
)
_MAX_PORT = 65_535
_MAX_LINE = 4096
_MAX_FOLDER = 255
_WIDE_TOPIC = re.compile(r"[A-Za-z0-9._%|-]{1,249}")
_MAX_TYPE = 64 * 1024
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PLAIN_TOPIC = "a topic name of letters, digits, `.`, `_`, `-`"
TOPIC_TODO = "list each topic by name, or write one pattern as text instead of a list"


class Secret:
    """Text that no log, error or report shows.

    No dataclass: pydantic and `asdict` would convert one and show its text.
    """

    __slots__ = ("_hidden",)

    def __init__(self, hidden: str) -> None:
        self._hidden = hidden

    def reveal(self) -> str:
        """The text itself. Called only where a client gets it."""
        return self._hidden

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.reveal() == self._hidden

    def __hash__(self) -> int:
        return hash(self._hidden)

    def __reduce__(self) -> tuple[type["Secret"], tuple[str]]:
        return Secret, (self._hidden,)

    def __repr__(self) -> str:
        return "Secret('***')"

    def __str__(self) -> str:
        return "***"


def revealed(value: object) -> str:
    """An option's text, for its client; never for a log."""
    return value.reveal() if isinstance(value, Secret) else str(value)


def wrong(expected: str, todo: str, *, kind: str = "expected") -> PydanticCustomError:
    """Make a validator's error: what was expected and what to do about it."""
    # Both are context: a template would read braces in them as fields.
    return PydanticCustomError(kind, "{expected}", {"expected": expected, "todo": todo})


def wrong_key(path: tuple[str, ...], text: str, todo: str) -> PydanticCustomError:
    """Make a block's error that stands at one of its keys.

    Args:
        path: The key, from the block.
        text: What was expected and what came.
        todo: What to do about it.
    """
    return PydanticCustomError(WRONG_KEY, "{text}", {"path": path, "text": text, "todo": todo})


def not_yet(what: str, todo: str) -> PydanticCustomError:
    """Make a validator's error for a value of a later version."""
    return wrong(what, todo, kind=NOT_YET)


def is_secret_key(key: str) -> bool:
    """Whether the client option `key` holds a value that must not be written plainly."""
    return _SECRET_KEY.search(key) is not None and key not in _PUBLIC_KEYS


def named(pattern: str, expected: str) -> AfterValidator:
    """Validator of a text that has to match `pattern` as a whole."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise wrong(expected, "rename it")
        return text

    return AfterValidator(check)


JobName = Annotated[
    str,
    named("[a-z0-9][a-z0-9_-]{0,63}", "1 to 64 of a-z, 0-9, `_`, `-`, not beginning with `_`, `-`"),
]
ColumnName = Annotated[
    str,
    named("[A-Za-z_][A-Za-z0-9_]{0,127}", "a name of letters, digits and `_`, no digit first"),
]


def instant_us(text: object) -> int | None:
    """Microseconds since 1970 of `2026-11-20T08:00:00Z`; None without date, time or zone."""
    try:
        at = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return None if at is None or at.tzinfo is None else (at - _EPOCH) // timedelta(microseconds=1)


def parse_duration_ms(text: object) -> int:
    """Milliseconds of a duration as text: `500ms`, `10s`, `5m`, `1h`, `1d`.

    Raises:
        PydanticCustomError: The text is no duration, or no whole number of milliseconds.
    """
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    value_ms = Decimal(match[1]) * _UNIT_MS[match[2]] if match else Decimal("0.5")
    if value_ms != int(value_ms):
        raise wrong("a duration such as `10s`, `500ms`, `5m`", "write a number and its unit")
    return int(value_ms)


def duration(least: str, most: str) -> tuple[BeforeValidator, AfterValidator]:
    """Validators of a duration between two durations, both included."""
    least_ms, most_ms = parse_duration_ms(least), parse_duration_ms(most)

    def check(value_ms: int) -> int:
        if not least_ms <= value_ms <= most_ms:
            raise wrong(f"a duration from {least} to {most}", "choose one between them")
        return value_ms

    return BeforeValidator(parse_duration_ms), AfterValidator(check)


def parse_size_bytes(text: object) -> int:
    """Bytes of a size as text: `64KiB`, `128MiB`, `2GiB`.

    Raises:
        PydanticCustomError: The text is no size.
    """
    match = _SIZE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise wrong("a size such as `64KiB`, `128MiB`, `2GiB`", "write a number and its unit")
    return int(match[1]) * _UNIT_BYTES[match[2]]


def size(least: str, most: str) -> tuple[BeforeValidator, AfterValidator]:
    """Validators of a size between two sizes, both included."""
    least_bytes, most_bytes = parse_size_bytes(least), parse_size_bytes(most)

    def check(value_bytes: int) -> int:
        if not least_bytes <= value_bytes <= most_bytes:
            raise wrong(f"a size from {least} to {most}", "choose one between them")
        return value_bytes

    return BeforeValidator(parse_size_bytes), AfterValidator(check)


def parse_rate_per_s(text: object) -> int:
    """Records per second of a rate as text: `5000/s`.

    Raises:
        PydanticCustomError: The text is no rate.
    """
    match = _RATE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise wrong("records a second, such as `5000/s`", "write a whole number and `/s`")
    return int(match[1])


Rate = Annotated[int, BeforeValidator(parse_rate_per_s)]


def is_host_port(text: str) -> bool:
    """Whether `text` is `host:port` or `[ipv6]:port`."""
    match = _HOST_PORT.fullmatch(text)
    return match is not None and 0 < int(match["port"]) <= _MAX_PORT


def _check_bootstrap_servers(text: str) -> str:
    servers = [server.strip() for server in text.split(",")]
    if not all(is_host_port(server) for server in servers):
        raise wrong("`host:port`, several with commas between", "give each broker its port")
    return ",".join(servers)


def _check_thrift_uri(text: str) -> str:
    if not text.startswith("thrift://") or not is_host_port(text.removeprefix("thrift://")):
        raise wrong("`thrift://host:port`", "name the metastore's host and port")
    return text


def _check_topic(text: str) -> str:
    if not is_plain_topic(text):
        raise wrong(PLAIN_TOPIC, TOPIC_TODO)
    return text


def is_plain_topic(text: str) -> bool:
    """Whether `text` is a topic's name in any queue system."""
    return re.fullmatch(r"[A-Za-z0-9._-]{1,249}", text) is not None and text not in {".", ".."}


def _check_source_topic(text: str) -> str:
    """Allow a namespace and `%` before a name; `checks` knows the rule of the route's system."""
    return text if _WIDE_TOPIC.fullmatch(text) and text.strip(".") else _check_topic(text)


def is_table_name(text: str) -> bool:
    """Whether `text` is `database.table`, both plain identifiers."""
    return _TABLE_NAME.fullmatch(text) is not None


def is_lake_name(text: str) -> bool:
    """Whether `text` is `namespace.table`, with any depth of namespaces."""
    return _LAKE_NAME.fullmatch(text) is not None


def _check_lake_name(text: str) -> str:
    if not is_lake_name(_GROUP.sub("a", text)):
        expected = "`namespace.table`, of letters, digits, `_` and `-`; namespaces may be nested"
        raise wrong(expected, "name both, with dots between")
    return text


def _check_table_name(text: str) -> str:
    # Groups of a topic pattern stand for parts of a topic's name; their text is checked again.
    if not is_table_name(_GROUP.sub("a", text)):
        raise wrong("`database.table`, both of letters, digits and `_`", "name both")
    return text


def _check_plain_table_name(text: str) -> str:
    if not is_table_name(text):
        raise wrong("`database.table`, both of letters, digits and `_`", "name both")
    return text.lower()


def _check_remote(text: str) -> str:
    """`hdfs://service/folder` or `s3a://bucket/folder`: never the root, which others share."""
    match = _REMOTE.fullmatch(text)
    path = match and (match[1] or match[2])
    if not path or not text.isprintable() or {"", ".", ".."} & {*path.rstrip("/").split("/")}:
        raise wrong(
            "hdfs://service/folder or s3a://bucket/folder", "write the scheme in small letters"
        )
    return text


def _check_location(text: str) -> str:
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", text)
    if scheme and scheme[1].lower() in plugin_names(PluginGroup.STORAGE):
        return text
    if scheme and scheme[1].lower() in _STORES:
        return _check_remote(text)
    if scheme and scheme[1].lower() in _LATER_STORES:
        raise not_yet(
            f"a table on {scheme[1]}",
            "use a local or mounted folder, hdfs:// or s3a://, or a storage plug-in",
        )
    path = re.sub(r"^file:(//)?(?=/)", "", text)
    plain = path.isprintable() and not (path != text and re.search("[%?#]", path))
    parts = path.strip("/").split("/")
    if not path.startswith("/") or path.startswith("//") or not plain or {"", ".", ".."} & {*parts}:
        raise wrong(
            "an absolute folder, as a path or `file:` URI",
            "write it from the root, without `.`, `..`",
        )
    return text


def _check_time_zone(text: str) -> str:
    if text == "UTC":
        return text
    try:
        ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise wrong("an IANA time zone such as `UTC`, `Asia/Shanghai`", "correct it") from error
    return text


def _check_path(text: str) -> str:
    try:
        keys = path_keys(text)
    except ValueError:
        keys = ()
    if not 0 < len(keys) <= MAX_PATH_KEYS or not text.isprintable():
        raise wrong(
            "keys with dots between, such as `geo.city`",
            "remove empty parts; a key with a dot in it is written `['host.name']`",
        )
    return text


def _check_line(text: str) -> str:
    if not text.strip() or len(text) > _MAX_LINE or not text.isprintable():
        raise wrong("one line of text", "write something short")
    return text


def _check_type_text(text: str) -> str:
    if not text.strip() or len(text) > _MAX_TYPE:
        raise wrong("a Hive type such as `bigint`, `array<string>`", "write a type")
    return text


def _check_master(text: str) -> str:
    if re.fullmatch(r"k8s://https?://[A-Za-z0-9.:\[\]-]+", text):
        return text
    local = re.fullmatch(r"local(\[[1-9][0-9]{0,3}\])?", text)
    servers = text.removeprefix("spark://").split(",")
    standalone = text.startswith("spark://") and all(is_host_port(server) for server in servers)
    if not (local or standalone or text == "yarn"):
        todo = "write `local` for all cores of this machine"
        expected = "`local`, `local[N]`, `spark://host:port`, `yarn` or `k8s://https://host`"
        raise wrong(expected, todo)
    return text


def _check_port(port: int) -> int:
    if not 0 <= port <= _MAX_PORT:
        raise wrong(f"a port, 0 to {_MAX_PORT}", "0 takes a free one")
    return port


def _check_folder_text(text: str) -> str:
    if not text or len(text) > _MAX_FOLDER or not text.isprintable():
        raise wrong(f"1 to {_MAX_FOLDER} printable characters, as text", "write a short value")
    return text


def _check_option(value: Any) -> str | Secret:
    if not isinstance(value, str | Secret):
        raise wrong("text, a number, true or false", "write one value")
    return value


def _check_plain_value(value: Any) -> str | float | bool:
    if not isinstance(value, str | int | float):
        raise wrong("text, a number, true or false", "write one value")
    return value


def _check_expression_text(text: str) -> str:
    if not text.strip() or len(text) > _MAX_LINE:
        raise wrong("an expression of at most 4096 characters", "write something short")
    return text


def _check_lossy_rule(text: str) -> str:
    if text not in LOSSY_RULES:
        raise wrong(f"one of {', '.join(LOSSY_RULES)}", "choose one")
    return text


BootstrapServers = Annotated[str, AfterValidator(_check_bootstrap_servers)]
ThriftUri = Annotated[str, AfterValidator(_check_thrift_uri)]
TopicName = Annotated[str, AfterValidator(_check_topic)]
SourceTopicName = Annotated[str, AfterValidator(_check_source_topic)]
TableName = Annotated[str, AfterValidator(_check_table_name)]
LakeName = Annotated[str, AfterValidator(_check_lake_name)]
PlainTableName = Annotated[str, AfterValidator(_check_plain_table_name)]
Location = Annotated[str, AfterValidator(_check_location)]
TimeZone = Annotated[str, AfterValidator(_check_time_zone)]
DottedPath = Annotated[str, AfterValidator(_check_path)]
TypeText = Annotated[str, AfterValidator(_check_type_text)]
LossyRule = Annotated[str, AfterValidator(_check_lossy_rule)]
FolderText = Annotated[str, AfterValidator(_check_folder_text)]
Line = Annotated[str, AfterValidator(_check_line)]
Master = Annotated[str, AfterValidator(_check_master)]
Port = Annotated[int, AfterValidator(_check_port)]
Option = Annotated[str | Secret, BeforeValidator(_check_option)]
PlainValue = Annotated[str | int | float | bool, BeforeValidator(_check_plain_value)]
ExpressionText = Annotated[str, AfterValidator(_check_expression_text)]
