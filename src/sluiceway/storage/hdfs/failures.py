"""What HDFS's refusals and failures are in our own tree of errors."""

import re

from sluiceway.errors import (
    StorageFullError,
    StorageRefusedError,
    StorageUnavailableError,
)
from sluiceway.host.hdfs_tokens import holds_tokens
from sluiceway.host.kerberos_errors import may_come_back, what_to_do
from sluiceway.storage.hdfs.client import first_line

INVALID_TOKEN = "InvalidToken"  # noqa: S105 - an exception's name
"""A name node, or a data node, does not know a token or takes it for ended."""

_QUOTA = ("QuotaExceededException", "QuotaByStorageTypeExceededException")
_REFUSED = {
    "AccessControlException": "allow this user to read and write there",
    "Permission denied": "allow this user to read and write there",
    "ParentNotDirectoryException": "remove the file that stands where a folder has to be",
    "InvalidPathException": "correct the table's location",
    "AuthorizationException": "let the name node admit this user",
    "UnsupportedOperationException": "this kind of file system cannot hold a table",
}
_WAITED_FOR = {
    "SafeModeException": "the name node is in safe mode: it is waited for",
    "StandbyException": "no name node is active: it is waited for",
    "minReplication nodes": "no data node takes the block: are they up, and do they have room?",
    "RetryStartFileException": "the encryption zone's key is on its way",
}


# `GSSAPIError(GssMajorCodes { ... }, 2529639053, "words: words")`.
_GSSAPI_ERROR = re.compile(r'GSSAPIError\(.*"([^"]+)"\)')


def _last_words(error: Exception) -> str:
    """What Kerberos' library says, without the numbers around it."""
    said = first_line(error)
    found = _GSSAPI_ERROR.search(said)
    return said if found is None else found[1]


def failure(what: str, error: Exception) -> StorageUnavailableError:
    """The error of ours.

    Args:
        what: What was tried: `cannot read hdfs://ns/k`.
        error: One of the client's `FOREIGN`.
    """
    said = str(error)
    text = f"{what}: {first_line(error)}"
    if any(name in said for name in _QUOTA):
        return StorageFullError(text, hint="raise the quota or make room; nothing is lost")
    for sign, hint in _REFUSED.items():
        if sign in said:
            return StorageRefusedError(text, hint=hint)
    for sign, hint in _WAITED_FOR.items():
        if sign in said:
            return StorageUnavailableError(text, hint=hint)
    todo = what_to_do(said)
    if INVALID_TOKEN in said or (todo and holds_tokens()):
        return StorageUnavailableError(text, hint="the driver gets new delegation tokens")
    if todo and not may_come_back(said):
        return StorageRefusedError(f"{what}: the login failed: {_last_words(error)}", hint=todo)
    return StorageUnavailableError(text, hint=todo)
