"""Who may write to a topic, by the access rules that a broker returns."""

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from sluiceway.sources.kafka.client import KafkaSourceClient


def rule(who: str, operation: AclOperation) -> AclBinding:
    topic, pattern = ResourceType.TOPIC, ResourcePatternType.LITERAL
    return AclBinding(topic, "orders", pattern, who, "*", operation, AclPermissionType.ALLOW)


class Admin:
    """Answers one request."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.asked: list[Any] = []

    def describe_acls(self, wanted: Any, request_timeout: float) -> "Future[Any]":
        self.asked.append(wanted)
        assert request_timeout > 0
        done: Future[Any] = Future()
        if isinstance(self._answer, Exception):
            done.set_exception(self._answer)
        else:
            done.set_result(self._answer)
        return done

    def poll(self, timeout: float) -> int:
        return int(timeout)


def client_of(admin: Admin) -> KafkaSourceClient:
    client = KafkaSourceClient("127.0.0.1:1", {}, 1.0)
    client._admin = admin
    return client


def test_writers_are_those_with_write_or_all() -> None:
    rules = [
        rule("User:mirror", AclOperation.WRITE),
        rule("User:mirror", AclOperation.READ),
        rule("User:reader", AclOperation.READ),
        rule("User:app", AclOperation.ALL),
    ]
    admin = Admin(rules)
    assert client_of(admin).writers("orders") == ("User:app", "User:mirror")
    (asked,) = admin.asked
    # Rules of prefixes and of all topics count too.
    assert (asked.name, asked.resource_pattern_type) == ("orders", ResourcePatternType.MATCH)


@pytest.mark.parametrize("name", ["SECURITY_DISABLED", "CLUSTER_AUTHORIZATION_FAILED"])
def test_rules_that_cannot_be_read_say_nothing(name: str) -> None:
    failure = KafkaException(KafkaError(getattr(KafkaError, name)))
    assert client_of(Admin(failure)).writers("orders") is None


def test_no_rule_at_all_is_none_that_this_login_may_read() -> None:
    assert client_of(Admin([])).writers("orders") is None
    assert client_of(Admin([rule("User:reader", AclOperation.READ)])).writers("orders") == ()
