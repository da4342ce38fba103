"""What the driver asks the brokers: what there is, where logs begin and end."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, Final

from confluent_kafka import (
    IsolationLevel,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from sluiceway.errors import (
    JobFileError,
    SluicewayError,
    SourceUnavailableError,
    TopicNotFoundError,
    UnhealthyEnvironmentError,
)
from sluiceway.observe.failpoints import edge
from sluiceway.sources.contract import (
    DiscoveredPartition,
    LogBounds,
    SourceClient,
    SourceIdentity,
    SourcePartition,
)
from sluiceway.sources.copies import CopyTraits
from sluiceway.sources.kafka.failures import (
    BrokerTrouble,
    is_unanswered,
    is_unknown_topic,
    kafka_error,
    login_refused,
    request_failure,
    silent,
    unreachable,
)
from sluiceway.sources.kafka.group_offsets import GroupReporter, group_offsets
from sluiceway.sources.kafka.leader_bounds import Answers, LeaderBounds
from sluiceway.sources.kafka.replica_rooms import TopicReplicas, one_place_problems
from sluiceway.sources.kafka.settings import admin_settings, feed_settings

_WAIT_STEP_S: Final = 0.05
# The library's own time-out comes first; this is for a library that does not keep it.
_GRACE_S: Final = 1.0
# All brokers are tried a few times in it; a request is not taken back, also not by `close`.
_FIRST_CONTACT_S: Final = 1.0
_REPORT_TIMEOUT_S: Final = 5.0
_SILENT_SHARE: Final = 0.25
_ANY_TOPIC: Final = "__consumer_offsets"
_NO_LEADER: Final = -1
_NO_OFFSET: Final = -1
# So long apart two answers have to deny a topic; between older ones it may have been there.
_DENIED_FOR_S: Final = 5.0
_DENIED_ANEW_S: Final = 120.0
_BOUNDS: Final = (
    (OffsetSpec.earliest, IsolationLevel.READ_UNCOMMITTED),
    (OffsetSpec.latest, IsolationLevel.READ_COMMITTED),
    (OffsetSpec.latest, IsolationLevel.READ_UNCOMMITTED),
)
_NO_RULES: Final = frozenset({"SECURITY_DISABLED", "CLUSTER_AUTHORIZATION_FAILED"})
_WRITES: Final = frozenset({AclOperation.WRITE, AclOperation.ALL})


class KafkaSourceClient(SourceClient):
    """The driver's connection to one cluster. Used by one thread.

    Args:
        bootstrap_servers: The brokers, `host:port` with commas between.
        properties: The user's client properties, checked by `check_properties`.
        request_timeout_s: Longest time that a call blocks.

    Raises:
        JobFileError: The library refuses the client properties.
    """

    def __init__(
        self, bootstrap_servers: str, properties: Mapping[str, str], request_timeout_s: float
    ) -> None:
        self._where = bootstrap_servers
        self._properties = dict(properties)
        self._timeout_s = request_timeout_s
        self._trouble = BrokerTrouble()
        self._answered = False
        self._leaders: dict[SourcePartition, int] = {}
        self._silent: set[int | None] = set()
        self._reported: dict[tuple[str, SourcePartition], int] = {}
        # When topics were denied: first, and last.
        self._denied: dict[str, tuple[float, float]] = {}
        self._reporter = GroupReporter(bootstrap_servers, properties)
        self._admin: AdminClient | None = self._connected()

    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        """Describe all partitions of the topics; see the contract.

        The leader epoch is None: the description of a topic does not have it.

        Raises:
            SourceUnavailableError: No broker answers.
            TopicNotFoundError: Names the topics that are not there, and what is spelled alike.
            UnhealthyEnvironmentError: The broker refused the login or lacks a permission, or is
                too old to give topics ids.
        """
        wanted = sorted(set(topics))
        if not wanted:
            return ()
        try:
            self._meet(self._timeout_s / 2, wanted[0])
            return self._describe(wanted, self._timeout_s / 2)
        except SourceUnavailableError:
            if self._is_unreachable():
                raise
            # The library asks the broker that it asked last, also when that one is silent.
            self._open_admin()
            self._admin = self._connected()
            self._meet(self._timeout_s / 2, wanted[0])
            return self._describe(wanted, self._timeout_s / 2)

    def _describe(self, wanted: Sequence[str], timeout_s: float) -> tuple[DiscoveredPartition, ...]:
        admin = self._open_admin()
        topics = TopicCollection(list(wanted))
        deadline_s = time.monotonic() + timeout_s
        with self._asking("kafka.describe", ",".join(wanted)):
            described = admin.describe_topics(topics, request_timeout=timeout_s)
            self._wait(described.values(), timeout_s)
        self._assert_found(described)
        for topic in wanted:
            for info in self._result(described[topic], topic).partitions:
                leader = _NO_LEADER if info.leader is None else int(info.leader.id)
                self._leaders[SourcePartition(topic, info.id)] = leader
        cluster_id = self._cluster_id(wanted[0], deadline_s - time.monotonic())
        return tuple(
            DiscoveredPartition(
                SourcePartition(topic, info.id),
                SourceIdentity(cluster_id, _topic_id_text(topic, description.topic_id)),
                leader_epoch=None,
            )
            for topic in wanted
            for description in [self._result(described[topic], topic)]
            for info in sorted(description.partitions, key=lambda info: int(info.id))
        )

    def _cluster_id(self, topic: str, timeout_s: float) -> str:
        """Read the cluster's id, along with a topic that is there.

        `describe_cluster` names no topic. Just after a pause, a broker may answer that none is
        alive. That answer is empty, and the library ends the process by an assertion.
        """
        with self._asking("kafka.describe", topic):
            found = self._open_admin().list_topics(topic, timeout=max(_WAIT_STEP_S, timeout_s))
        if not found.brokers:
            raise SourceUnavailableError("the cluster has no live broker", where=self._where)
        return str(found.cluster_id)

    def list_topics(self) -> tuple[str, ...]:
        """Names of all topics except those beginning with `__`; see the contract.

        Raises:
            SourceUnavailableError: No broker answers.
            UnhealthyEnvironmentError: The broker refused the login or lacks a permission.
        """
        return tuple(sorted(name for name in self._topic_names() if not name.startswith("__")))

    def gone(self, partitions: Sequence[SourcePartition]) -> frozenset[SourcePartition]:
        """The topics that a broker has denied by name, twice; see the contract.

        A list of topics says too little. It leaves out topics that the login may not see, or that
        the broker asked does not know yet.

        Raises:
            SourceUnavailableError: No broker answers.
        """
        topics = sorted({one.topic for one in partitions})
        self._meet(self._timeout_s, topics[0])
        with self._asking("kafka.describe", ",".join(topics)):
            described = self._open_admin().describe_topics(
                TopicCollection(topics), request_timeout=self._timeout_s
            )
            self._wait(described.values(), self._timeout_s)
        gone = {topic for topic in topics if self._is_denied(topic, described[topic])}
        return frozenset(one for one in partitions if one.topic in gone)

    def _is_denied(self, topic: str, answer: Future[Any]) -> bool:
        now_s = time.monotonic()
        first_s, last_s = self._denied.pop(topic, (now_s, now_s))
        if not is_unknown_topic(answer):
            return False
        if now_s - last_s > _DENIED_ANEW_S:
            first_s = now_s
        self._denied[topic] = (first_s, now_s)
        return now_s - first_s >= _DENIED_FOR_S

    def bounds(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        """Read first and last offsets; three requests a leader, however many partitions.

        Leaders are asked at the same time. A leader that did not answer the last time gets a
        quarter of the time-out, until it answers again.

        Raises:
            SourceUnavailableError: No leader answers.
            UnhealthyEnvironmentError: The broker refused the login or lacks a permission.
        """
        if not partitions:
            return {}
        leaders: dict[int | None, list[SourcePartition]] = {}
        for one in partitions:
            leaders.setdefault(self._leaders.get(one), []).append(one)
        # The library would search for their leader until the time is over, and then fail all.
        homeless = leaders.pop(_NO_LEADER, [])
        asked = [self._ask_leader(leader, own) for leader, own in leaders.items()]
        self._wait_for(asked)
        found: dict[SourcePartition, LogBounds] = {}
        for each in asked:
            found |= each.bounds()
            (self._silent.add if each.is_silent else self._silent.discard)(each.leader)
        failures = {one: why for each in asked for one, why in each.failures.items()}
        for one, failure in failures.items():
            error = self._failure_of(failure, str(one))
            if not found or not isinstance(error, SourceUnavailableError):
                raise error from failure
        if not found:
            raise SourceUnavailableError("no broker leads it now", where=str(homeless[0]))
        self._answered = True
        self._trouble.clear()
        return found

    def offsets_at(
        self, partitions: Sequence[SourcePartition], timestamp_ms: int
    ) -> dict[SourcePartition, int]:
        """First offset whose record time is >= `timestamp_ms`; the end offset when none is.

        Raises:
            SourceUnavailableError: A leader does not answer.
            UnhealthyEnvironmentError: The broker refused the login or lacks a permission.
        """
        return self.offsets_at_times(dict.fromkeys(partitions, timestamp_ms))

    def offsets_at_times(
        self, times_ms: Mapping[SourcePartition, int]
    ) -> dict[SourcePartition, int]:
        """See the contract; two requests a leader, however many partitions.

        Raises:
            SourceUnavailableError: A leader does not answer.
            UnhealthyEnvironmentError: The broker refused the login or lacks a permission.
        """
        # The end is asked for first: a row that comes in between is then found or lies after it.
        end, found = self._list_offsets(
            (dict.fromkeys(times_ms, OffsetSpec.latest()), IsolationLevel.READ_COMMITTED),
            (
                {one: OffsetSpec.for_timestamp(time) for one, time in times_ms.items()},
                IsolationLevel.READ_COMMITTED,
            ),
        )
        return {one: found[one] if found[one] >= 0 else end[one] for one in times_ms}

    def committed(
        self, group: str, partitions: Sequence[SourcePartition]
    ) -> dict[SourcePartition, int]:
        """Read a consumer group's committed offsets, without joining it; see the contract.

        Raises:
            SourceUnavailableError: The coordinator does not answer, or a transaction is open.
            UnhealthyEnvironmentError: The broker lacks the permission for the group.
        """
        if not partitions:
            return {}
        self._open_admin()
        access = (self._where, self._properties)
        return group_offsets(access, group, partitions, self._timeout_s)

    def report(self, group: str, ends: Mapping[SourcePartition, int]) -> None:
        """Report to lag tools how far the ledger is, without joining the group.

        Offsets that do not rise over what this object reported are left out.

        Raises:
            SourceUnavailableError: The group's coordinator does not answer, or consumers have
                joined the group.
            UnhealthyEnvironmentError: The broker lacks the permission for the group.
        """
        risen = {
            one: end for one, end in ends.items() if end > self._reported.get((group, one), -1)
        }
        if not risen:
            return
        timeout_s = min(self._timeout_s, _REPORT_TIMEOUT_S)
        self._reporter.report(group, risen, timeout_s)
        self._reported |= {(group, one): end for one, end in risen.items()}

    def one_place_problems(self, topics: Sequence[str]) -> tuple[str, ...]:
        """See the contract: settings of the topics against the racks of their replicas.

        Raises:
            SourceUnavailableError: No broker answers.
            TopicNotFoundError: Names the topics that are not there.
            UnhealthyEnvironmentError: The broker refused the login or lacks a permission.
        """
        named, admin = sorted(set(topics)), self._open_admin()
        with self._asking("kafka.describe", ",".join(named)):
            described = admin.describe_topics(
                TopicCollection(named), request_timeout=self._timeout_s
            )
            self._wait(described.values(), self._timeout_s)
        self._assert_found(described)
        settings = self._topic_settings(named)
        found = [
            TopicReplicas(
                topic,
                [
                    [node.rack for node in info.replicas]
                    for info in self._result(described[topic], topic).partitions
                ],
                settings[topic],
            )
            for topic in named
        ]
        return tuple(one_place_problems(found))

    def _topic_settings(self, topics: Sequence[str]) -> dict[str, dict[str, str | None]]:
        """Settings of topics that are there."""
        with self._asking("kafka.describe", ",".join(topics)):
            answers = self._open_admin().describe_configs(
                [ConfigResource(ConfigResource.Type.TOPIC, each) for each in topics],
                request_timeout=self._timeout_s,
            )
            self._wait(answers.values(), self._timeout_s)
        found = {each.name: self._result(answer, each.name) for each, answer in answers.items()}
        return {
            topic: {name: entry.value for name, entry in values.items()}
            for topic, values in found.items()
        }

    def copy_traits(self, topics: Sequence[str]) -> dict[str, CopyTraits]:
        """See the contract: of the topics' settings.

        Raises:
            SourceUnavailableError: No broker answers.
            UnhealthyEnvironmentError: The broker refused the login or lacks a permission.
        """
        return {
            topic: CopyTraits(
                compacted="compact" in (settings.get("cleanup.policy") or ""),
                append_time=settings.get("message.timestamp.type") == "LogAppendTime",
            )
            for topic, settings in self._topic_settings(sorted(set(topics))).items()
        }

    def writers(self, topic: str) -> tuple[str, ...] | None:
        """See the contract: principals with an ALLOW of WRITE or ALL.

        Raises:
            SourceUnavailableError: No broker answers.
        """
        wanted = AclBindingFilter(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.MATCH,
            None,
            None,
            AclOperation.ANY,
            AclPermissionType.ALLOW,
        )
        with self._asking("kafka.describe", topic):
            answer = self._open_admin().describe_acls(wanted, request_timeout=self._timeout_s)
            self._wait([answer], self._timeout_s)
        failure = answer.exception(timeout=0) if answer.done() else None
        if isinstance(failure, KafkaException) and kafka_error(failure).name() in _NO_RULES:
            return None
        rules = self._result(answer, topic)
        found = {each.principal for each in rules if each.operation in _WRITES}
        return tuple(sorted(found)) if rules else None  # The library drops a refusal's error.

    def end_transactions(self, ids: Sequence[str]) -> None:
        """See the contract: a producer with the id of a mirror ends its open transaction.

        Raises:
            SourceUnavailableError: A coordinator does not answer.
            UnhealthyEnvironmentError: The broker lacks the permission for an id.
        """
        for each in ids:
            settings = feed_settings(self._where, self._properties, self._trouble)
            try:
                producer = Producer(settings | {"transactional.id": each})
                producer.init_transactions(self._timeout_s)
            except KafkaException as failure:
                where = f"transactional id {each}"
                raise request_failure(kafka_error(failure), self._trouble, where) from failure

    def close(self) -> None:
        """Release connections. Safe to repeat."""
        self._reporter.close()
        # The library's client has no close of its own; it ends with its last reference.
        self._admin = None

    def _connected(self) -> AdminClient:
        settings = admin_settings(self._where, self._properties, self._trouble)
        try:
            return AdminClient(settings)
        except KafkaException as failure:
            raise JobFileError(
                f"Kafka properties are not valid: {kafka_error(failure).str()}",
                where=self._where,
                hint="correct `kafka.properties` of the connection, or the files they name",
            ) from failure

    def _open_admin(self) -> AdminClient:
        if self._admin is None:
            raise SourceUnavailableError("the client was closed", where=self._where)
        return self._admin

    def _list_offsets(
        self, *kinds: tuple[Mapping[SourcePartition, OffsetSpec], IsolationLevel]
    ) -> list[dict[SourcePartition, int]]:
        """Ask for several kinds of offsets; a batch a kind, in this order."""
        admin = self._open_admin()
        deadline_s = time.monotonic() + self._timeout_s
        found: list[dict[SourcePartition, int]] = []
        for specs, isolation in kinds:
            if not specs:
                found.append({})
                continue
            left_s = max(_WAIT_STEP_S, deadline_s - time.monotonic())
            with self._asking("kafka.list_offsets", self._where):
                answers = admin.list_offsets(
                    {TopicPartition(one.topic, one.partition): spec for one, spec in specs.items()},
                    isolation_level=isolation,
                    request_timeout=left_s,
                )
                self._wait(answers.values(), left_s)
            found.append(
                {
                    one: self._offset(answer, str(one))
                    for asked, answer in answers.items()
                    for one in [SourcePartition(asked.topic, asked.partition)]
                }
            )
        return found

    def _ask_leader(self, leader: int | None, own: Sequence[SourcePartition]) -> LeaderBounds:
        patience_s = self._timeout_s * (_SILENT_SHARE if leader in self._silent else 1.0)
        asked = LeaderBounds(leader, own, self._ask_offsets, time.monotonic() + patience_s)
        asked.begin()
        return asked

    def _ask_offsets(
        self, kind: int, partitions: Sequence[SourcePartition], timeout_s: float
    ) -> Answers:
        spec, isolation = _BOUNDS[kind]
        wanted = {TopicPartition(one.topic, one.partition): spec() for one in partitions}
        with self._asking("kafka.list_offsets", self._where):
            found: Answers = self._open_admin().list_offsets(
                wanted, isolation_level=isolation, request_timeout=timeout_s
            )
        return found

    def _wait_for(self, asked: Sequence[LeaderBounds]) -> None:
        admin = self._open_admin()
        open_now = [each for each in asked if not each.advance()]
        while open_now:
            wait([f for each in open_now for f in each.answers.values()], _WAIT_STEP_S)
            admin.poll(0)
            if self._trouble.login and not self._answered:
                raise login_refused(self._trouble.login, self._where)
            open_now = [each for each in open_now if not each.advance()]

    def _failure_of(self, failure: KafkaException | TimeoutError, where: str) -> SluicewayError:
        if isinstance(failure, TimeoutError):
            reason = f"; {self._trouble.connection}" if self._trouble.connection else ""
            return SourceUnavailableError(f"no answer in time{reason}", where=where)
        return request_failure(kafka_error(failure), self._trouble, where)

    @contextmanager
    def _asking(self, name: str, where: str) -> Iterator[None]:
        """A request under way: what the library raises at once is a failure like a late one."""
        try:
            with edge(name, where):
                yield
        except KafkaException as failure:
            raise request_failure(kafka_error(failure), self._trouble, self._where) from failure

    def _is_unreachable(self) -> bool:
        """Whether each broker was tried, and none has ever answered this client."""
        return self._trouble.all_down and not self._answered

    def _meet(self, timeout_s: float, topic: str = _ANY_TOPIC) -> None:
        """Wait for a client's first answer, no longer than it takes to try each broker.

        Any answer about the topic will do; `describe_cluster` may end the process, see
        `_cluster_id`.
        """
        deadline_s = time.monotonic() + timeout_s
        while not self._answered:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise silent(self._trouble, self._where)
            patience_s = min(_FIRST_CONTACT_S, max(_WAIT_STEP_S, left_s))
            (first,) = (
                self._open_admin()
                .describe_topics(TopicCollection([topic]), request_timeout=patience_s)
                .values()
            )
            self._wait([first], patience_s)
            failure = first.exception(timeout=0) if first.done() else None
            if first.done() and not is_unanswered(failure):
                # Also a refusal comes from a broker; the next request reports it in its words.
                return
            if self._is_unreachable():
                raise unreachable(self._trouble, self._where)

    def _wait(self, answers: Iterable[Future[Any]], timeout_s: float) -> None:
        """Wait for all answers, no longer than needed to know that there will be none."""
        admin = self._open_admin()
        waiting = set(answers)
        deadline_s = time.monotonic() + timeout_s + _GRACE_S
        while waiting and time.monotonic() < deadline_s:
            waiting = wait(waiting, timeout=_WAIT_STEP_S).not_done
            # Answers come by themselves; what the library says of its connections does not.
            admin.poll(0)
            if waiting and self._trouble.login and not self._answered:
                raise login_refused(self._trouble.login, self._where)

    def _offset(self, answer: Future[Any], where: str) -> int:
        """Return an offset, or -1 when a timestamp has none."""
        offset = int(self._result(answer, where).offset)
        if offset < _NO_OFFSET:
            # What the library says, without an error, of a leader that did not answer.
            raise SourceUnavailableError(f"no answer: offset {offset}", where=where)
        return offset

    def _result(self, answer: Future[Any], where: str) -> Any:
        """Return one answer that `_wait` waited for."""
        try:
            result = answer.result(timeout=0)
        except KafkaException as failure:
            error = request_failure(kafka_error(failure), self._trouble, where)
            raise error from failure
        except TimeoutError as failure:
            raise SourceUnavailableError("no answer in time", where=where) from failure
        self._answered = True
        self._trouble.clear()
        return result

    def _assert_found(self, described: Mapping[str, Future[Any]]) -> None:
        missing = [topic for topic, answer in described.items() if is_unknown_topic(answer)]
        if not missing:
            return
        hint = "; ".join(filter(None, (self._alike(topic) for topic in missing)))
        raise TopicNotFoundError(
            f"the cluster has no topic {', '.join(missing)}",
            where=self._where,
            hint=hint or "topics are not created; check the name",
        )

    def _alike(self, topic: str) -> str:
        own = [name for name in self._topic_names() if not name.startswith("__")]
        alike = get_close_matches(topic, own, n=3)
        return f"did you mean {' or '.join(alike)}?" if alike else ""

    def _topic_names(self) -> list[str]:
        admin = self._open_admin()
        with self._asking("kafka.list_topics", self._where):
            # The list is asked for in one call, which says nothing until its time is over.
            self._meet(self._timeout_s)
            names = list(admin.list_topics(timeout=self._timeout_s).topics)
        self._answered = True
        return names


def _topic_id_text(topic: str, topic_id: object) -> str:
    """The id as Kafka's own tools write it: URL-safe base64 without padding.

    Raises:
        UnhealthyEnvironmentError: The brokers do not give topics ids.
    """
    text = str(topic_id).replace("+", "-").replace("/", "_").rstrip("=")
    if set(text) <= {"A"}:
        raise UnhealthyEnvironmentError(
            "its brokers give topics no ids, so a topic that is created again would look like the "
            "one that was read",
            where=topic,
            hint="Kafka 2.8 or newer is needed, with inter.broker.protocol.version 2.8 or newer",
        )
    return text
