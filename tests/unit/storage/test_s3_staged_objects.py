"""A staged object of an S3 store, and its final name, against a store in memory that is strict."""

# ruff: noqa: N803 - the protocol's own names

from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import google_crc32c
import pytest
from botocore.exceptions import ClientError, IncompleteReadError

from sluiceway.errors import FileLostError, StorageUnavailableError
from sluiceway.storage.contract import FileSeal
from sluiceway.storage.s3 import staging
from sluiceway.storage.s3 import storage as storage_module
from sluiceway.storage.s3.requests import Requests, crc_header
from sluiceway.storage.s3.staging import StagedObject
from sluiceway.storage.s3.storage import S3Storage, object_name

PATH = "s3a://lake/t/stage/a/f.parquet"
KEY = "t/stage/a/f.parquet"
FINAL = "s3a://lake/t/dt=1/f.parquet"
SMALL, LARGE = b"row", b"abcdefghij"


def crc(content: bytes) -> str:
    return f"{google_crc32c.value(content):08x}"


class Store:
    """Objects of one bucket, by key.

    Attributes:
        asked: Operation and what was given, of each request.
        twice: Operations that arrive twice: the answer to the second is what is heard.
        says_checksums: Whether answers tell them.
        wrong: What an answer to a put tells instead of the object's checksum.
        down: Operations that fail.
        changed_s: When each object was last written, in seconds since 1970.
        breaks_off: Whether answers with content do.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.twice: set[str] = set()
        self.down: set[str] = set()
        self.says_checksums = True
        self.wrong = ""
        self.changed_s = 0.0
        self.breaks_off = False

    def __getattr__(self, operation: str) -> Any:
        return partial(self._take, operation)

    def _take(self, operation: str, **given: Any) -> dict[str, Any]:
        assert given.pop("Bucket") == "lake"
        self.asked.append((operation, given))
        if operation in self.down:
            raise refusal("InternalError", operation)
        does = getattr(self, f"_{operation}")
        answer = does(**given)
        return cast("dict[str, Any]", does(**given) if operation in self.twice else answer)

    def operations(self) -> list[str]:
        return [operation for operation, _ in self.asked]

    def _put_object(
        self, Key: str, Body: bytes, IfNoneMatch: str = "", ChecksumCRC32C: str = ""
    ) -> dict[str, Any]:
        return self._add(Key, Body, IfNoneMatch, ChecksumCRC32C or crc_header(crc(Body)))

    def _add(self, key: str, body: bytes, condition: str, checksum: str) -> dict[str, Any]:
        if condition == "*" and key in self.objects:
            raise refusal("PreconditionFailed", "put")
        if checksum != crc_header(crc(body)):
            raise refusal("BadDigest", "put")
        self.objects[key] = body
        return self._told(self.wrong or crc(body))

    def _told(self, checksum: str) -> dict[str, Any]:
        return {"ChecksumCRC32C": crc_header(checksum)} if self.says_checksums else {}

    def _create_multipart_upload(self, **_: Any) -> dict[str, Any]:
        name = f"u{len(self.uploads)}"
        self.uploads[name] = {}
        return {"UploadId": name}

    def _upload_part(
        self, Key: str, UploadId: str, PartNumber: int, Body: bytes, ChecksumCRC32C: str
    ) -> dict[str, Any]:
        assert Key == KEY
        if PartNumber < 1 or not Body or ChecksumCRC32C != crc_header(crc(Body)):
            raise refusal("InvalidPart", "part")
        self.uploads[UploadId][PartNumber] = Body
        return {"ETag": f"e{PartNumber}"}

    def _complete_multipart_upload(
        self,
        Key: str,
        UploadId: str,
        MultipartUpload: dict[str, list[dict[str, Any]]],
        IfNoneMatch: str,
        ChecksumCRC32C: str,
        ChecksumType: str,
    ) -> dict[str, Any]:
        assert ChecksumType == "FULL_OBJECT"
        if UploadId not in self.uploads:
            raise refusal("NoSuchUpload", "complete")
        held = self.uploads[UploadId]
        named = {each["PartNumber"]: each["ETag"] for each in MultipartUpload["Parts"]}
        if named != {number: f"e{number}" for number in held}:
            raise refusal("InvalidPart", "complete")
        content = b"".join(held[number] for number in sorted(held))
        answer = self._add(Key, content, IfNoneMatch, ChecksumCRC32C)
        del self.uploads[UploadId]
        return answer

    def _abort_multipart_upload(self, Key: str, UploadId: str) -> dict[str, Any]:
        assert Key == KEY
        del self.uploads[UploadId]
        return {}

    def _head_object(self, Key: str, ChecksumMode: str = "") -> dict[str, Any]:
        if Key not in self.objects:
            raise refusal("404", "HeadObject")
        held = self.objects[Key]
        changed = datetime.fromtimestamp(self.changed_s, tz=UTC)
        told = self._told(crc(held)) if ChecksumMode else {}
        return {"ContentLength": len(held), "LastModified": changed, **told}

    def _get_object(self, Key: str, Range: str) -> dict[str, Any]:
        first, last = map(int, Range.removeprefix("bytes=").split("-"))
        return {"Body": _Body(self.objects[Key][first : last + 1], broken=self.breaks_off)}

    def _copy_object(self, Key: str, CopySource: dict[str, str], IfNoneMatch: str = "") -> object:
        if CopySource["Key"] not in self.objects:
            raise refusal("NoSuchKey", "copy")
        return self._put_object(Key, self.objects[CopySource["Key"]], IfNoneMatch)


class _Body:
    """The content of an answer, as botocore gives it."""

    def __init__(self, content: bytes, *, broken: bool) -> None:
        self._content = content
        self._broken = broken

    def read(self) -> bytes:
        if self._broken:
            raise IncompleteReadError(actual_bytes=0, expected_bytes=len(self._content))
        return self._content


def refusal(code: str, operation: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, operation)


class Staged:
    """A staged object of a store, and how often it has ended."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.ends = 0
        self.read_back: list[str] = []
        self.object = StagedObject(Requests(store), object_name(PATH), self._read_back, self._ended)

    def _read_back(self, path: str) -> str:
        self.read_back.append(path)
        return crc(self.store.objects[KEY])

    def _ended(self) -> None:
        self.ends += 1

    def write(self, content: bytes) -> "Staged":
        self.object.handle().write(content)
        return self


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(staging, "PART_BYTES", 4)
    return Store()


