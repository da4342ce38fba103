"""Requests to an S3 store: each passes here, is counted, and ends in our own errors."""

import base64
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
)

from sluiceway.errors import (
    StorageFullError,
    StorageRefusedError,
    StorageUnavailableError,
)
from sluiceway.observe.failpoints import edge
from sluiceway.storage.contract import RequestCount

FOREIGN = (ClientError, BotoCoreError, OSError)
"""What a request may raise."""

# Some stores answer 404 to a login that they do not know.
_MISSING = frozenset({"NoSuchKey", "NoSuchUpload", "NotFound", "NoSuchBucketPolicy"})
# Of an answer without a body, as all answers to HEAD are.
_BARE = "404"
_HEAD = "HeadObject"
_CONDITION = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "412", "409"})
_FULL = frozenset({"QuotaExceeded", "XMinioStorageFull", "InsufficientStorage", "EntityTooLarge"})
_REFUSED = {
    "NoSuchBucket": "make the bucket, or correct the table's location",
    "AccessDenied": "allow this login to list, read, write and delete there",
    "403": "allow this login to list, read, write and delete there",
    "AccountProblem": "ask whoever runs the store",
    "AllAccessDisabled": "ask whoever runs the store",
    "InvalidAccessKeyId": "correct access_key of the connection",
    "XAdminUserNotFound": "correct access_key of the connection",
    "SignatureDoesNotMatch": "correct secret_key of the connection",
    "ExpiredToken": "give the connection a new session_token, or a role that renews itself",
    "InvalidToken": "correct session_token of the connection",
    "TokenRefreshRequired": "give the connection a new session_token",
    "RequestTimeTooSkewed": "set this machine's clock",
    "PermanentRedirect": "correct region or endpoint of the connection",
    "301": "correct region or endpoint of the connection",
    "AuthorizationHeaderMalformed": "correct region of the connection",
    "IllegalLocationConstraintException": "correct region of the connection",
    "InvalidBucketName": "correct the table's location",
    "MethodNotAllowed": "is the bucket read-only, or an object locked?",
    "InvalidObjectState": "restore the object: a lifecycle rule has archived it",
    "ObjectParentIsFile": "remove the object that stands where a folder has to be",
    "KMS.DisabledException": "enable the key that the bucket is encrypted with",
}
_NO_LOGIN = (NoCredentialsError, PartialCredentialsError, ProfileNotFound)


def is_missing(error: Exception) -> bool:
    """Whether the store answers that the object is not there.

    A bare 404 says so where no answer has a body. Elsewhere it is that of a proxy, or of another
    server at this address, and nothing is known of the object.
    """
    if not isinstance(error, ClientError):
        return False
    code = _code(error)
    return code in _MISSING or (code == _BARE and error.operation_name == _HEAD)


def is_condition(error: Exception) -> bool:
    """Whether the store answers that the condition of a request does not hold."""
    return isinstance(error, ClientError) and _code(error) in _CONDITION


def failure(what: str, error: Exception) -> StorageUnavailableError:
    """The error of ours. It holds only code and sentence of the store's answer: no signatures.

    Args:
        what: What was tried: `cannot read s3a://b/k`.
        error: One of `FOREIGN`.
    """
    if isinstance(error, _NO_LOGIN):
        return StorageRefusedError(
            f"{what}: there is no login: {error}",
            hint="give the connection access_key and secret_key, a profile, or the machine a role",
        )
    if not isinstance(error, ClientError):
        return StorageUnavailableError(f"{what}: {error}")
    code = _code(error)
    text = f"{what}: {code}: {error.response.get('Error', {}).get('Message', '')}".rstrip(": ")
    if code in _FULL:
        return StorageFullError(text, hint="make room or raise the quota; nothing is lost")
    if code in _REFUSED:
        return StorageRefusedError(text, hint=_REFUSED[code])
    return StorageUnavailableError(text)


def _code(error: ClientError) -> str:
    """S3's name of an error; the status of an answer without one, for example a gateway's page."""
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", "")
    return str(error.response.get("Error", {}).get("Code") or status)


