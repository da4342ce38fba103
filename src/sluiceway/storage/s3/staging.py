"""A staged object: sent whole, or in parts once it is large; complete before it has a name."""

from collections.abc import Callable
from typing import BinaryIO, cast

import google_crc32c

from sluiceway.errors import StorageUnavailableError
from sluiceway.storage.contract import FileSeal, StagedWriter
from sluiceway.storage.s3.requests import (
    ConditionFailedError,
    NotThereError,
    ObjectName,
    Requests,
    crc_header,
    crc_of,
)

PART_BYTES = 5 << 20
"""Memory of an open file, and the length of all parts but the last: the least that the protocol
takes. 10,000 parts, the most of a file, are 48 GiB."""

ReadBack = Callable[[str], str]
"""Reads an object whole, and gives its checksum."""


class StagedObject(StagedWriter):
    """Gathers what is written and sends it. One thread.

    Args:
        requests: Requests to the store.
        name: Name of the object.
        read_back: For a store that returns no checksum.
        on_end: Called once, when it is sealed or dropped.
    """

    def __init__(
        self,
        requests: Requests,
        name: ObjectName,
        read_back: ReadBack,
        on_end: Callable[[], None],
    ) -> None:
        self.path = name.location
        self._requests = requests
        self._name = name
        self._read_back = read_back
        self._on_end = on_end
        self._stream = _PartStream(self._send_part)
        self._upload: str | None = None
        self._parts: list[dict[str, object]] = []
        self._ended = False

    def handle(self) -> BinaryIO:
        """See `StagedWriter.handle`."""
        return cast("BinaryIO", self._stream)

    @property
    def held_bytes(self) -> int:
        """See `StagedWriter.held_bytes`: of a part that is not whole yet."""
        return self._stream.gathered_bytes

    def seal(self) -> FileSeal:
        """See `StagedWriter.seal`."""
        crc32c = self._stream.crc32c()
        try:
            if self._upload is None:
                told = self._put(self._stream.pop(), crc32c)
            else:
                told = self._complete(self._upload, crc32c)
        except ConditionFailedError:
            # An earlier try of this very request, whose answer was lost; or another's object.
            told = None
        if told is None:
            self._compare(crc32c)
        elif told != crc32c:
            raise StorageUnavailableError(
                f"{self.path}: the store keeps the checksum {told}, expected {crc32c}"
            )
        self._end()
        return FileSeal(self._stream.size_bytes, crc32c, attested=True)

    def abort(self) -> None:
        """See `StagedWriter.abort`."""
        if self._ended:
            return
        self._end()
        if self._upload is None:
            return
        try:
            self._requests.ask(
                "abort_multipart_upload",
                self._name,
                Key=self._name.key,
                UploadId=self._upload,
            )
        except StorageUnavailableError:
            # What is left of it goes with the folder of the attempt.
            return

    def _end(self) -> None:
        self._ended = True
        self._on_end()

    def _put(self, content: bytes, crc32c: str) -> str | None:
        answer = self._requests.ask(
            "put_object",
            self._name,
            Key=self._name.key,
            Body=content,
            IfNoneMatch="*",
            ChecksumCRC32C=crc_header(crc32c),
        )
        return crc_of(answer)

    def _send_part(self, content: bytes) -> None:
        if self._upload is None:
            self._upload = self._begin()
        number = len(self._parts) + 1
        header = crc_header(f"{google_crc32c.value(content):08x}")
        answer = self._requests.ask(
            "upload_part",
            self._name,
            Key=self._name.key,
            UploadId=self._upload,
            PartNumber=number,
            Body=content,
            ChecksumCRC32C=header,
        )
        self._parts.append({"PartNumber": number, "ETag": answer["ETag"], "ChecksumCRC32C": header})

    def _begin(self) -> str:
        # The folder's own object is what garbage collection finds an abandoned upload by.
        marker = f"{self._name.key.rpartition('/')[0]}/"
        self._requests.ask("put_object", self._name, Key=marker, Body=b"")
        answer = self._requests.ask(
            "create_multipart_upload",
            self._name,
            Key=self._name.key,
            ChecksumAlgorithm="CRC32C",
            ChecksumType="FULL_OBJECT",
        )
        return str(answer["UploadId"])

    def _complete(self, upload: str, crc32c: str) -> str | None:
        if last := self._stream.pop():
            self._send_part(last)
        try:
            answer = self._requests.ask(
                "complete_multipart_upload",
                self._name,
                Key=self._name.key,
                UploadId=upload,
                MultipartUpload={"Parts": self._parts},
                IfNoneMatch="*",
                ChecksumCRC32C=crc_header(crc32c),
                ChecksumType="FULL_OBJECT",
            )
        except NotThereError:
            # Complete already: an earlier try, whose answer was lost.
            return None
        return crc_of(answer)

    def _compare(self, crc32c: str) -> None:
        """See by the store's own word, or by reading, that the object is what was written."""
        head = self._requests.ask(
            "head_object", self._name, Key=self._name.key, ChecksumMode="ENABLED"
        )
        found = crc_of(head)
        if found is None:
            found = self._read_back(self.path)
        if (found, head["ContentLength"]) != (crc32c, self._stream.size_bytes):
            raise StorageUnavailableError(
                f"{self.path} holds {head['ContentLength']} bytes with the checksum {found}, "
                f"expected {self._stream.size_bytes} with {crc32c}"
            )


class _PartStream:
    """What pyarrow needs of a file object: counts, sums and hands parts on."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._checksum = google_crc32c.Checksum()
        self._gathered = bytearray()
        self._failed = False
        self.size_bytes = 0
        self.closed = False

    def write(self, data: bytes | memoryview) -> int:
        if self._failed:
            raise OSError("an earlier write has failed")
        chunk = bytes(data)
        self._gathered += chunk
        self._checksum.update(chunk)
        self.size_bytes += len(chunk)
        while len(self._gathered) >= PART_BYTES:
            part = bytes(self._gathered[:PART_BYTES])
            self._failed = True
            self._send(part)
            self._failed = False
            del self._gathered[:PART_BYTES]
        return len(chunk)

    @property
    def gathered_bytes(self) -> int:
        return len(self._gathered)

    def pop(self) -> bytes:
        """Gathered bytes that were not sent."""
        if self._failed:
            raise StorageUnavailableError("an earlier write has failed")
        rest = bytes(self._gathered)
        self._gathered.clear()
        return rest

    def tell(self) -> int:
        return self.size_bytes

    def flush(self) -> None:
        # The store takes large parts only.
        return

    def close(self) -> None:
        # The writer of a format closes its stream; the staged writer still has to send it.
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def crc32c(self) -> str:
        return cast("bytes", self._checksum.hexdigest()).decode()
