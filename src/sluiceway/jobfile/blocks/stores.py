"""Connections to stores of tables, and the locations in them, as frozen values."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, model_validator

from sluiceway.jobfile.blocks.block import Block
from sluiceway.jobfile.blocks.values import Line, Secret, is_host_port, wrong

_DEFAULT_PORTS = {"http": 80, "https": 443}


def _check_endpoint(text: str) -> str:
    parts = urlsplit(text)
    netloc = parts.netloc
    host = netloc if re.search(r":[0-9]+$", netloc) else f"{netloc}:443"
    plain = text.isascii() and text.isprintable() and " " not in text and "@" not in netloc
    extra = parts.path.strip("/") or parts.query or parts.fragment
    if parts.scheme not in _DEFAULT_PORTS or extra or not plain or not is_host_port(host):
        raise wrong("`https://host` or `http://host:port`", "write the address of the store alone")
    return text.rstrip("/")


def _check_absolute(text: str) -> str:
    if not text.startswith("/"):
        raise wrong("an absolute path", "write it from the root")
    return text


Endpoint = Annotated[str, AfterValidator(_check_endpoint)]
AbsolutePath = Annotated[Line, AfterValidator(_check_absolute)]


class S3Connection(Block):
    """How to reach Amazon S3, or a store that speaks its protocol.

    Without `access_key` the login is what the machine has: variables, a profile, a role.

    Attributes:
        endpoint: URL of a store that is not Amazon's; None is Amazon S3.
        region: Region of the bucket; None is what the machine's settings say.
        path_style: Whether the bucket is part of the path rather than of the host name.
        access_key: Access key, together with `secret_key`; None takes the machine's login.
        secret_key: Secret key, from a reference such as `${env:NAME}`; None takes the machine's
            login.
        session_token: Token of a temporary login, which ends with it; None for a permanent one.
        profile: Profile in the AWS settings of every worker; None is the default profile.
        ca_file: PEM file of the authorities to trust, on every worker; None trusts the machine's.
    """

    endpoint: Endpoint | None = None
    region: Line | None = None
    path_style: bool = False
    access_key: Line | None = None
    secret_key: Secret | None = None
    session_token: Secret | None = None
    profile: Line | None = None
    ca_file: AbsolutePath | None = None

    @model_validator(mode="after")
    def _whole_login(self) -> "S3Connection":
        if (self.access_key is None) != (self.secret_key is None):
            given, other = ("access_key", "secret_key")
            if self.access_key is None:
                given, other = other, given
            raise wrong(f"`{other}` with `{given}`", f"add `{other}`, or remove `{given}`")
        return self


class HdfsConnection(Block):
    """How to reach HDFS. Without a block, or with an empty one, as `HADOOP_CONF_DIR` says.

    Attributes:
        config_dir: Folder of core-site.xml and hdfs-site.xml, on every worker; None is what
            HADOOP_CONF_DIR names there.
    """

    config_dir: AbsolutePath | None = None
