"""The HDFS client of a process, one for each name service, and what its failures mean."""

import os
import re
import threading
from functools import cache
from pathlib import Path

from hdfs_native import Client

from sluiceway.errors import (
    StorageFullError,
    StorageRefusedError,
    StorageUnavailableError,
    UnhealthyEnvironmentError,
)
from sluiceway.host.hdfs_tokens import holds_tokens
from sluiceway.host.kerberos import log_in, login_of, may_come_back, what_to_do
from sluiceway.storage.access import StoreAccess

# For a dead name node: the protocol's own wait begins after these seconds.
_SETTINGS = {
    "dfs.client.failover.max.attempts": "4",
    "dfs.client.failover.sleep.base.millis": "200",
    "dfs.client.failover.sleep.max.millis": "1500",
}
FOREIGN = (OSError, RuntimeError, ValueError)
"""What the client raises."""
PROXY_VARIABLE = "HADOOP_PROXY_USER"
"""Variable by which the client would act for another user."""
_making = threading.Lock()


def hdfs_client(access: StoreAccess, service: str) -> Client:
    """The client; safe for several threads.

    Args:
        access: How it is reached.
        service: `hdfs://name` or `viewfs://name`.

    Raises:
        UnhealthyEnvironmentError: The configuration is none, or does not know the service; or the
            process is to act for another user.
        KerberosRefusedError: The job's login is refused.
        KerberosUnavailableError: No KDC answers.
    """
    with _making:
        return _made(access, service)


@cache
def _made(access: StoreAccess, service: str) -> Client:
    folder = dict(access.options).get("config_dir") or os.environ.get("HADOOP_CONF_DIR")
    if folder is not None and not Path(folder).is_dir():
        raise UnhealthyEnvironmentError(
            f"there is no folder {folder} with the configuration of {service}",
            hint="set config_dir of the connection, or HADOOP_CONF_DIR, on driver and workers",
        )
    login = login_of(dict(access.options))
    if login is not None and not holds_tokens():
        log_in(login)
    if os.environ.get(PROXY_VARIABLE):
        raise UnhealthyEnvironmentError(
            f"{PROXY_VARIABLE} would have HDFS take this job for another user",
            hint="unset it, on driver and workers: files belong to who writes them",
        )
    try:
        return Client(service, _SETTINGS, folder)
    except (RuntimeError, ValueError, OSError) as error:
        raise UnhealthyEnvironmentError(
            f"a client of {service} cannot be made: {first_line(error)}",
            hint="does the configuration in HADOOP_CONF_DIR know the service, and the login?",
        ) from error


def first_line(error: BaseException) -> str:
    """What an error says, without the server's stack."""
    return str(error).partition("\n")[0].partition("\\n\\tat")[0].strip()


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