def test_small_object_is_sent_whole_and_once(store: Store) -> None:
    staged = Staged(store).write(SMALL)
    assert (store.asked, staged.object.held_bytes, staged.ends) == ([], 3, 0)
    assert staged.object.seal() == FileSeal(3, crc(SMALL), attested=True)
    # What the store has told of the checksum needs no further look.
    assert store.operations() == ["put_object"]
    assert store.objects == {KEY: SMALL}
    staged.object.abort()
    assert (staged.ends, store.operations()) == (1, ["put_object"])


@pytest.mark.parametrize("content", [LARGE, LARGE[:8]])
def test_large_object_is_sent_in_parts_below_a_folder_that_is_found(
    store: Store, content: bytes
) -> None:
    staged = Staged(store).write(content)
    assert staged.object.held_bytes == len(content) % 4
    assert KEY not in store.objects
    assert staged.object.seal() == FileSeal(len(content), crc(content), attested=True)
    # An abandoned upload is found by its folder, and that must have a name of its own.
    assert store.objects == {"t/stage/a/": b"", KEY: content}
    assert store.uploads == {}
    parts = -(-len(content) // 4)
    asked = ["put_object", "create_multipart_upload", *["upload_part"] * parts]
    assert store.operations() == [*asked, "complete_multipart_upload"]
    assert staged.ends == 1


@pytest.mark.parametrize("says_checksums", [True, False])
@pytest.mark.parametrize("content", [SMALL, LARGE])
def test_object_whose_first_answer_is_lost_is_looked_at_and_sealed(
    store: Store, content: bytes, *, says_checksums: bool
) -> None:
    store.says_checksums = says_checksums
    staged = Staged(store).write(content)
    store.twice = {"put_object", "complete_multipart_upload"}
    assert staged.object.seal() == FileSeal(len(content), crc(content), attested=True)
    assert store.operations()[-1] == "head_object"
    assert staged.read_back == ([] if says_checksums else [PATH])


@pytest.mark.parametrize("found", [b"raw", b"rows"])
def test_object_of_another_in_its_place_is_never_sealed(store: Store, found: bytes) -> None:
    store.objects[KEY] = found
    staged = Staged(store).write(SMALL)
    with pytest.raises(StorageUnavailableError, match=f"holds {len(found)} bytes"):
        staged.object.seal()
    assert staged.ends == 0


def test_object_of_which_the_store_keeps_another_checksum_is_never_sealed(store: Store) -> None:
    store.wrong = crc(b"bit")
    staged = Staged(store).write(SMALL)
    with pytest.raises(StorageUnavailableError, match="keeps the checksum"):
        staged.object.seal()
    assert staged.ends == 0


def test_object_that_is_dropped_takes_its_upload_along_and_ends_once(store: Store) -> None:
    staged = Staged(store).write(LARGE)
    assert list(store.uploads) == ["u0"]
    staged.object.abort()
    staged.object.abort()
    assert (store.uploads, staged.ends) == ({}, 1)
    unsent = Staged(store).write(SMALL)
    asked = len(store.asked)
    unsent.object.abort()
    assert (len(store.asked), unsent.ends) == (asked, 1)


def test_object_whose_upload_cannot_be_dropped_is_garbage_and_no_error(store: Store) -> None:
    staged = Staged(store).write(LARGE)
    store.down = {"abort_multipart_upload"}
    staged.object.abort()
    assert (list(store.uploads), staged.ends) == (["u0"], 1)


@pytest.fixture
def storage(store: Store, monkeypatch: pytest.MonkeyPatch) -> S3Storage:
    monkeypatch.setattr(storage_module, "s3_client", lambda access: store)
    return S3Storage(cast("Any", SimpleNamespace(options=())))


def _publish(storage: S3Storage) -> None:
    storage.publish(PATH, FINAL, size_bytes=len(SMALL), crc32c=crc(SMALL))


def test_file_gets_its_final_name_by_one_copy_that_is_looked_at(
    store: Store, storage: S3Storage
) -> None:
    store.objects[KEY] = SMALL
    _publish(storage)
    assert store.operations() == ["head_object", "copy_object", "head_object"]
    assert store.objects == {KEY: SMALL, "t/dt=1/f.parquet": SMALL}
    store.asked.clear()
    _publish(storage)
    assert store.operations() == ["head_object"]


def test_file_that_is_neither_staged_nor_published_is_lost(storage: S3Storage) -> None:
    with pytest.raises(FileLostError, match="neither staged nor published"):
        _publish(storage)


def test_answer_that_breaks_off_while_a_copy_is_read_back_is_an_outage(
    store: Store, storage: S3Storage
) -> None:
    store.says_checksums = False
    store.objects[KEY] = SMALL
    _publish(storage)
    store.breaks_off = True
    with pytest.raises(StorageUnavailableError, match="cannot read"):
        _publish(storage)


def test_second_name_gets_a_new_time_by_a_copy_of_what_is_right(
    store: Store, storage: S3Storage
) -> None:
    store.objects[KEY] = SMALL
    for _ in range(2):
        storage.share(PATH, FINAL, size_bytes=len(SMALL), crc32c=crc(SMALL))
    assert store.operations().count("copy_object") == 3
    assert store.objects["t/dt=1/f.parquet"] == SMALL


def test_source_that_was_altered_is_never_copied_over_a_right_second_name(
    store: Store, storage: S3Storage
) -> None:
    store.objects[KEY] = SMALL
    _publish(storage)
    store.objects[KEY] = b"WOR"
    storage.share(PATH, FINAL, size_bytes=len(SMALL), crc32c=crc(SMALL))
    assert store.objects["t/dt=1/f.parquet"] == SMALL


def test_page_of_a_gateway_is_no_word_that_an_object_is_missing(
    store: Store, storage: S3Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def page(**_: object) -> dict[str, Any]:
        raise refusal("404", "GetObject")

    monkeypatch.setattr(store, "get_object", page, raising=False)
    with pytest.raises(StorageUnavailableError, match="404"):
        storage.read(PATH)
