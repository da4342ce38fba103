"""Answers of S3 stores: which of our errors they are, and what a person does about them."""

import pickle

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError

from sluiceway.errors import StorageFullError, StorageRefusedError, StorageUnavailableError
from sluiceway.storage.s3.requests import crc_header, crc_of, failure, is_condition, is_missing
from sluiceway.storage.s3.storage import object_name, s3_location


def answer(code: str, status: int = 400, operation: str = "PutObject") -> ClientError:
    told = {"Code": code, "Message": "no.", "AWSAccessKeyId": "k", "StringToSign": "signed"}
    return ClientError({"Error": told, "ResponseMetadata": {"HTTPStatusCode": status}}, operation)


@pytest.mark.parametrize(
    ("code", "kind", "hint"),
    [
        ("NoSuchBucket", StorageRefusedError, "make the bucket"),
        ("AccessDenied", StorageRefusedError, "allow this login"),
        ("403", StorageRefusedError, "allow this login"),
        ("ExpiredToken", StorageRefusedError, "session_token"),
        ("RequestTimeTooSkewed", StorageRefusedError, "clock"),
        ("PermanentRedirect", StorageRefusedError, "region or endpoint"),
        ("InvalidObjectState", StorageRefusedError, "lifecycle"),
        ("MethodNotAllowed", StorageRefusedError, "read-only"),
        ("QuotaExceeded", StorageFullError, "quota"),
        ("SlowDown", StorageUnavailableError, ""),
        ("InternalError", StorageUnavailableError, ""),
    ],
)
def test_answer_is_one_line_with_the_way_out(
    code: str, kind: type[StorageUnavailableError], hint: str
) -> None:
    told = failure("cannot put s3a://b/k", answer(code))
    assert type(told) is kind
    assert hint in told.hint
    assert told.message == f"cannot put s3a://b/k: {code}: no."
    assert str(pickle.loads(pickle.dumps(told))) == str(told)  # noqa: S301 - our own


def test_machine_without_a_login_is_refused_and_silence_is_an_outage() -> None:
    assert type(failure("x", NoCredentialsError())) is StorageRefusedError
    silence = EndpointConnectionError(endpoint_url="http://s3:9000")
    assert type(failure("x", silence)) is StorageUnavailableError


def test_missing_and_condition_are_told_apart_from_a_missing_bucket() -> None:
    assert is_missing(answer("NoSuchKey", 404))
    assert is_missing(answer("404", 404, "HeadObject"))
    # A gateway's own page: the store has said nothing.
    assert not is_missing(answer("404", 404, "GetObject"))
    assert not is_missing(answer("NoSuchBucket", 404))
    assert not is_missing(answer("XAdminUserNotFound", 404))
    assert is_condition(answer("PreconditionFailed", 412))
    assert is_condition(answer("ConditionalRequestConflict", 409))
    assert not is_condition(answer("NoSuchKey", 404))


def test_checksum_counts_only_when_it_is_of_the_whole_object() -> None:
    assert crc_of({"ChecksumCRC32C": crc_header("9a71bb4c")}) == "9a71bb4c"
    assert crc_of({}) is None
    assert crc_of({"ChecksumCRC32C": f"{crc_header('9a71bb4c')}-3"}) is None
    composite = {"ChecksumCRC32C": crc_header("9a71bb4c"), "ChecksumType": "COMPOSITE"}
    assert crc_of(composite) is None


@pytest.mark.parametrize(
    ("location", "named"),
    [
        ("s3a://lake/ods/t/", "s3a://lake/ods/t"),
        ("s3://lake//ods///t", "s3://lake/ods/t"),
        ("s3a://lake/q=a%2Fb", "s3a://lake/q=a%2Fb"),
    ],
)
def test_location_is_taken_literally(location: str, named: str) -> None:
    assert s3_location(location) == named
    assert s3_location(named) == named
    name = object_name(f"{named}/f")
    assert (name.bucket, name.key) == ("lake", f"{named.partition('lake/')[2]}/f")
