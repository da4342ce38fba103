"""Kafka, as the registry opens it, and a table, against the suite for all sources."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sluiceway.conformance.sources import SourceConformance, SourceUnderTest
from sluiceway.sources.kafka.consumer_cache import process_cache
from tools.kafka_consumers import CONSUMERS, choose_consumer
from tools.kafka_under_test import KafkaUnderTest
from tools.lab_fixture import TopicFactory
from tools.table_under_test import TableUnderTest


class TestKafkaSource(SourceConformance):
    @pytest.fixture(params=CONSUMERS)
    def opened(
        self,
        bootstrap_servers: str,
        new_topic: TopicFactory,
        request: pytest.FixtureRequest,
        monkeypatch: pytest.MonkeyPatch,
    ) -> Iterator[SourceUnderTest]:
        choose_consumer(monkeypatch, request.param)
        yield KafkaUnderTest(bootstrap_servers, new_topic)
        process_cache().close()


class TestTableSource(SourceConformance):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> SourceUnderTest:
        return TableUnderTest(tmp_path)
