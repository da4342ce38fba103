"""Which source serves a connection: this package's own, or a plug-in's by its name."""

from dataclasses import dataclass, replace
from importlib import import_module

from sluiceway.errors import InvariantError
from sluiceway.plugins import PluginGroup, find_implementation, opened
from sluiceway.sources.contract import Source, SourceClient, Split, SplitReader
from sluiceway.sources.side_topics import MessageSender, RowFeed, SideTopic, TopicTail

_BUILT_IN = {
    "kafka": "sluiceway.sources.kafka.source:KafkaSource",
    "rocketmq": "sluiceway.sources.rocketmq.source:RocketMqSource",
    "lake_table": "sluiceway.chains.lake_source:LakeSource",
    "table": "sluiceway.chains.source:TableSource",
}
_USUAL_READER = "sluiceway.sources.kafka.reader"


@dataclass(frozen=True, slots=True)
class SourceAccess:
    """How a driver or a task reaches a source; a value, so that it reaches the workers.

    Attributes:
        kind: The source's name, as the job file's connection has it.
        options: Names and values as text, in order. May hold secrets: never logged.
        topics: Topics of the job that have another name there, and that name.
    """

    kind: str
    options: tuple[tuple[str, str], ...]
    topics: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"SourceAccess({self.kind!r}, <{len(self.options)} options>)"


def load_usual_reader() -> None:
    """Load what a task's reader of the usual source takes. Called before a worker's first task."""
    import_module(_USUAL_READER)


def check_access(access: SourceAccess) -> None:
    """Refuse options that the source cannot have. Called when a job is compiled; without I/O.

    Raises:
        ValueError: Says which and why.
        JobFileError: As ValueError, with a hint.
        UnhealthyEnvironmentError: Nothing installed here has the name, or it does not work.
    """
    source, options = _source(access), dict(access.options)
    opened(
        PluginGroup.SOURCES,
        access.kind,
        type(None),
        lambda: source.check(options),
        allowed_errors=(ValueError,),
    )


def has_text_keys(access: SourceAccess) -> bool:
    """Whether keys of its source partitions are texts. Called when a job is compiled."""
    return _source(access).text_keys


def first_server(access: SourceAccess) -> str:
    """Where the first of the source's servers is; empty when it does not say."""
    option = _source(access).servers_option
    return dict(access.options).get(option, "").split(",")[0].strip() if option else ""


def open_client(access: SourceAccess, request_timeout_s: float) -> SourceClient:
    """The driver's view of a source. Called once per driver, tool and connection."""
    source, options = _source(access), dict(access.options)
    client = opened(
        PluginGroup.SOURCES,
        access.kind,
        SourceClient,  # type: ignore[type-abstract]
        lambda: source.open_client(options, request_timeout_s=request_timeout_s),
    )
    if not access.topics:
        return client
    from sluiceway.sources.renamed import RenamedClient  # noqa: PLC0415 - seldom needed

    return RenamedClient(client, dict(access.topics))


def reader_access(access: SourceAccess, client: SourceClient) -> SourceAccess:
    """The same with what only the driver finds out. Called before each epoch.

    Raises:
        SourceUnavailableError: It is not known now.
    """
    found = client.reader_options()
    if not found:
        return access
    return replace(access, options=tuple(sorted({**dict(access.options), **found}.items())))


def open_reader(access: SourceAccess, splits: list[Split], *, owner: str) -> SplitReader:
    """A task's reader of splits of one source. Called once per task and connection."""
    source, options = _source(access), dict(access.options)

    def open_own(own: list[Split]) -> SplitReader:
        return opened(
            PluginGroup.SOURCES,
            access.kind,
            SplitReader,  # type: ignore[type-abstract]
            lambda: source.open_reader(own, options, owner=owner),
        )

    reader: SplitReader
    if access.topics:
        from sluiceway.sources.renamed import RenamedReader  # noqa: PLC0415 - seldom needed

        reader = RenamedReader(open_own, splits, dict(access.topics))
    else:
        reader = open_own(splits)
    if any(split.missing for split in splits):
        from sluiceway.sources.missing_rows import MissingRowsReader  # noqa: PLC0415 - as above

        reader = MissingRowsReader(reader, splits)
    if all(split.origin is None for split in splits):
        return reader
    from sluiceway.sources.origins import OriginReader  # noqa: PLC0415 - seldom needed

    return OriginReader(reader, splits)


def _source(access: SourceAccess) -> Source:
    make = find_implementation(PluginGroup.SOURCES, access.kind, _BUILT_IN)
    return opened(PluginGroup.SOURCES, access.kind, Source, make)  # type: ignore[type-abstract]


_KAFKA = "kafka"


def open_row_feed(topic: SideTopic, name: str, timeout_s: float) -> RowFeed:
    """A feeder of one topic; a newer one of the same name fences it. Called once a driver.

    Args:
        topic: It has to be there.
        name: Name of the feed, for access rules on the brokers.
        timeout_s: Longest wait for the brokers in one call.
    """
    from sluiceway.sources.kafka.row_feed import KafkaRowFeed  # noqa: PLC0415

    return KafkaRowFeed(_kafka_access(topic), topic.topic, name, timeout_s)


def open_topic_tail(topic: SideTopic, timeout_s: float) -> TopicTail:
    """A reader of one small topic. Called once a driver."""
    from sluiceway.sources.kafka.topic_tail import KafkaTopicTail  # noqa: PLC0415

    servers, properties = _kafka_access(topic)
    return KafkaTopicTail(servers, properties, topic.topic, timeout_s)


def open_message_sender(topic: SideTopic) -> MessageSender:
    """Who sends a topic single messages. Called once a driver; need not connect yet."""
    from sluiceway.sources.kafka.message_sender import KafkaMessageSender  # noqa: PLC0415

    return KafkaMessageSender(dict(topic.options), topic.topic)


def _kafka_access(topic: SideTopic) -> tuple[str, dict[str, str]]:
    from sluiceway.sources.kafka.source import BOOTSTRAP_SERVERS  # noqa: PLC0415

    if topic.kind != _KAFKA:
        raise InvariantError(f"side topics are of Kafka, and this is of {topic.kind}")
    properties = dict(topic.options)
    return properties.pop(BOOTSTRAP_SERVERS), properties
