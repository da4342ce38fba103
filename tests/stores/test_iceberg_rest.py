"""A route into a table of a real REST catalog, with a faulty network between them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from sluiceway.lab.lab import LabEndpoints, StoreServer
from tools.catalog_proxy import CatalogProxy
from tools.lab_fixture import running_lab
from tools.lake_jobs import LakeJob, write_lake_job
from tools.lake_orders import order
from tools.topic_writer import TopicWriter


@pytest.fixture(scope="module")
def lake_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabEndpoints]:
    folder = tmp_path_factory.mktemp("lake")
    with running_lab(folder / "lab", stores=[StoreServer.ICEBERG]) as lab:
        yield lab.endpoints()


@pytest.fixture
def proxy(lake_lab: LabEndpoints) -> Iterator[CatalogProxy]:
    assert lake_lab.iceberg is not None
    with CatalogProxy(lake_lab.iceberg.uri) as proxy:
        yield proxy


def make_job(lab: LabEndpoints, proxy: CatalogProxy, folder: Path, topic: str) -> LakeJob:
    return write_lake_job(
        folder, bootstrap_servers=lab.bootstrap_servers, topic=topic, rest=proxy.uri
    )


def test_requests_that_are_lost_late_doubled_or_refused_bring_each_row_once(
    lake_lab: LabEndpoints, proxy: CatalogProxy, tmp_path: Path
) -> None:
    writer = TopicWriter(lake_lab.bootstrap_servers)
    topic = "rest_faults"
    admin = AdminClient({"bootstrap.servers": lake_lab.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(30.0)
    job = make_job(lake_lab, proxy, tmp_path, topic)
    writer.write(topic, [order(0)], partition=0)
    job.catch_up()
    faults = ["hold", "drop", "twice", "409", "500", "502", "503", "504", "hold"]
    for number, fault in enumerate(faults, start=1):
        writer.write(topic, [order(number)], partition=0)
        # A start sends a probe before its first publish.
        proxy.faults = ["pass", fault]
        job.catch_up()
        assert job.rows("_offset") == [(n,) for n in range(number + 1)], fault
    assert [proxy.land() >= 400 for _ in list(proxy.held)] == [True, True]
    assert job.rows("_offset") == [(n,) for n in range(len(faults) + 1)]
