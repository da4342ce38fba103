"""S3 as a storage: a put is conditional, a publish a verified copy; folders are only names."""

import io
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any, BinaryIO, cast
from uuid import uuid4

import google_crc32c
from botocore.config import Config
from botocore.exceptions import BotoCoreError
from botocore.session import Session

from sluiceway.errors import (
    FileLostError,
    JobFileError,
    StorageUnavailableError,
    UnhealthyEnvironmentError,
)
from sluiceway.storage.access import StoreAccess
from sluiceway.storage.contract import (
    SHARED_ANEW_MS,
    FileStatus,
    PutResult,
    RequestCount,
    StagedWriter,
    Storage,
)
from sluiceway.storage.copying import stream_crc32c
from sluiceway.storage.probing import probe_exclusive_put, probe_publish
from sluiceway.storage.s3.lifecycle import BucketRules, denies_replication
from sluiceway.storage.s3.requests import (
    ConditionFailedError,
    NotThereError,
    ObjectName,
    Requests,
    crc_header,
    crc_of,
)
from sluiceway.storage.s3.staging import StagedObject
from sluiceway.storage.windows import WindowReader

DEFAULT_REGION = "us-east-1"
_CONNECT_TIMEOUT_S = 5
_READ_TIMEOUT_S = 30
# The first try and two more, with growing random pauses and a budget over all requests.
_TRIES = 3
_CONNECTIONS = 32
_making = threading.Lock()


def s3_client(access: StoreAccess) -> Any:
    """The client; safe for several threads.

    Raises:
        JobFileError: Its options are none that a client can be made of.
    """
    with _making:
        return _made(access)


@cache
def _made(access: StoreAccess) -> Any:
    options = dict(access.options)
    session = Session(profile=options.get("profile"))
    try:
        return session.create_client(
            "s3",
            region_name=_region(session, options),
            endpoint_url=options.get("endpoint"),
            verify=options.get("ca_file"),
            aws_access_key_id=options.get("access_key"),
            aws_secret_access_key=options.get("secret_key"),
            aws_session_token=options.get("session_token"),
            config=_config(options),
        )
    except (BotoCoreError, ValueError) as error:
        raise JobFileError(
            f"an S3 client cannot be made: {error}", hint="correct the connection's block s3"
        ) from error


def _region(session: Session, options: Mapping[str, str]) -> str:
    region: str | None = options.get("region") or session.get_config_variable("region")
    return region or DEFAULT_REGION


def _config(options: Mapping[str, str]) -> Config:
    return Config(
        connect_timeout=_CONNECT_TIMEOUT_S,
        read_timeout=_READ_TIMEOUT_S,
        max_pool_connections=_CONNECTIONS,
        retries={"mode": "standard", "total_max_attempts": _TRIES},
        # Checksums of files are sent by us; many compatible stores refuse the client's own.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": "path" if options.get("path_style") == "true" else "auto"},
    )


_LOCATION = re.compile(r"(s3|s3a|s3n|oss)://([a-z0-9][a-z0-9._-]{1,61}[a-z0-9])(/.*)?", re.DOTALL)
_DELETED_AT_ONCE = 1000
# The largest object that one request copies, by the protocol.
MOST_COPIED_BYTES = 5 << 30
_COPIED_PART_BYTES = 1 << 30
_BUFFER_BYTES = 128 << 10
_CONDITIONAL_PUTS = (
    "the store ignores If-None-Match: take a store or a version that honours conditional writes"
)


def s3_location(location: str) -> str:
    """A location as this storage names it: without a trailing slash.

    Raises:
        UnhealthyEnvironmentError: It names no bucket.
    """
    match = _LOCATION.fullmatch(location)
    if match is None:
        raise UnhealthyEnvironmentError(
            f"expected s3a://bucket/path, got {location}", hint="correct the table's location"
        )
    path = re.sub("/{2,}", "/", match[3] or "").rstrip("/")
    return f"{match[1]}://{match[2]}{path}"


def object_name(path: str) -> ObjectName:
    """Bucket and key of a path below a location."""
    _, _, rest = path.partition("://")
    bucket, _, key = rest.partition("/")
    return ObjectName(bucket, key, path)


def _changed_ms(told: Mapping[str, Any]) -> int:
    """When an object was last written, as an answer says."""
    return int(told["LastModified"].timestamp() * 1000)


