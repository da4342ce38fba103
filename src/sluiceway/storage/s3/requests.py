"""Requests to an S3 store: each passes here, is counted, and ends in our own errors."""

import base64
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluiceway.errors import StorageUnavailableError
from sluiceway.observe.failpoints import edge
from sluiceway.storage.contract import RequestCount
from sluiceway.storage.s3.failures import FOREIGN, failure, is_condition, is_missing

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
    """The store answers that the condition of a put does not hold: look what is there."""


class NotThereError(StorageUnavailableError):
    """The store answers that the object, or the upload, is not there."""


class Requests:
    """Sends requests, and counts them. Safe for several threads.

    Args:
        client: As `s3_client` gives it.
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
    """The checksum of the whole object that an answer tells, as eight hex digits; None if none."""
    told = answer.get("ChecksumCRC32C")
    # That of an upload in parts may be one over the parts' own: `xxxx==-3`.
    if not told or "-" in told or answer.get("ChecksumType") == "COMPOSITE":
        return None
    return base64.b64decode(told).hex()
