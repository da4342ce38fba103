"""librdkafka's errors in the terms of our tree."""

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from sluiceway.errors import (
    SluicewayError,
    SourceUnavailableError,
    TaskFailedError,
    UnhealthyEnvironmentError,
)
from sluiceway.sources.kafka.settings import LIBRARY_LOG

OFFSET_GONE: Final = frozenset(
    {
        "_AUTO_OFFSET_RESET",
        "_LOG_TRUNCATION",
        "OFFSET_OUT_OF_RANGE",
    }
)
_REFUSED_LOGIN: Final = frozenset(
    {
        "_AUTHENTICATION",
        "_SSL",
        "SASL_AUTHENTICATION_FAILED",
    }
)
_UNANSWERED: Final = frozenset({"_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE"})
_UNKNOWN_TOPIC: Final = frozenset({"UNKNOWN_TOPIC_OR_PART", "TOPIC_EXCEPTION", "_UNKNOWN_TOPIC"})
_GROUP: Final = "GROUP_AUTHORIZATION_FAILED"
_NOT_ALLOWED: Final = {
    "TOPIC_AUTHORIZATION_FAILED": "Describe, DescribeConfigs and Read on topics that it reads, "
    "Describe and Write on topics that it writes",
    _GROUP: "Read on the group",
    "CLUSTER_AUTHORIZATION_FAILED": "Describe on the cluster",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "Write on the id, or remove it from "
    "`rooms.mirror.transactional_ids`",
}
"""Error of an access rule that is missing -> what the login has to be allowed."""
# The library goes on by itself. The group's errors do not matter: none is ever joined.
_LIBRARY_RETRIES: Final = frozenset(
    {
        "_ALL_BROKERS_DOWN",
        "_TRANSPORT",
        "_RESOLVE",
        "_TIMED_OUT",
        "_WAIT_COORD",
        "COORDINATOR_NOT_AVAILABLE",
        "COORDINATOR_LOAD_IN_PROGRESS",
        _GROUP,
        "LEADER_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "NOT_LEADER_FOR_PARTITION",
        "REQUEST_TIMED_OUT",
    }
)

_IS_IT_KAFKA = "is it Kafka that listens there, with this security.protocol? Is a firewall between?"


@dataclass(slots=True)
class BrokerTrouble:
    """What the library last said about its connections; its error callback.

    The library retries for ever and answers a call only with a time-out. Why it failed, a wrong
    password above all, goes to this callback alone.

    Attributes:
        login: The last refused login or TLS handshake; empty when there was none.
        connection: The last failed connection; empty when there was none.
        all_down: Whether no broker took a connection, each of them tried.
        group: Why the group's coordinator is not known, where access rules hide it; else None.
    """

    login: str = ""
    connection: str = ""
    all_down: bool = False
    group: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        """Take one error. Called by the library, from any of its threads."""
        LIBRARY_LOG.debug("broker_trouble", extra={"error": error.name(), "reason": error.str()})
        if error.name() in _REFUSED_LOGIN:
            self.login = error.str()
            return
        self.all_down = self.all_down or error.name() == "_ALL_BROKERS_DOWN"
        if error.name() != "_ALL_BROKERS_DOWN" or not self.connection:
            # That all are down only follows from why the last one is.
            self.connection = error.str()

    def clear(self) -> None:
        """Forget it: a broker answered."""
        self.login = ""
        self.connection = ""
        self.all_down = False


def is_group_refused(error: KafkaError | None) -> bool:
    """Whether an event of a consumer says that its login may not see the group."""
    return error is not None and error.name() == _GROUP


def kafka_error(failure: KafkaException) -> KafkaError:
    """Return the error inside the library's exception."""
    error = failure.args[0]
    if not isinstance(error, KafkaError):
        raise TypeError(f"not a Kafka error: {error!r}") from failure
    return error


def is_unanswered(failure: BaseException | None) -> bool:
    """Whether no broker has answered; a refusal is an answer."""
    return isinstance(failure, KafkaException) and kafka_error(failure).name() in _UNANSWERED


def is_unknown_topic(answer: Future[Any]) -> bool:
    """Whether a broker has denied the topic of a request, which may still be under way."""
    failure = answer.exception(timeout=0) if answer.done() else None
    return isinstance(failure, KafkaException) and kafka_error(failure).name() in _UNKNOWN_TOPIC


def is_retried_by_library(error: KafkaError) -> bool:
    """Whether an error event of a consumer needs no reaction."""
    return error.name() in _LIBRARY_RETRIES or error.retriable()


def task_failure(error: KafkaError, where: str) -> SluicewayError:
    """Build what a task raises for an error event that is not about a lost offset."""
    if error.name() in _NOT_ALLOWED and error.name() != _GROUP:
        return not_allowed(error, where)
    return TaskFailedError(f"reading failed: {error.name()}, {error.str()}", where=where)


def request_failure(error: KafkaError, trouble: BrokerTrouble, where: str) -> SluicewayError:
    """Build what the driver raises for a request that failed or was not answered."""
    if error.name() in _NOT_ALLOWED:
        return not_allowed(error, where)
    if error.name() in _REFUSED_LOGIN:
        return login_refused(error.str(), where)
    if trouble.login:
        return login_refused(trouble.login, where)
    if trouble.group is not None:
        return not_allowed(trouble.group, where)
    reason = f"; {trouble.connection}" if trouble.connection else ""
    return SourceUnavailableError(f"no answer: {error.name()}, {error.str()}{reason}", where=where)


def not_allowed(error: KafkaError, where: str) -> UnhealthyEnvironmentError:
    """Build the error for a missing permission."""
    return UnhealthyEnvironmentError(
        f"the broker refused it: {error.name()}",
        where=where,
        hint=f"allow the user of this connection {_NOT_ALLOWED[error.name()]}",
    )


def unreachable(trouble: BrokerTrouble, where: str) -> SourceUnavailableError:
    """Build the error for brokers of which none has ever taken a connection."""
    if trouble.connection.endswith(" brokers are down"):
        # No connection was refused: what listens there hangs up.
        return SourceUnavailableError(
            "no broker answers: what listens there takes the connection and hangs up",
            where=where,
            hint=_IS_IT_KAFKA,
        )
    return SourceUnavailableError(
        f"no broker takes a connection: {trouble.connection}",
        where=where,
        hint="start them, or correct the bootstrap servers; a firewall may be between",
    )


def silent(trouble: BrokerTrouble, where: str) -> SourceUnavailableError:
    """Build the error for brokers of which none has ever answered."""
    if trouble.connection:
        return SourceUnavailableError(f"no broker answers: {trouble.connection}", where=where)
    return SourceUnavailableError(
        "no broker answers, though a connection is taken or nothing refuses one",
        where=where,
        hint=_IS_IT_KAFKA,
    )


def login_refused(reason: str, where: str) -> UnhealthyEnvironmentError:
    """Build the error for a refused login or TLS handshake."""
    return UnhealthyEnvironmentError(
        f"authentication failed: {reason}",
        where=where,
        hint="check the connection's security.protocol, sasl.* and ssl.* properties",
    )
