"""A store of the lab as tests of whole jobs see it: how a job names it, what lies there."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from sluiceway.lab.hdfs import HdfsEndpoint
from sluiceway.lab.lab import Lab
from sluiceway.lab.s3 import S3Endpoint
from sluiceway.storage.access import StoreAccess, Stores
from sluiceway.storage.contract import Storage
from sluiceway.storage.hdfs.storage import HdfsStorage
from sluiceway.storage.registry import open_storage

SECRET_VARIABLE = "SLUICEWAY_TEST_S3_SECRET"  # noqa: S105 - where it is, not what it is


class StoreUnderTest(ABC):
    """One store."""

    root: str

    @abstractmethod
    def access(self) -> StoreAccess:
        """How it is reached."""

    @abstractmethod
    def connection(self) -> str:
        """The connection `lake` of a job file."""

    @abstractmethod
    def environment(self) -> dict[str, str]:
        """What a job's process needs besides."""

    @abstractmethod
    def spark_settings(self, lab: Lab) -> dict[str, str]:
        """By which Spark reads from there."""

    def spark_conf(self, lab: Lab, set_variable: Callable[[str, str], None]) -> str:
        """The same as `run.spark_conf` of a job file.

        Args:
            lab: Has the jars.
            set_variable: Of the environment of drivers; secrets are named by reference.
        """
        settings = {}
        for number, (key, value) in enumerate(self.spark_settings(lab).items()):
            set_variable(f"SPARK_SETTING_{number}", value)
            settings[key] = f"${{env:SPARK_SETTING_{number}}}"
        return f"spark_conf: {json.dumps(settings)}"

    @abstractmethod
    def local_copy(self, location: str, folder: Path) -> Path:
        """The files below a location, as plain ones on this machine."""

    def open(self) -> Storage:
        """Its storage."""
        return open_storage(self.root, Stores((self.access(),)))[0]


class S3UnderTest(StoreUnderTest):
    """The gateway, which keeps its objects as files."""

    def __init__(self, endpoint: S3Endpoint) -> None:
        self._endpoint = endpoint
        self.root = f"s3a://{endpoint.bucket}"

    def access(self) -> StoreAccess:
        return self._endpoint.access

    def connection(self) -> str:
        end = self._endpoint
        return (
            f'  lake: {{s3: {{endpoint: "{end.url}", path_style: true, region: us-east-1, '
            f'access_key: {end.access_key}, secret_key: "${{env:{SECRET_VARIABLE}}}"}}}}'
        )

    def environment(self) -> dict[str, str]:
        return {SECRET_VARIABLE: self._endpoint.secret_key}

    def spark_settings(self, lab: Lab) -> dict[str, str]:
        return self._endpoint.spark_settings(lab.s3_jars())

    def local_copy(self, location: str, folder: Path) -> Path:
        del folder
        return self._endpoint.plain_files(location)


class HdfsUnderTest(StoreUnderTest):
    """A name node and a data node."""

    def __init__(self, endpoint: HdfsEndpoint) -> None:
        self._endpoint = endpoint
        self.root = endpoint.uri

    def access(self) -> StoreAccess:
        return StoreAccess("hdfs", (("config_dir", str(self._endpoint.config_dir)),))

    def fresh(self) -> Storage:
        """A storage that remembers nothing of what it saw before."""
        return HdfsStorage(self.access(), self.root)

    def connection(self) -> str:
        return f'  lake: {{hdfs: {{config_dir: "{self._endpoint.config_dir}"}}}}'

    def environment(self) -> dict[str, str]:
        return {}

    def spark_settings(self, lab: Lab) -> dict[str, str]:
        del lab
        return {}

    def local_copy(self, location: str, folder: Path) -> Path:
        self._endpoint.copy(location, folder)
        return folder
