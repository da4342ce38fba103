"""Options of a connection: text in the job file's values, frozen here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast

from sluiceway.sources.rocketmq.connection import Tls
from sluiceway.sources.rocketmq.frames import Credentials

NAME_SERVERS: Final = "name_servers"
_KNOWN: Final = frozenset(
    {
        NAME_SERVERS,
        "access_key",
        "secret_key",
        "security_token",
        "tls",
        "ca_file",
        "cert_file",
        "key_file",
        "verify",
        "tags",
        "record_time",
    }
)
_MAX_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class RocketMqOptions:
    """How a cluster is reached, and what of its topics is read.

    Attributes:
        name_servers: `host:port`; any of them is asked.
        credentials: Login; None without.
        tls: Encryption; None without.
        tags: Only messages with one of them are rows; empty takes all.
        record_time: Which of a message's two times is its record time.
    """

    name_servers: tuple[str, ...]
    credentials: Credentials | None = None
    tls: Tls | None = None
    tags: frozenset[bytes] = frozenset()
    record_time: Literal["stored", "born"] = "stored"


def read_options(options: Mapping[str, str]) -> RocketMqOptions:
    """Read the options of a connection.

    Raises:
        ValueError: One is unknown or cannot be; says which and why.
    """
    unknown = sorted(options.keys() - _KNOWN)
    if unknown:
        raise ValueError(f"RocketMQ has no option {unknown[0]!r}")
    servers = tuple(each.strip() for each in options.get(NAME_SERVERS, "").split(","))
    for each in servers:
        host, _, port = each.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) <= _MAX_PORT:
            raise ValueError(f"{NAME_SERVERS}: expected host:port, got {each!r}")
    access, secret = options.get("access_key", ""), options.get("secret_key", "")
    if bool(access) != bool(secret):
        raise ValueError("access_key and secret_key: expected both or none")
    record_time = options.get("record_time", "stored")
    if record_time not in ("stored", "born"):
        raise ValueError(f"record_time: expected `stored` or `born`, got {record_time!r}")
    return RocketMqOptions(
        name_servers=servers,
        credentials=Credentials(access, secret, options.get("security_token", ""))
        if access
        else None,
        tls=_tls(options),
        tags=_tags(options.get("tags", "")),
        record_time=cast("Literal['stored', 'born']", record_time),
    )


def _tls(options: Mapping[str, str]) -> Tls | None:
    flags = {}
    for name, usual in (("tls", "false"), ("verify", "true")):
        text = options.get(name, usual).lower()
        if text not in ("true", "false"):
            raise ValueError(f"{name}: expected `true` or `false`, got {text!r}")
        flags[name] = text == "true"
    files = {name: options.get(name, "") for name in ("ca_file", "cert_file", "key_file")}
    if not flags["tls"]:
        given = sorted(name for name, value in files.items() if value)
        if given:
            raise ValueError(f"{given[0]}: needs `tls: true`")
        return None
    return Tls(files["ca_file"], files["cert_file"], files["key_file"], flags["verify"])


def _tags(text: str) -> frozenset[bytes]:
    """Tags as RocketMQ's clients write them: `a || b`; `*` and nothing are all."""
    if text.strip() in ("", "*"):
        return frozenset()
    tags = frozenset(each.strip().encode() for each in text.split("||"))
    if b"" in tags:
        raise ValueError(f"tags: expected tags with `||` between, got {text!r}")
    return tags
