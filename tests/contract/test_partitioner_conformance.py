"""A partitioner, installed as a package, against the suite that plug-ins run."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from sluiceway.conformance.partitioners import PartitionerConformance
from sluiceway.plugins import PluginGroup, installed_plugins
from tools.hostile_payloads import hostile_payloads
from tools.plugin_packages import write_package
from tools.region_partitioner import PACKAGE_CODE

NAME = "regions"


@pytest.fixture(autouse=True, scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("installed")
    group = str(PluginGroup.PARTITIONERS)
    write_package(folder, "regions_package", group, {NAME: "open_regions"}, PACKAGE_CODE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(folder))
        installed_plugins.cache_clear()
        yield
    installed_plugins.cache_clear()


class TestRegions(PartitionerConformance):
    name = NAME
    columns: Sequence[str] = ("region", "bucket")
    options: tuple[tuple[str, str], ...] = (("buckets", "3"),)

    def rows(self) -> pa.RecordBatch:
        cities = ["de-berlin", "de-bonn", None, "nowhere", "", "-", *hostile_payloads()[:300]]
        return pa.record_batch({"id": pa.array(range(len(cities))), "city": pa.array(cities)})


class TestRegionsOfOneColumn(TestRegions):
    columns = ("region",)
    options = ()