class S3Storage(Storage):
    """Storage contract over the S3 protocol; may be used by several threads.

    Args:
        access: How the store is reached.
    """

    has_folders = False
    looks_are_cheap = False

    def __init__(self, access: StoreAccess) -> None:
        self._endpoint = dict(access.options).get("endpoint", "")
        self.requests = Requests(s3_client(access))
        self._rules = BucketRules(self._requested_rules)
        self._begun: set[str] = set()
        self._lock = threading.Lock()

    def volume(self, path: str) -> str:
        """See `Storage.volume`: a bucket."""
        return f"{self._endpoint}/{object_name(path).bucket}"

    def admit(self, folder: str) -> None:
        """See `Storage.admit`: no lifecycle rule of the bucket removes what lies there."""
        self._rules.admit(object_name(folder))

    def _requested_rules(self, name: ObjectName) -> Sequence[Mapping[str, Any]]:
        rules: Sequence[Mapping[str, Any]] = self.requests.ask(
            "get_bucket_lifecycle_configuration", name
        ).get("Rules", ())
        return rules

    def denies_copies(self, folder: str) -> bool | None:
        """See `Storage.denies_copies`: by the bucket's policy."""
        name = object_name(folder)
        try:
            policy = self.requests.ask("get_bucket_policy", name)["Policy"]
        except NotThereError:
            return False
        except StorageUnavailableError:
            # This login may not see it, or the store has none.
            return None
        return denies_replication(policy, name)

    def probe(self, folder: str) -> None:
        """See `Storage.probe`."""
        place = f"{folder}/probe-{uuid4().hex}"
        # What a failed request leaves is garbage in the folder, which the caller's is.
        self.make_folders(place)
        probe_exclusive_put(self, place, hint=_CONDITIONAL_PUTS)
        probe_publish(self, place)
        self._probe_checksum(f"{place}/checksum")
        self.remove(place)

    def _probe_checksum(self, path: str) -> None:
        """A store may know no checksums; a store that keeps a wrong one would attest anything."""
        wrong = crc_header(f"{google_crc32c.value(b'another content'):08x}")
        try:
            self._ask("put_object", path, Body=b"content", ChecksumCRC32C=wrong)
        except StorageUnavailableError:
            if self.status(path) is None:
                return
            raise
        if self._ask("head_object", path, ChecksumMode="ENABLED").get("ChecksumCRC32C") == wrong:
            raise UnhealthyEnvironmentError(
                f"{path.rpartition('/')[0]} keeps a checksum that is not the content's",
                hint="the store attests what it has not compared; take another, or a newer version",
            )

    def put_if_absent(self, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        """See `Storage.put_if_absent`."""
        del tmp_folder
        try:
            self._ask("put_object", path, Body=content, IfNoneMatch="*")
        except StorageUnavailableError as error:
            # No answer but a plain yes decides; what the slot holds does.
            found = self.read(path)
            if found is None:
                if isinstance(error, ConditionFailedError):
                    raise StorageUnavailableError("it is being written", where=path) from error
                raise
            return PutResult.CREATED if found == content else PutResult.EXISTS
        return PutResult.CREATED

    def overwrite(self, path: str, content: bytes) -> None:
        """See `Storage.overwrite`."""
        self._ask("put_object", path, Body=content)

    def read(self, path: str) -> bytes | None:
        """See `Storage.read`."""
        try:
            return self._content(path)
        except NotThereError:
            return None

    def status(self, path: str) -> FileStatus | None:
        """See `Storage.status`."""
        try:
            head = self._ask("head_object", path)
        except NotThereError:
            pass
        else:
            size_bytes = int(head["ContentLength"])
            return FileStatus(path, size_bytes, is_dir=False, changed_ms=_changed_ms(head))
        name = object_name(path)
        below = self.requests.ask("list_objects_v2", name, Prefix=f"{name.key}/", MaxKeys=1)
        return FileStatus(path, 0, is_dir=True) if below.get("Contents") else None

    def has_file(self, path: str) -> bool:
        """See `Storage.has_file`: one request, where `status` also asks for a folder."""
        return self._size(path) is not None

    def list(self, folder: str) -> list[FileStatus]:
        """See `Storage.list`."""
        name = object_name(folder)
        prefix = f"{name.key}/" if name.key else ""
        found = []
        for page in self._pages(name, Prefix=prefix, Delimiter="/"):
            for each in page.get("Contents", ()):
                if each["Key"] != prefix:
                    path = f"{folder}/{each['Key'][len(prefix) :]}"
                    changed_ms = _changed_ms(each)
                    found.append(
                        FileStatus(path, each["Size"], is_dir=False, changed_ms=changed_ms)
                    )
            for each in page.get("CommonPrefixes", ()):
                path = f"{folder}/{each['Prefix'][len(prefix) : -1]}"
                found.append(FileStatus(path, 0, is_dir=True))
        return sorted(found, key=lambda status: status.path)

    def missing_parent(self, folder: str) -> str | None:
        """See `Storage.missing_parent`: a bucket that is missing refuses."""
        self.requests.ask("list_objects_v2", object_name(folder), MaxKeys=1)
        return None

    def make_folders(self, folder: str) -> None:
        """See `Storage.make_folders`: an empty object, as other programs write for a folder."""
        name = object_name(folder)
        if name.key:
            self.requests.ask("put_object", name, Key=f"{name.key}/", Body=b"")

    def expect_files(self, folder: str) -> None:
        """See `Storage.expect_files`: the names of the files make it."""

    def create_staged(self, path: str) -> StagedWriter:
        """See `Storage.create_staged`."""
        with self._lock:
            if path in self._begun:
                raise StorageUnavailableError("it was begun already", where=path)
            self._begun.add(path)
        return StagedObject(
            self.requests, object_name(path), self._crc32c, partial(self._forget, path)
        )

    def _forget(self, path: str) -> None:
        with self._lock:
            self._begun.discard(path)

    def sync_folder(self, folder: str) -> None:
        """See `Storage.sync_folder`: what was answered is durable."""

    def publish(self, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
        """See `Storage.publish`: the staged object stays, until garbage collection takes it."""
        if self._is_published(dst, size_bytes, crc32c):
            return
        # Another driver may have published it, and collected the staged one.
        with suppress(NotThereError):
            self._copy(src, dst, size_bytes)
        if not self._is_published(dst, size_bytes, crc32c):
            raise FileLostError(
                "a committed file is neither staged nor published",
                where=dst,
                hint="run `sluiceway verify JOB` and restore the file from a backup",
            )

    def share(self, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
        """See `Storage.share`: the store copies, once more what was copied some time ago."""
        self.publish(src, dst, size_bytes=size_bytes, crc32c=crc32c)
        changed_ms = _changed_ms(self._ask("head_object", dst))
        if size_bytes > MOST_COPIED_BYTES or time.time() * 1000 - changed_ms < SHARED_ANEW_MS:
            return
        # Only what is right is copied over what is right.
        if self._kept(src, size_bytes) != (size_bytes, crc32c):
            return
        with suppress(NotThereError):
            source = object_name(src)
            given = {"Bucket": source.bucket, "Key": source.key}
            self._ask("copy_object", dst, CopySource=given)

    def pop_request_count(self) -> RequestCount:
        """See `Storage.pop_request_count`."""
        return self.requests.pop_count()

    def open_read(self, path: str) -> BinaryIO:
        """See `Storage.open_read`."""
        size_bytes = self._size(path)
        if size_bytes is None:
            raise StorageUnavailableError("it is not there", where=path)
        reader = WindowReader(size_bytes, partial(self._piece, path))
        return cast("BinaryIO", io.BufferedReader(reader, _BUFFER_BYTES))

    def remove(self, path: str) -> None:
        """See `Storage.remove`; unfinished uploads below a folder go along."""
        name = object_name(path)
        folder = f"{name.key}/"
        keys = [
            each["Key"]
            for page in self._pages(name, Prefix=name.key)
            for each in page.get("Contents", ())
            if each["Key"] == name.key or each["Key"].startswith(folder)
        ]
        if folder in keys:
            self._abort_uploads(name, folder)
        for start in range(0, len(keys), _DELETED_AT_ONCE):
            self._delete(name, keys[start : start + _DELETED_AT_ONCE])

    def _abort_uploads(self, name: ObjectName, prefix: str) -> None:
        """Two thousand of them at most: the rest goes with the next collection."""
        answer = self.requests.ask("list_multipart_uploads", name, Prefix=prefix)
        for upload in answer.get("Uploads", ()):
            try:
                self.requests.ask(
                    "abort_multipart_upload",
                    name,
                    Key=upload["Key"],
                    UploadId=upload["UploadId"],
                )
            except NotThereError:
                continue

    def _delete(self, name: ObjectName, keys: Sequence[str]) -> None:
        objects = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        answer = self.requests.ask("delete_objects", name, Delete=objects)
        for refused in answer.get("Errors", ()):
            raise StorageUnavailableError(
                f"cannot remove {refused.get('Key')}: {refused.get('Code')}: "
                f"{refused.get('Message')}",
                where=name.location,
            )

    def _is_published(self, path: str, size_bytes: int, crc32c: str) -> bool:
        """Whether the object is there and is the file; another one in its place is an error."""
        found = self._kept(path, size_bytes)
        if found is None:
            return False
        if found != (size_bytes, crc32c):
            raise FileLostError(
                "another file stands at the final name of a committed file",
                where=path,
                hint="move it away and start again",
            )
        return True

    def _kept(self, path: str, size_bytes: int) -> tuple[int, str | None] | None:
        """Size and checksum of an object; the latter None when the size is another already."""
        try:
            head = self._ask("head_object", path, ChecksumMode="ENABLED")
        except NotThereError:
            return None
        crc32c = crc_of(head)
        if crc32c is None and head["ContentLength"] == size_bytes:
            crc32c = self._crc32c(path)
        return head["ContentLength"], crc32c

    def _crc32c(self, path: str) -> str:
        """That of an object which is read whole."""
        try:
            with self.open_read(path) as stream:
                return stream_crc32c(stream)
        except OSError as error:
            raise StorageUnavailableError(f"cannot read {path}: {error}") from error

    def _copy(self, src: str, dst: str, size_bytes: int) -> None:
        source = object_name(src)
        given = {"Bucket": source.bucket, "Key": source.key}
        if size_bytes > MOST_COPIED_BYTES:
            self._copy_in_parts(given, dst, size_bytes)
            return
        try:
            self._ask("copy_object", dst, CopySource=given, IfNoneMatch="*")
        except ConditionFailedError:
            # Another publisher was faster; the caller reads the object.
            return

    def _copy_in_parts(self, source: Mapping[str, str], dst: str, size_bytes: int) -> None:
        """A large object; an upload that fails is begun again from the source.

        No checksum is asked for: one server took a part's for that of the whole source. The
        caller reads the copy, and compares that.
        """
        upload = self._ask("create_multipart_upload", dst)["UploadId"]
        parts = []
        try:
            for number, start in enumerate(range(0, size_bytes, _COPIED_PART_BYTES), 1):
                last = min(start + _COPIED_PART_BYTES, size_bytes) - 1
                answer = self._ask(
                    "upload_part_copy",
                    dst,
                    CopySource=source,
                    CopySourceRange=f"bytes={start}-{last}",
                    PartNumber=number,
                    UploadId=upload,
                )["CopyPartResult"]
                parts.append({"PartNumber": number, "ETag": answer["ETag"]})
            self._ask(
                "complete_multipart_upload",
                dst,
                UploadId=upload,
                MultipartUpload={"Parts": parts},
                IfNoneMatch="*",
            )
        except StorageUnavailableError as error:
            self._ask("abort_multipart_upload", dst, UploadId=upload)
            if not isinstance(error, ConditionFailedError):
                raise

    def _size(self, path: str) -> int | None:
        try:
            return int(self._ask("head_object", path)["ContentLength"])
        except NotThereError:
            return None

    def _piece(self, path: str, first: int, last: int) -> bytes:
        return self._content(path, Range=f"bytes={first}-{last}")

    def _content(self, path: str, **given: Any) -> bytes:
        body = self._ask("get_object", path, **given)["Body"]
        return self.requests.received(body, path)

    def _pages(self, name: ObjectName, **given: Any) -> Iterator[Mapping[str, Any]]:
        page = self.requests.ask("list_objects_v2", name, **given)
        yield page
        while page.get("IsTruncated"):
            token = page["NextContinuationToken"]
            page = self.requests.ask("list_objects_v2", name, ContinuationToken=token, **given)
            yield page

    def _ask(self, operation: str, path: str, **given: Any) -> Mapping[str, Any]:
        """A request about one object."""
        name = object_name(path)
        return self.requests.ask(operation, name, Key=name.key, **given)
