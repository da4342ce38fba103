"""S3 at its edges: stores with other manners, lost answers, large files, logins that are wrong."""

from dataclasses import replace
from uuid import uuid4

import google_crc32c
import pytest

from sluiceway.errors import (
    FileLostError,
    StorageRefusedError,
    StorageUnavailableError,
    UnhealthyEnvironmentError,
)
from sluiceway.lab.s3 import S3Endpoint
from sluiceway.storage.contract import PutResult
from sluiceway.storage.s3 import storage as s3_storage
from sluiceway.storage.s3.staging import PART_BYTES
from sluiceway.storage.s3.storage import S3Storage
from tools.s3_proxy import Asked, Manners, S3Proxy

LARGE = PART_BYTES + 12_345


@pytest.fixture
def folder(s3: S3Endpoint) -> str:
    return f"s3a://{s3.bucket}/tests/{uuid4().hex}"


@pytest.fixture
def storage(s3: S3Endpoint) -> S3Storage:
    return S3Storage(s3.access)


def _first(method: str, sign: str) -> Manners:
    """A store that loses the answer to the first such request, once it is carried out."""
    left = [1]

    def loses(asked: Asked) -> bool:
        return asked.method == method and sign in asked.path and bool(left) and bool(left.pop())

    return Manners(loses_reply=loses)


def _staged(storage: S3Storage, path: str, content: bytes) -> tuple[int, str]:
    writer = storage.create_staged(path)
    writer.handle().write(content)
    seal = writer.seal()
    assert seal.attested
    return seal.size_bytes, seal.crc32c


def test_store_that_ignores_conditions_is_refused(s3: S3Endpoint, folder: str) -> None:
    with (
        S3Proxy(s3, Manners(ignores_conditions=True)) as proxy,
        pytest.raises(UnhealthyEnvironmentError, match="8 of 8 writers") as refused,
    ):
        S3Storage(proxy.access).probe(folder)
    assert "If-None-Match" in refused.value.hint


def test_store_that_keeps_any_checksum_is_refused(s3: S3Endpoint, folder: str) -> None:
    with (
        S3Proxy(s3, Manners(keeps_any_checksum=True)) as proxy,
        pytest.raises(UnhealthyEnvironmentError, match="not the content's"),
    ):
        S3Storage(proxy.access).probe(folder)


def test_store_without_checksums_is_read_back(s3: S3Endpoint, folder: str) -> None:
    with S3Proxy(s3, Manners(tells_no_checksums=True)) as proxy:
        storage = S3Storage(proxy.access)
        storage.probe(folder)
        proxy.manners.asked.clear()
        size, crc = _staged(storage, f"{folder}/f", b"rows")
        assert "GET" in {asked.method for asked in proxy.manners.asked}
        storage.publish(f"{folder}/f", f"{folder}/g", size_bytes=size, crc32c=crc)
        storage.overwrite(f"{folder}/g", b"ROWS")
        with pytest.raises(FileLostError):
            storage.publish(f"{folder}/f", f"{folder}/g", size_bytes=size, crc32c=crc)


def test_put_whose_answer_is_lost_is_mine(s3: S3Endpoint, folder: str) -> None:
    with S3Proxy(s3, _first("PUT", "slot")) as proxy:
        storage = S3Storage(proxy.access)
        put = storage.put_if_absent(f"{folder}/slot", b"me", tmp_folder=folder)
        assert put is PutResult.CREATED
        assert storage.put_if_absent(f"{folder}/slot", b"you", tmp_folder=folder) is (
            PutResult.EXISTS
        )


@pytest.mark.parametrize("content", [b"small", b"x" * LARGE], ids=["whole", "in parts"])
def test_staged_file_whose_last_answer_is_lost_is_sealed(
    s3: S3Endpoint, folder: str, content: bytes
) -> None:
    large = len(content) > PART_BYTES
    method, sign = ("POST", "uploadId") if large else ("PUT", "/f")
    with S3Proxy(s3, _first(method, sign)) as proxy:
        storage = S3Storage(proxy.access)
        size, crc = _staged(storage, f"{folder}/f", content)
        assert (size, crc) == (len(content), f"{google_crc32c.value(content):08x}")
        assert storage.read(f"{folder}/f") == content


def test_publish_whose_answer_is_lost_is_done(s3: S3Endpoint, folder: str) -> None:
    with S3Proxy(s3, _first("PUT", "/g")) as proxy:
        storage = S3Storage(proxy.access)
        size, crc = _staged(storage, f"{folder}/f", b"rows")
        storage.publish(f"{folder}/f", f"{folder}/g", size_bytes=size, crc32c=crc)
        assert storage.read(f"{folder}/g") == b"rows"


