"""What a table on S3 costs in requests: counted for one epoch of eight files."""

from uuid import uuid4

from sluiceway.lab.s3 import S3Endpoint
from sluiceway.storage.s3.requests import WRITES
from sluiceway.storage.s3.storage import S3Storage

FILES = 8


def test_staging_and_publishing_eight_files_costs_two_writes_and_two_looks_each(
    s3: S3Endpoint,
) -> None:
    storage, folder = S3Storage(s3.access), f"s3a://{s3.bucket}/requests/{uuid4().hex}"
    storage.expect_files(f"{folder}/stage")
    seals = []
    for number in range(FILES):
        writer = storage.create_staged(f"{folder}/stage/{number}")
        writer.handle().write(b"rows" * 1000)
        seals.append(writer.seal())
    assert storage.requests.counts() == {"put_object": FILES}
    for number, seal in enumerate(seals):
        storage.publish(
            f"{folder}/stage/{number}",
            f"{folder}/p=1/{number}",
            size_bytes=seal.size_bytes,
            crc32c=seal.crc32c,
        )
    storage.remove(f"{folder}/stage")
    counts = storage.requests.counts()
    assert counts == {
        "put_object": FILES,
        "head_object": 2 * FILES,
        "copy_object": FILES,
        "list_objects_v2": 1,
        "delete_objects": 1,
    }
    assert sum(count for name, count in counts.items() if name in WRITES) == 2 * FILES + 1