WRITES = frozenset(
    {
        *("put_object", "copy_object", "delete_objects", "create_multipart_upload"),
        *("upload_part", "upload_part_copy", "complete_multipart_upload"),
        "abort_multipart_upload",
    }
)
"""Requests that change something; the others read."""

_EDGES = {
    "put_object": "storage.s3.put",
    "copy_object": "storage.s3.copy",
    "delete_objects": "storage.s3.delete",
    "create_multipart_upload": "storage.s3.begin_upload",
    "upload_part": "storage.s3.upload_part",
    "upload_part_copy": "storage.s3.copy",
    "complete_multipart_upload": "storage.s3.complete_upload",
    "abort_multipart_upload": "storage.s3.abort_upload",
    "get_object": "storage.s3.get",
    "head_object": "storage.s3.head",
    "get_bucket_lifecycle_configuration": "storage.s3.get",
    "get_bucket_policy": "storage.s3.get",
    "list_objects_v2": "storage.s3.list",
    "list_multipart_uploads": "storage.s3.list_uploads",
}


@dataclass(frozen=True, slots=True)
class ObjectName:
    """An object of a bucket.

    Attributes:
        location: As it is named outside: `s3a://bucket/key`.
    """

    bucket: str
    key: str
    location: str


class ConditionFailedError(StorageUnavailableError):
    """The store answers that the condition of a put does not hold: read the object."""


class NotThereError(StorageUnavailableError):
    """The store answers that the object, or the upload, is not there."""


class Requests:
    """Sends requests, and counts them. Safe for several threads.

    Args:
        client: Client as `s3_client` gives it.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._told: Counter[str] = Counter()

    def ask(self, operation: str, name: ObjectName, **given: Any) -> Mapping[str, Any]:
        """Send one request about an object or a prefix.

        Raises:
            ConditionFailedError: A condition does not hold.
            NotThereError: There is no such object.
            StorageUnavailableError: The store failed or refuses.
        """
        try:
            with edge(_EDGES[operation], name.location):
                answer: Mapping[str, Any] = getattr(self._client, operation)(
                    Bucket=name.bucket, **given
                )
        except FOREIGN as error:
            raise _translated(operation, name, error) from error
        finally:
            with self._lock:
                self._counts[operation] += 1
        return answer

    def received(self, body: Any, location: str) -> bytes:
        """The whole body of an answer.

        Raises:
            StorageUnavailableError: It broke off.
        """
        try:
            content: bytes = body.read()
        except FOREIGN as error:
            raise failure(f"cannot read {location}", error) from error
        return content

    def pop_count(self) -> RequestCount:
        """What was sent since this was asked last."""
        with self._lock:
            sent = self._counts - self._told
            self._told = self._counts.copy()
        writes = sum(count for operation, count in sent.items() if operation in WRITES)
        return RequestCount(reads=sent.total() - writes, writes=writes)

    def counts(self) -> dict[str, int]:
        """How many requests of each kind this process has sent."""
        with self._lock:
            return dict(self._counts)


def _translated(operation: str, name: ObjectName, error: Exception) -> StorageUnavailableError:
    what = f"cannot {operation.replace('_', ' ')} {name.location}"
    told = failure(what, error)
    if is_condition(error):
        return ConditionFailedError(told.message)
    return NotThereError(told.message) if is_missing(error) else told


def crc_header(crc32c: str) -> str:
    """A checksum of eight hex digits as the protocol has it."""
    return base64.b64encode(bytes.fromhex(crc32c)).decode()


def crc_of(answer: Mapping[str, Any]) -> str | None:
    """The checksum of the whole object in an answer, as eight hex digits; None if none."""
    told = answer.get("ChecksumCRC32C")
    # That of an upload in parts may be one over the parts' own: `xxxx==-3`.
    if not told or "-" in told or answer.get("ChecksumType") == "COMPOSITE":
        return None
    return base64.b64decode(told).hex()
