"""RocketMQ, as the registry opens it, against the suite for all sources."""

from collections.abc import Iterator

import pytest

from sluiceway.conformance.sources import SourceConformance, SourceUnderTest
from sluiceway.lab.rocketmq import RocketMqEndpoint
from tools.rocketmq_under_test import RocketMqUnderTest
from tools.rocketmq_writer import RocketMqWriter


class TestRocketMqSource(SourceConformance):
    @pytest.fixture
    def opened(self, rocketmq: RocketMqEndpoint) -> Iterator[SourceUnderTest]:
        found = RocketMqUnderTest(
            {"name_servers": rocketmq.name_server},
            ("broker-a", rocketmq.brokers["broker-a"]),
            RocketMqWriter(rocketmq.name_server),
        )
        yield found
        found.writer.close()
