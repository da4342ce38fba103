"""Finds brokers through the name servers and keeps connections to both."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from sluiceway.errors import (
    SluicewayError,
    SourceUnavailableError,
    TopicNotFoundError,
    UnhealthyEnvironmentError,
)
from sluiceway.sources.rocketmq.codes import BUSY, Ask, ResponseCode
from sluiceway.sources.rocketmq.connection import Connection
from sluiceway.sources.rocketmq.frames import Reply, WireError
from sluiceway.sources.rocketmq.options import RocketMqOptions
from sluiceway.sources.rocketmq.routes import (
    MASTER,
    BrokerPlace,
    TopicRoute,
    read_cluster,
    read_route,
    read_topics,
)

T = TypeVar("T")
_CONNECT_TIMEOUT_S: Final = 3.0
_LOGIN_WORDS: Final = ("AclException", "authentication", "Authentication", "authorization")


class Brokers:
    """Name servers and brokers of one cluster. Used by one thread.

    Args:
        options: How they are reached.
        timeout_s: Longest time that a call blocks.
    """

    def __init__(self, options: RocketMqOptions, timeout_s: float) -> None:
        self._options = options
        self._timeout_s = timeout_s
        self._connections: dict[str, Connection] = {}
        self._places: dict[str, BrokerPlace] = {}
        self._known_topics: set[str] = set()

    def route(self, topic: str) -> TopicRoute:
        """Ask where a topic's queues are.

        Raises:
            SourceUnavailableError: No name server answers, or no broker serves the topic now.
            TopicNotFoundError: Brokers are there, and none has the topic.
        """
        fields = {"topic": topic, "acceptStandardJsonOnly": True}
        reply = self._ask_name_server(Ask.ROUTE, fields)
        if reply.code == ResponseCode.TOPIC_NOT_EXIST:
            if topic in self._known_topics or not self.registered():
                raise SourceUnavailableError(
                    f"no broker serves topic {topic} now", where=self.where
                )
            raise TopicNotFoundError(
                f"topic not found: {topic}", where=self.where, hint="create it, or correct `topics`"
            )
        check_answer(reply, f"topic {topic}")
        route = self._read(read_route, reply.body)
        self._known_topics.add(topic)
        self._places |= route.brokers
        return route

    def topics(self) -> list[str]:
        """Names of all topics but the system's own, in order."""
        reply = self._ask_name_server(Ask.TOPICS, {})
        check_answer(reply, self.where)
        return self._read(read_topics, reply.body)

    def registered(self) -> dict[str, BrokerPlace]:
        """Brokers that the name servers know now."""
        reply = self._ask_name_server(Ask.CLUSTER, {})
        check_answer(reply, self.where)
        found = self._read(read_cluster, reply.body)
        self._places |= found
        return found

    @property
    def where(self) -> str:
        """For a person."""
        return ",".join(self._options.name_servers)

    def addresses(self, broker: str) -> dict[int, str]:
        """Addresses of a broker's replicas as last received; the master's number is 0."""
        place = self._places.get(broker)
        return {} if place is None else dict(place.addresses)

    def master(self, broker: str) -> Connection:
        """A connection to a broker's master.

        Raises:
            SourceUnavailableError: It has none now, or the one it has does not answer.
        """
        address = self.addresses(broker).get(MASTER)
        try:
            if address is not None:
                return self.connection(address)
        except SourceUnavailableError:
            # It may have moved; what the name servers say now decides.
            self._places.pop(broker, None)
        self.registered()
        address = self.addresses(broker).get(MASTER)
        if address is None:
            raise SourceUnavailableError(
                "no master of it is registered now; it is looked for again",
                where=f"broker {broker}",
            )
        return self.connection(address)

    def replicas(self, broker: str) -> tuple[str, ...]:
        """Addresses of a broker's replicas as last received, the lowest number first."""
        rest = sorted(item for item in self.addresses(broker).items() if item[0] != MASTER)
        return tuple(address for _, address in rest)

    def connection(self, address: str) -> Connection:
        """A connection; opened if there is none."""
        found = self._connections.get(address)
        if found is None:
            found = Connection(
                address,
                credentials=self._options.credentials,
                tls=self._options.tls,
                timeout_s=min(self._timeout_s, _CONNECT_TIMEOUT_S),
            )
            self._connections[address] = found
        return found

    def drop(self, connection: Connection) -> None:
        """Close a connection that failed; the next call makes another."""
        self._connections.pop(connection.address, None)
        connection.close()

    def call_broker(self, broker: str, code: Ask, fields: Mapping[str, object]) -> Reply:
        """Ask a broker's master one thing; a connection that was lost is opened again once.

        Raises:
            SourceUnavailableError: It does not answer.
        """
        return self.call_brokers([(broker, code, fields)])[0]

    def call_brokers(
        self, asked: Sequence[tuple[str, Ask, Mapping[str, object]]]
    ) -> tuple[Reply, ...]:
        """Ask brokers' masters many things at once; answers in the order of the questions.

        Raises:
            SourceUnavailableError: One of them does not answer.
        """
        found, failures = self.try_brokers(asked)
        for failure in failures.values():
            raise failure
        return tuple(found[index] for index in range(len(asked)))

    def call_address(
        self, address: str, asked: Sequence[tuple[Ask, Mapping[str, object]]]
    ) -> tuple[Reply, ...]:
        """Ask the server at an address many things at once; answers in order of the questions.

        Raises:
            SourceUnavailableError: It does not answer.
        """
        deadline_s = time.monotonic() + self._timeout_s
        connection = self.connection(address)
        try:
            waiting = {
                connection.send(code, fields): index for index, (code, fields) in enumerate(asked)
            }
            found = self._collect(connection, waiting, deadline_s)
        except SourceUnavailableError:
            self.drop(connection)
            raise
        return tuple(found[index] for index in range(len(asked)))

    def try_brokers(
        self, asked: Sequence[tuple[str, Ask, Mapping[str, object]]]
    ) -> tuple[dict[int, Reply], dict[str, SourceUnavailableError]]:
        """Ask brokers' masters many things at once, so that none waits for another.

        Returns:
            Answers by the question's place, and failures by broker.
        """
        deadline_s = time.monotonic() + self._timeout_s
        found: dict[int, Reply] = {}
        failures: dict[str, SourceUnavailableError] = {}
        by_broker: dict[str, list[int]] = {}
        for index, (broker, _, _) in enumerate(asked):
            by_broker.setdefault(broker, []).append(index)
        sent: dict[str, tuple[Connection, dict[int, int]]] = {}
        for broker, indexes in by_broker.items():
            try:
                sent[broker] = self._send_all(broker, [(i, *asked[i][1:]) for i in indexes])
            except SourceUnavailableError as failure:
                failures[broker] = failure
        for broker, (connection, waiting) in sent.items():
            try:
                found |= self._collect(connection, waiting, deadline_s)
            except SourceUnavailableError as failure:
                self.drop(connection)
                failures[broker] = failure
        return found, failures

    def _send_all(
        self, broker: str, asked: Sequence[tuple[int, Ask, Mapping[str, object]]]
    ) -> tuple[Connection, dict[int, int]]:
        """Send on the connection that exists; if it died meanwhile, it is opened again."""
        for last in (False, True):
            connection = self.master(broker)
            try:
                # Answers that no call waits for any more; and whether it was closed meanwhile.
                while connection.receive(0) is not None:
                    pass
                sent = {connection.send(code, fields): index for index, code, fields in asked}
            except SourceUnavailableError:
                self.drop(connection)
                if last:
                    raise
            else:
                return connection, sent
        raise AssertionError  # pragma: no cover - the loop returns or raises

    def _collect(
        self, connection: Connection, waiting: dict[int, int], deadline_s: float
    ) -> dict[int, Reply]:
        found = {}
        while waiting:
            reply = connection.receive(max(0.0, deadline_s - time.monotonic()))
            if reply is None:
                raise SourceUnavailableError(
                    f"no answer within {self._timeout_s:.0f} s", where=connection.address
                )
            if reply.opaque in waiting:
                found[waiting.pop(reply.opaque)] = reply
        return found

    def _read(self, read: Callable[[bytes], T], body: bytes) -> T:
        try:
            return read(body)
        except WireError as error:
            error.where = error.where or f"name server {self.where}"
            raise

    def _ask_name_server(self, code: Ask, fields: Mapping[str, object]) -> Reply:
        failure: SourceUnavailableError | UnhealthyEnvironmentError | None = None
        servers = self._options.name_servers
        for address in (*servers, *servers):
            try:
                connection = self.connection(address)
            except (SourceUnavailableError, UnhealthyEnvironmentError) as error:
                failure = error
                continue
            try:
                return connection.call(code, fields, self._timeout_s / len(servers))
            except SourceUnavailableError as error:
                self.drop(connection)
                failure = error
        if isinstance(failure, UnhealthyEnvironmentError):
            raise failure
        raise SourceUnavailableError(
            f"no name server answers: {'' if failure is None else failure.message}",
            where=self.where,
        ) from failure

    def close(self) -> None:
        """Close all connections. Safe to repeat."""
        for connection in list(self._connections.values()):
            self.drop(connection)


def check_answer(reply: Reply, where: str) -> None:
    """Refuse an answer that is none.

    Raises:
        SourceUnavailableError: The server is busy, or failed.
        UnhealthyEnvironmentError: It refused the login, or lacks a permission for it.
    """
    if reply.code != ResponseCode.SUCCESS:
        raise answer_failure(reply, where)


def answer_failure(reply: Reply, where: str) -> SluicewayError:
    """The error for an answer that says no."""
    if reply.code == ResponseCode.NO_PERMISSION or any(
        word in reply.remark for word in _LOGIN_WORDS
    ):
        return UnhealthyEnvironmentError(
            f"the broker refused the login or lacks a permission: {reply.remark}",
            where=where,
            hint="check `acl` of the connection and the permissions of its access key",
        )
    what = "the broker is busy" if reply.code in BUSY else f"the answer has code {reply.code}"
    return SourceUnavailableError(f"{what}: {reply.remark}", where=where)
