"""What the library raises at once, without an answer of a broker, is an error of our own tree."""

import gc
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from sluiceway.errors import (
    SluicewayError,
    SourceUnavailableError,
    TaskFailedError,
    UnhealthyEnvironmentError,
)
from sluiceway.observe import failpoints
from sluiceway.observe.failpoints import Action, FailpointSpec, Role
from sluiceway.sources.contract import SourcePartition
from sluiceway.sources.kafka.client import KafkaSourceClient
from sluiceway.sources.kafka.failures import (
    BrokerTrouble,
    is_group_refused,
    request_failure,
    unreachable,
)
from sluiceway.sources.kafka.group_offsets import GroupReporter
from sluiceway.sources.kafka.jump_check import check_jumps
from sluiceway.sources.kafka.progress import Jump

_NOWHERE = "127.0.0.1:9"
# Only a refusal ends a call that may take so long.
_LONG_S = 3600.0
_LOG = SourcePartition("t", 0)


@pytest.fixture(autouse=True)
def _off() -> Iterator[None]:
    failpoints.disarm()
    yield
    failpoints.disarm()


def _client() -> KafkaSourceClient:
    return KafkaSourceClient(_NOWHERE, {"log_level": "0"}, 0.1)


def _report() -> None:
    reporter = GroupReporter(_NOWHERE, {"log_level": "0"})
    try:
        reporter.report("g", {_LOG: 1}, 0.1)
    finally:
        reporter.close()


@pytest.mark.parametrize(
    ("point", "call", "expected"),
    [
        ("kafka.describe", lambda: _client()._describe(["t"], 0.1), SourceUnavailableError),
        ("kafka.list_topics", lambda: _client().list_topics(), SourceUnavailableError),
        ("kafka.list_offsets", lambda: _client().bounds([_LOG]), SourceUnavailableError),
        ("kafka.report", _report, SourceUnavailableError),
        (
            "kafka.read_again",
            lambda: check_jumps(_NOWHERE, {"log_level": "0"}, {_LOG: [Jump(0, 5)]}),
            TaskFailedError,
        ),
    ],
)
def test_failure_without_an_answer_is_of_our_tree(
    tmp_path: Path, point: str, call: Callable[[], object], expected: type[SluicewayError]
) -> None:
    spec = FailpointSpec(f"{point}.request", Action.RAISE, str(tmp_path))
    failpoints.arm(Role.DRIVER, {failpoints.VARIABLE: spec.text()})
    with pytest.raises(expected, match=f"failpoint {point}"):
        call()


def test_reason_of_a_lost_connection_is_kept_when_all_brokers_are_down() -> None:
    trouble = BrokerTrouble()
    trouble(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    assert trouble.connection == "1/1 brokers are down"
    trouble(KafkaError(KafkaError._TRANSPORT, "connection refused"))
    trouble(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    assert trouble.connection == "connection refused"


def test_server_that_hangs_up_is_not_told_as_a_number_of_brokers() -> None:
    trouble = BrokerTrouble()
    trouble(KafkaError(KafkaError._ALL_BROKERS_DOWN, "0/2 brokers are down"))
    told = unreachable(trouble, "k1:9092")
    assert "hangs up" in told.message
    assert "is it Kafka" in told.hint
    trouble(KafkaError(KafkaError._TRANSPORT, "connection refused"))
    assert unreachable(trouble, "k1:9092").message.endswith("connection refused")


@pytest.mark.parametrize("call", [lambda c: c.discover(["t"]), lambda c: c.list_topics()])
def test_brokers_of_which_none_takes_a_connection_are_told_long_before_the_timeout(
    call: Callable[[KafkaSourceClient], object],
) -> None:
    client = KafkaSourceClient(_NOWHERE, {"log_level": "0"}, _LONG_S)
    with pytest.raises(SourceUnavailableError, match=r"no broker takes a connection: .*refused"):
        call(client)
    # Nothing is under way any more that the process would wait for at its end.
    client.close()
    del client
    gc.collect()


def test_brokers_that_take_connections_and_say_nothing_are_told_in_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        where = f"127.0.0.1:{frozen.getsockname()[1]}"
        client = KafkaSourceClient(where, {"log_level": "0"}, 1.0)
        with pytest.raises(SourceUnavailableError, match="no broker answers") as caught:
            client.discover(["t"])
    assert "security.protocol" in caught.value.hint


def test_group_that_the_login_may_not_see_is_named_with_what_to_allow() -> None:
    """The library answers only that it waits for the group's coordinator."""
    waits, refused = (
        KafkaError(KafkaError._WAIT_COORD),
        KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED),
    )
    assert is_group_refused(refused)
    assert not is_group_refused(waits)
    assert not is_group_refused(None)
    trouble = BrokerTrouble()
    assert isinstance(request_failure(waits, trouble, "group g"), SourceUnavailableError)
    trouble.group = refused
    found = request_failure(waits, trouble, "group g")
    assert (type(found), found.where) == (UnhealthyEnvironmentError, "group g")
    assert found.hint == "allow the user of this connection Read on the group"
