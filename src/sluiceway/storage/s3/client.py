"""The S3 client of a process: one for all that is reached the same way."""

import threading
from collections.abc import Mapping
from functools import cache
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError
from botocore.session import Session

from sluiceway.errors import JobFileError
from sluiceway.storage.access import StoreAccess

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
