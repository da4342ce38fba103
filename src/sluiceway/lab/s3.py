"""An S3 server: the Versity gateway, which keeps objects as plain files in a folder."""

import os
import secrets
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from sluiceway.errors import StorageUnavailableError, UnhealthyEnvironmentError
from sluiceway.host.java import JavaHome
from sluiceway.lab.daemon import Launch
from sluiceway.lab.server import LabServer, ServerSite, accepts_connections, server_environment
from sluiceway.lab.state import make_private_folder, write_private_file
from sluiceway.lab.support import LOOPBACK, LabProgress, OnProgress
from sluiceway.storage.access import S3, StoreAccess
from sluiceway.storage.s3.storage import S3Storage

_VERSION = "1.8.0"
_MODULE = f"github.com/versity/versitygw/cmd/versitygw@v{_VERSION}"
_BUCKET = "lake"
_ACCESS_KEY = "lab"
_BUILD_TIMEOUT_S = 900


@dataclass(frozen=True, slots=True)
class S3Endpoint:
    """How to reach the lab's store.

    Attributes:
        url: Address; buckets are part of the path.
        secret_file: File with the secret key.
        folder: Folder with the bucket's objects as files.
    """

    url: str
    access_key: str
    secret_key: str = field(repr=False)
    secret_file: Path
    bucket: str
    folder: Path

    @property
    def access(self) -> StoreAccess:
        """The access for a storage."""
        options = {
            "access_key": self.access_key,
            "endpoint": self.url,
            "path_style": "true",
            "secret_key": self.secret_key,
        }
        return StoreAccess(S3, tuple(sorted(options.items())))

    def plain_files(self, location: str) -> Path:
        """The folder of this machine with the objects below a location as files."""
        return self.folder / location.removeprefix(f"s3a://{self.bucket}/")

    def spark_settings(self, jars: Path) -> dict[str, str]:
        """Settings with which Spark reads from it.

        Args:
            jars: Folder of the jars of Hadoop's client, `Lab.s3_jars`.
        """
        paths = ",".join(str(path) for path in sorted(jars.glob("*.jar")))
        hadoop = self.hadoop_settings().items()
        return {"spark.jars": paths, **{f"spark.hadoop.{key}": value for key, value in hadoop}}

    def hadoop_settings(self) -> dict[str, str]:
        """Settings of Hadoop's own client, in a metastore or in Spark."""
        return {
            "fs.s3a.endpoint": self.url,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": "false",
            "fs.s3a.access.key": self.access_key,
            "fs.s3a.secret.key": self.secret_key,
            "fs.s3a.aws.credentials.provider": (
                "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
            ),
        }


def s3_endpoint(site: ServerSite) -> S3Endpoint:
    """The endpoint of the server at a site, after its preparation."""
    return S3Endpoint(
        url=f"http://{LOOPBACK}:{site.ports['s3']}",
        access_key=_ACCESS_KEY,
        secret_key=_secret(site).read_text(),
        secret_file=_secret(site),
        bucket=_BUCKET,
        folder=site.folder / "data" / _BUCKET,
    )


class S3Server(LabServer):
    """The store of the lab.

    Args:
        cache: Folder for the program.

    Attributes:
        program: Path of the gateway, after `fetch`.
    """

    name = "s3"
    title = f"Versity S3 gateway {_VERSION}"
    listeners = ("s3",)
    grace_s = 10.0

    def __init__(self, cache: Path) -> None:
        self.program = cache / f"versitygw-{_VERSION}" / "versitygw"

    def fetch(self, java: JavaHome, on_progress: OnProgress) -> None:
        """Build the pinned version with Go, if the cache does not have it."""
        del java
        if self.program.is_file():
            return
        go = shutil.which("go")
        if go is None:
            raise UnhealthyEnvironmentError(
                "the lab's S3 server is built with Go, which is not found",
                hint="install Go 1.25 or newer, or take a lab without it",
            )
        on_progress(LabProgress(f"building {self.title}: some minutes, once"))
        scratch = self.program.parent.with_name(f"{self.program.parent.name}.{os.getpid()}.part")
        make_private_folder(scratch)
        done = subprocess.run(  # noqa: S603
            [go, "install", _MODULE],
            env={**os.environ, "GOBIN": str(scratch), "GOFLAGS": "-buildvcs=false -trimpath"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_BUILD_TIMEOUT_S,
        )
        if done.returncode != 0:
            raise UnhealthyEnvironmentError(
                "the lab's S3 server could not be built; the end of what Go said:\n"
                + "\n".join(done.stderr.splitlines()[-5:]),
                hint="it needs the Go module proxy; behind a proxy, set HTTPS_PROXY",
            )
        if not self.program.is_file():
            self.program.parent.mkdir(parents=True, exist_ok=True)
            (scratch / "versitygw").replace(self.program)
        shutil.rmtree(scratch)

    def prepare(self, site: ServerSite, java: JavaHome) -> None:
        """Create the bucket, which is a folder, and its own secret."""
        del java
        for folder in ("data", f"data/{_BUCKET}"):
            make_private_folder(site.folder / folder)
        if not _secret(site).is_file():
            write_private_file(_secret(site), secrets.token_hex(20))

    def launch(self, site: ServerSite, java: JavaHome) -> Launch:
        """The gateway over the folder; its secret is in the environment."""
        command = [
            str(self.program),
            *("--port", f"{LOOPBACK}:{site.ports['s3']}"),
            *("--quiet", "posix", "data"),
        ]
        environment = {
            **server_environment(java),
            "ROOT_ACCESS_KEY": _ACCESS_KEY,
            "ROOT_SECRET_KEY": _secret(site).read_text(),
        }
        return Launch(command, site.folder, environment)

    def answers(self, site: ServerSite) -> bool:
        """Whether it lists the bucket for our own login."""
        if not accepts_connections(site.ports["s3"]):
            return False
        endpoint = s3_endpoint(site)
        try:
            S3Storage(endpoint.access).list(f"s3a://{endpoint.bucket}/probe")
        except StorageUnavailableError:
            return False
        return True


def _secret(site: ServerSite) -> Path:
    return site.folder / "secret"
