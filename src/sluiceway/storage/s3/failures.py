"""What an S3 store's refusals and failures are in our own tree of errors."""

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

FOREIGN = (ClientError, BotoCoreError, OSError)
"""What a request may raise."""

# Some stores answer 404 to a login that they do not know.
_MISSING = frozenset({"NoSuchKey", "NoSuchUpload", "NotFound"})
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
    """The error of ours. Of the store's answer only code and sentence are told: no signatures.

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
    """S3's name of an error; the status of an answer that has none, as of a gateway's page."""
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", "")
    return str(error.response.get("Error", {}).get("Code") or status)
