"""HDFS delegation tokens in a task: in a file for its user alone, in Hadoop's format.

A driver gets them, and `hold_tokens` stores them in a task. The HDFS client reads the file for each
new connection.
"""

import os
import re
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sluiceway.host.ticket_cache import private_folder

TOKEN_VARIABLE = "HADOOP_TOKEN_FILE_LOCATION"  # noqa: S105 - a variable's name
KIND = "HDFS_DELEGATION_TOKEN"
_PREFIX = "hdfs-tokens-"
_OWNER = re.compile(r"[A-Za-z0-9-]+")
_MAGIC = b"HDTS"
_WRITABLE = 0
_ONE_BYTE_MOST = 127
_NO_SECRET_KEYS = b"\0"
# By default name nodes let no token live longer than a week.
_WORTHLESS_AFTER_S = 8 * 86_400.0


@dataclass(frozen=True, slots=True)
class HdfsToken:
    """A right to act as the job at one name service, for some time.

    Attributes:
        service: Name that the HDFS client looks for: `host:port`, or `ha-hdfs:name`.
        identifier: Identifies the token and its owner.
        password: Secret of the token.
        ends_s: When it expires, in seconds since 1970.
    """

    service: str
    identifier: bytes = field(repr=False)
    password: bytes = field(repr=False)
    ends_s: float


@dataclass(frozen=True, slots=True)
class DelegationTokens:
    """The tokens that a task gets.

    Attributes:
        owner: Owner of the file: letters, digits and dashes that no other application has.
        fetched_s: When the driver got the tokens, by its clock.
        content: Content of the file. A secret.
    """

    owner: str
    fetched_s: float
    content: bytes = field(repr=False)


def packed_tokens(tokens: Sequence[HdfsToken]) -> bytes:
    """Tokens as the content of a file that Hadoop's clients read.

    Source: `Credentials.writeTokenStorageToStream` and `WritableUtils.writeVLong` of Hadoop 3.
    """
    parts = [_MAGIC, bytes([_WRITABLE]), _number(len(tokens))]
    for token in tokens:
        for text in (token.service.encode(), token.identifier, token.password):
            parts += [_number(len(text)), text]
        for name in (KIND, token.service):
            parts += [_number(len(name.encode())), name.encode()]
    return b"".join([*parts, _NO_SECRET_KEYS])


def hold_tokens(delegation: DelegationTokens) -> Path:
    """Make this process's HDFS client use a driver's tokens. Called before each piece of work.

    Workers of one application and machine share the file; older tokens never replace newer ones.

    Returns:
        The file, mode 600.

    Raises:
        UnhealthyEnvironmentError: There is no private place for the file.
        OSError: It cannot be written.
    """
    if not _OWNER.fullmatch(delegation.owner):
        raise ValueError(delegation.owner)
    file = private_folder() / f"{_PREFIX}{delegation.owner}"
    try:
        newest_s = file.stat().st_mtime
    except FileNotFoundError:
        _forget_worthless(file.parent)
        newest_s = 0.0
    if newest_s < _reported_s(delegation):
        fresh = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:  # noqa: PTH123
                out.write(delegation.content)
            os.utime(fresh, (_reported_s(delegation), _reported_s(delegation)))
            # As a whole: the client reads either the old tokens or the new ones.
            fresh.replace(file)
        finally:
            fresh.unlink(missing_ok=True)
    os.environ[TOKEN_VARIABLE] = str(file)
    _holding[:] = [os.getpid()]
    return file


def holds_tokens() -> bool:
    """Whether this process uses a driver's tokens, and needs no own login to HDFS."""
    return _holding == [os.getpid()]


# The process that holds them: a forked process may be of another application.
_holding: list[int] = []


def _reported_s(delegation: DelegationTokens) -> float:
    """The driver's time in whole seconds, which every file system keeps."""
    return float(int(delegation.fetched_s))


def _forget_worthless(folder: Path) -> None:
    oldest_s = time.time() - _WORTHLESS_AFTER_S
    # Files that a killed worker was writing begin with a dot.
    for file in [*folder.glob(f"{_PREFIX}*"), *folder.glob(f".{_PREFIX}*")]:
        with suppress(FileNotFoundError):
            if file.stat().st_mtime < oldest_s:
                file.unlink()


def _number(value: int) -> bytes:
    """A length in Hadoop's format: one byte, or the number of bytes and then these."""
    if value <= _ONE_BYTE_MOST:
        return bytes([value])
    digits = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return struct.pack(">b", -112 - len(digits)) + digits
