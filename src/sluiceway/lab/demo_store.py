"""The place of the demo's table: the metastore's warehouse, HDFS, or a bucket."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.lab.lab import Lab, LabEndpoints, StoreServer

_CONNECTION = "  hms: {metastore:"
_TABLE = "connection: hms, name: ods.orders,"


class DemoStore(StrEnum):
    """Values of `sluiceway demo --store`."""

    LOCAL = "local"
    HDFS = "hdfs"
    S3 = "s3"

    @property
    def servers(self) -> tuple[StoreServer, ...]:
        """Further servers that the lab needs."""
        return () if self is DemoStore.LOCAL else (StoreServer(self.value),)


@dataclass(frozen=True, slots=True)
class DemoTable:
    """The demo's table, and how to reach it.

    Attributes:
        job_file: The example's job file, with the store unless it is the warehouse.
        location: Location of the table; empty for the metastore's own choice.
        spark_settings: Settings with which Spark SQL reads from the store.
    """

    endpoints: LabEndpoints
    job_file: Path
    location: str
    spark_settings: Mapping[str, str]

    def plain_files(self, folder: Path) -> Path | None:
        """The table's files on this machine, for a reader of plain files.

        Args:
            folder: Folder for copies, if files have to be copied.

        Returns:
            The folder that corresponds to `location`; None when the location itself is local.
        """
        if not self.location:
            return None
        if self.endpoints.s3 is not None:
            return self.endpoints.s3.plain_files(self.location)
        if self.endpoints.hdfs is None:
            return None
        self.endpoints.hdfs.copy(self.location, folder)
        return folder


def demo_table(store: DemoStore, lab: Lab, endpoints: LabEndpoints, example: Path) -> DemoTable:
    """Write the job file of a store into the lab's folder. Called when the lab is up.

    Args:
        store: Store of the table.
        lab: Lab whose folder gets the job file.
        endpoints: Endpoints of the lab's servers.
        example: Job file of a table in the warehouse.

    Raises:
        UnhealthyEnvironmentError: The lab does not have the store, or the example was changed.
    """
    if store is DemoStore.LOCAL:
        return DemoTable(endpoints, example, "", {})
    settings: dict[str, str] = {}
    if store is DemoStore.HDFS and endpoints.hdfs is not None:
        location = f"{endpoints.hdfs.uri}/warehouse/ods.db/orders"
        connection = f'hdfs: {{config_dir: "{endpoints.hdfs.config_dir}"}}'
    elif store is DemoStore.S3 and endpoints.s3 is not None:
        end = endpoints.s3
        location = f"s3a://{end.bucket}/warehouse/ods.db/orders"
        secret = f'secret_key: "${{file:{end.secret_file}}}"'
        connection = (
            f's3: {{endpoint: "{end.url}", path_style: true, region: us-east-1, '
            f"access_key: {end.access_key}, {secret}}}"
        )
        settings = end.spark_settings(lab.s3_jars())
    else:
        raise UnhealthyEnvironmentError(f"the lab has no {store}", where=str(lab.folder))
    job_file = lab.folder / f"orders-on-{store}.yaml"
    job_file.write_text(_on_store(example, connection, location))
    return DemoTable(endpoints, job_file, location, settings)


def _on_store(example: Path, connection: str, location: str) -> str:
    """The example's job file with its table on a store."""
    text = example.read_text()
    if text.count(_CONNECTION) != 1 or text.count(_TABLE) != 1:
        raise UnhealthyEnvironmentError(
            "the example's job file was changed: the demo cannot put its table on a store",
            where=str(example),
            hint="leave --store out, or restore the file",
        )
    lake = f"  lake: {{{connection}}}\n"
    table = f'{_TABLE} storage: lake, location: "{location}",'
    return text.replace(_CONNECTION, lake + _CONNECTION).replace(_TABLE, table)
