"""Records that an operator asks for, each after a FENCE of its own (commit rule 22)."""

from dataclasses import dataclass
from typing import ClassVar

from sluiceway.ledger.log_tail import NO_TAIL
from sluiceway.types.log_key import LogKey
from sluiceway.types.strict_json import BigInt

GAP = "gap"
TWICE = "twice"
TAIL = "tail"
"""`ChangedSource.evidence` of the tail before `new_end`."""
MISSING = "missing"
"""Evidence of a change to a copy that ends before `old_end`: runs of the tail that it lacks."""
ORIGIN_HEADER = "origin_header"
"""Evidence of a change to a copy of the old log: name of the header in which copies name it."""
ORIGIN_LOG = "origin_log"
"""Evidence together with it: see `OriginLog.name`."""


@dataclass(frozen=True, slots=True)
class OriginLog:
    """A log in another cluster, which a route has left, and how far the table has its rows.

    A source partition may have copies of its rows.

    Attributes:
        header: Name of the header in which a copy names its row.
        name: `<cluster id>/<topic>/<partition>`, with the topic's name in that cluster.
        topic_id: Id of its topic.
        end: The origin end: first offset there whose row is not in the table.
    """

    header: str
    name: str
    topic_id: str
    end: BigInt


@dataclass(frozen=True, slots=True)
class ResetPartition:
    """Where one source partition goes on.

    Attributes:
        topic: Its topic.
        partition: Key of its log in the topic: a number, or `broker/queue`.
        old_end: Committed end before.
        new_end: Committed end afterwards.
        generation: The source partition's generation afterwards: one more than before.
        accepted: `gap` (the offsets between are left out) or `twice` (they are read again, and
            their rows are in the table twice).
        max_event_time_us: Greatest event time that holds afterwards: as before, so that what is
            derived from it never falls. None when no row had one.
        tail: Tail of the log before `new_end`; empty where none is kept.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"tail"})

    topic: str
    partition: LogKey
    old_end: BigInt
    new_end: BigInt
    generation: int
    accepted: str
    max_event_time_us: BigInt | None
    tail: str = NO_TAIL


@dataclass(frozen=True, slots=True)
class ResetRecord:
    """Source partitions go on at other offsets than their committed ends.

    Attributes:
        operator: `user@host`.
        reason: In the operator's words.
        partitions: What moves, each once.
    """

    operator: str
    reason: str
    partitions: tuple[ResetPartition, ...]


@dataclass(frozen=True, slots=True)
class ChangedSource:
    """One source partition whose name now belongs to another log.

    Attributes:
        topic: Its topic.
        partition: Key of its log in the topic: a number, or `broker/queue`.
        old_cluster_id: Id of the cluster of the old log.
        old_topic_id: Id of the topic of the old log.
        new_cluster_id: Id of the cluster of the new log.
        new_topic_id: Id of the topic of the new log.
        old_end: Committed end in the old log.
        new_end: Where the new one is read from.
        generation: As in `ResetPartition`.
        evidence: What was seen of the new log when it was accepted. `tail` is the tail of the log
            before `new_end`.
    """

    topic: str
    partition: LogKey
    old_cluster_id: str
    old_topic_id: str
    new_cluster_id: str
    new_topic_id: str
    old_end: BigInt
    new_end: BigInt
    generation: int
    evidence: dict[str, str]

    def origin(self) -> OriginLog | None:
        """The old log, where the new one has copies of its rows that name them; else None."""
        header, name = self.evidence.get(ORIGIN_HEADER), self.evidence.get(ORIGIN_LOG)
        if header is None or name is None:
            return None
        return OriginLog(header, name, self.old_topic_id, self.old_end)


@dataclass(frozen=True, slots=True)
class SourceChangeRecord:
    """Source partitions retire their old identity and go on in another log of the same name.

    Partitions that were retired, because their topic was gone for a while, are read again.

    Attributes:
        operator: `user@host`.
        reason: In the operator's words.
        partitions: What changes, each once.
    """

    operator: str
    reason: str
    partitions: tuple[ChangedSource, ...]
