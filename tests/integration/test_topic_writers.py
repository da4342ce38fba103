"""Who may write to a topic, as a real cluster without access rules says it."""

from contextlib import closing

from sluiceway.sources.kafka.client import KafkaSourceClient
from tools.lab_fixture import TopicFactory


def test_a_cluster_without_access_rules_says_nothing_of_writers(
    new_topic: TopicFactory, bootstrap_servers: str
) -> None:
    with closing(KafkaSourceClient(bootstrap_servers, {}, 30.0)) as client:
        assert client.writers(new_topic()) is None
