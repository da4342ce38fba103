"""Client properties: which are refused, and that ours win."""

import logging
import logging.handlers

import pytest
from confluent_kafka import Consumer, KafkaError

from sluiceway.errors import JobFileError
from sluiceway.sources.kafka.failures import BrokerTrouble
from sluiceway.sources.kafka.settings import (
    LIBRARY_LOG,
    REFUSED,
    check_properties,
    consumer_settings,
)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_property_that_breaks_the_protocol_is_refused(name: str) -> None:
    with pytest.raises(JobFileError, match=name):
        check_properties({name: "x", "security.protocol": "SSL"})


def test_more_than_sixty_dangerous_options_are_refused_before_the_library_sees_them() -> None:
    assert len(REFUSED) >= 60
    assert all(reason.strip() for reason in REFUSED.values())
    for name in ("ssl.engine.location", "sasl.kerberos.kinit.cmd", "topic.blacklist", "acks"):
        # The library would take it.
        Consumer({"group.id": "g", "logger": LIBRARY_LOG, name: "1"}).close()
        with pytest.raises(JobFileError, match=name):
            check_properties({name: "1"})


def test_refused_properties_are_all_named_at_once() -> None:
    with pytest.raises(JobFileError, match=r"enable\.auto\.commit.*group\.id"):
        check_properties({"group.id": "g", "enable.auto.commit": "true"})


def test_harmless_properties_pass_and_reach_the_consumer() -> None:
    properties = {"sasl.password": "secret", "fetch.wait.max.ms": "40", "client.rack": "a"}
    check_properties(properties)
    settings = consumer_settings("host:1", properties, BrokerTrouble())
    assert properties.items() <= settings.items()


def test_protocol_settings_win_over_the_users() -> None:
    settings = consumer_settings("host:1", dict.fromkeys(REFUSED, "x"), BrokerTrouble())
    assert settings["isolation.level"] == "read_committed"
    assert settings["auto.offset.reset"] == "error"
    assert settings["enable.auto.commit"] is False
    assert settings["enable.partition.eof"] is True
    assert settings["bootstrap.servers"] == "host:1"


def test_trouble_keeps_refused_login_apart_from_lost_connections() -> None:
    trouble = BrokerTrouble()
    trouble(KafkaError(KafkaError._AUTHENTICATION, "bad password"))
    trouble(KafkaError(KafkaError._TRANSPORT, "connection refused"))
    assert (trouble.login, trouble.connection) == ("bad password", "connection refused")
    trouble.clear()
    assert (trouble.login, trouble.connection) == ("", "")


def test_library_log_never_reaches_the_last_resort_handler() -> None:
    log = logging.getLogger("sluiceway.sources.kafka.librdkafka")
    assert any(isinstance(handler, logging.NullHandler) for handler in log.handlers)


def test_what_the_client_library_tells_of_its_connections_stands_in_no_log() -> None:
    told = logging.handlers.BufferingHandler(10)
    logging.getLogger().addHandler(told)
    try:
        LIBRARY_LOG.error("127.0.0.1:9/bootstrap: Connect to ipv4#127.0.0.1:9 failed")
        logging.getLogger("sluiceway.other").error("this one does")
    finally:
        logging.getLogger().removeHandler(told)
    assert [record.msg for record in told.buffer] == ["this one does"]
