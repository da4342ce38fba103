"""The demo's job file for a table on a store."""

from pathlib import Path

import pytest

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.loader import load_job
from sluiceway.lab.demo_files import orders_job
from sluiceway.lab.demo_store import DemoStore, demo_table
from sluiceway.lab.hdfs import HdfsEndpoint
from sluiceway.lab.lab import Lab, LabEndpoints
from sluiceway.lab.s3 import S3Endpoint

SECRET = "hush-hush"  # noqa: S105 - of no store


def endpoints(folder: Path) -> LabEndpoints:
    secret = folder / "secret"
    secret.write_text(SECRET)
    return LabEndpoints(
        "h:1",
        "thrift://h:2",
        folder,
        s3=S3Endpoint("http://h:3", "lab", SECRET, secret, "lake", folder / "data"),
        hdfs=HdfsEndpoint("hdfs://h:4", folder / "conf"),
    )


@pytest.mark.parametrize(
    ("store", "location"),
    [
        (DemoStore.HDFS, "hdfs://h:4/warehouse/ods.db/orders"),
        (DemoStore.S3, "s3a://lake/warehouse/ods.db/orders"),
    ],
)
def test_table_of_the_example_lies_on_the_store(
    store: DemoStore, location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICEWAY_KAFKA", "h:1")
    monkeypatch.setenv("SLUICEWAY_METASTORE", "thrift://h:2")
    lab = Lab(tmp_path, stores=store.servers)
    found = demo_table(store, lab, endpoints(tmp_path), orders_job())
    (route,) = load_job(found.job_file).spec.routes
    (example,) = load_job(orders_job()).spec.routes
    assert route.table.columns == example.table.columns
    assert found.location == location
    assert location in repr(compile_route(route))
    assert SECRET not in found.job_file.read_text()


def test_example_that_was_changed_is_told(tmp_path: Path) -> None:
    changed = tmp_path / "orders.yaml"
    changed.write_text(orders_job().read_text().replace("ods.orders", "ods.other"))
    with pytest.raises(UnhealthyEnvironmentError, match="was changed"):
        demo_table(DemoStore.HDFS, Lab(tmp_path), endpoints(tmp_path), changed)
