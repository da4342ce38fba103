"""Tables of files, as the registry opens them, against the suite for all sinks."""

from pathlib import Path

import pytest

from sluiceway.conformance.sinks import SinkConformance, SinkUnderTest
from tools.folder_under_test import FolderUnderTest
from tools.hive_under_test import HiveUnderTest


class TestHiveTable(SinkConformance):
    @pytest.fixture
    def table(self, metastore_uri: str) -> SinkUnderTest:
        return HiveUnderTest(metastore_uri)


class TestTableOfAFolder(SinkConformance):
    @pytest.fixture
    def table(self, tmp_path: Path) -> SinkUnderTest:
        return FolderUnderTest(tmp_path)
