"""The floor of broker versions: without topic ids another log of a name goes unnoticed."""

import pytest
from confluent_kafka import Uuid

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.sources.kafka.client import _topic_id_text


def test_topic_without_an_id_is_refused_with_the_version_that_is_needed() -> None:
    with pytest.raises(UnhealthyEnvironmentError, match=r"no ids, .*Kafka 2\.8 or newer") as error:
        _topic_id_text("orders", Uuid(0, 0))
    assert error.value.where == "orders"


def test_id_of_a_topic_is_written_as_kafka_does() -> None:
    assert _topic_id_text("orders", Uuid(1, 2)) == str(Uuid(1, 2)).rstrip("=")