def test_store_that_is_busy_for_a_moment_is_asked_again(s3: S3Endpoint, folder: str) -> None:
    left = [1, 1]
    manners = Manners(refuses=lambda _: bool(left) and bool(left.pop()))
    with S3Proxy(s3, manners) as proxy:
        S3Storage(proxy.access).overwrite(f"{folder}/f", b"x")
    assert len(manners.asked) == 3


def test_store_that_stays_busy_is_an_outage(s3: S3Endpoint, folder: str) -> None:
    with S3Proxy(s3, Manners(refuses=lambda _: True)) as proxy:
        storage = S3Storage(proxy.access)
        with pytest.raises(StorageUnavailableError) as failed:
            storage.read(f"{folder}/f")
    assert not isinstance(failed.value, StorageRefusedError)


def test_large_file_is_sent_in_parts_and_copied_in_parts(
    storage: S3Storage, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytes(range(256)) * (LARGE // 256)
    size, crc = _staged(storage, f"{folder}/stage/f", content)
    monkeypatch.setattr(s3_storage, "MOST_COPIED_BYTES", 0)
    monkeypatch.setattr(s3_storage, "_COPIED_PART_BYTES", PART_BYTES)
    for _ in range(2):
        storage.publish(f"{folder}/stage/f", f"{folder}/g", size_bytes=size, crc32c=crc)
    assert storage.read(f"{folder}/g") == content
    assert storage.requests.counts()["upload_part_copy"] == 2


def test_file_that_is_altered_in_the_store_is_never_published(
    storage: S3Storage, folder: str
) -> None:
    size, crc = _staged(storage, f"{folder}/f", b"rows")
    storage.overwrite(f"{folder}/f", b"ROWS")
    with pytest.raises(FileLostError):
        storage.publish(f"{folder}/f", f"{folder}/g", size_bytes=size, crc32c=crc)


def test_abandoned_upload_goes_with_its_folder(storage: S3Storage, folder: str) -> None:
    writer = storage.create_staged(f"{folder}/1-0-u/f")
    writer.handle().write(b"x" * LARGE)
    # The task dies here. Its folder is what garbage collection finds.
    assert [status.path for status in storage.list(folder)] == [f"{folder}/1-0-u"]
    assert _uploads(storage, folder) == 1
    storage.remove(f"{folder}/1-0-u")
    assert _uploads(storage, folder) == 0
    assert storage.list(folder) == []


def test_upload_that_is_dropped_leaves_nothing_to_pay_for(storage: S3Storage, folder: str) -> None:
    writer = storage.create_staged(f"{folder}/1-0-u/f")
    writer.handle().write(b"x" * LARGE)
    writer.abort()
    assert _uploads(storage, folder) == 0
    with pytest.raises(StorageUnavailableError):
        writer.seal()


def _uploads(storage: S3Storage, folder: str) -> int:
    name = s3_storage.object_name(folder)
    answer = storage.requests.ask("list_multipart_uploads", name, Prefix=name.key)
    return len(answer.get("Uploads", ()))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"secret_key": "another"}, "SignatureDoesNotMatch"),
        ({"access_key": "nobody"}, "XAdminUserNotFound"),
    ],
)
def test_wrong_login_is_refused_in_one_line(
    s3: S3Endpoint, folder: str, change: dict[str, str], told: str
) -> None:
    storage = S3Storage(replace(s3, **change).access)  # type: ignore[arg-type]
    with pytest.raises(StorageRefusedError, match=told):
        storage.read(f"{folder}/f")
    with pytest.raises(StorageRefusedError, match=told) as refused:
        storage.overwrite(f"{folder}/f", b"x")
    assert refused.value.exit_code == 5
    assert "\n" not in str(refused.value)
    assert s3.secret_key not in str(refused.value)


def test_bucket_that_is_missing_is_refused_in_one_line(storage: S3Storage) -> None:
    with pytest.raises(StorageRefusedError, match="NoSuchBucket") as refused:
        storage.probe("s3a://no-such-bucket/t")
    assert "make the bucket" in refused.value.hint


def test_address_where_nobody_listens_is_an_outage(s3: S3Endpoint, folder: str) -> None:
    access = replace(s3, url="http://127.0.0.1:9").access
    with pytest.raises(StorageUnavailableError) as failed:
        S3Storage(access).read(f"{folder}/f")
    assert not isinstance(failed.value, StorageRefusedError)
