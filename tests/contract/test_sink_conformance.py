"""Hive tables, as the registry opens them, against the suite for all sinks."""

import pytest

from sluiceway.conformance.sinks import SinkConformance, SinkUnderTest
from tools.hive_under_test import HiveUnderTest


class TestHiveTable(SinkConformance):
    @pytest.fixture
    def table(self, metastore_uri: str) -> SinkUnderTest:
        return HiveUnderTest(metastore_uri)
