"""From a table to its topics: a new route reads the rows of a table, then what comes after them.

One SOURCES record retires the table at a slot and pins its topics where its job was at that slot.
So each record of the topics is in the rows of the table or comes from the topics, never both.
"""

from collections.abc import Mapping

from sluiceway.errors import OffsetsLostError, TableMismatchError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.records import SourcesRecord
from sluiceway.route.route_context import RouteContext
from sluiceway.schedule.planner import plan_hand_over
from sluiceway.sources.contract import HandOver, SourceIdentity, SourcePartition


def hand_over_record(context: RouteContext, fold: Fold) -> SourcesRecord | None:
    """The record that ends the following of a table; None while the table is read on.

    Called before each epoch.

    Args:
        context: Context of the route's session.
        fold: State of the ledger, perhaps with an epoch whose commit is under way.

    Raises:
        TableMismatchError: The table is filled from other topics than the job file lists.
        OffsetsLostError: A topic was made again since, or is another cluster's.
        SourceUnavailableError: The table or the topics cannot be asked now.
    """
    topics = context.topics
    if topics is None:
        return None
    ends = {
        SourcePartition(*key): known.end for key, known in fold.sources.items() if not known.retired
    }
    found = context.source.hand_over(ends, context.config.interval_s)
    if found is None:
        return None
    _check_topics(topics, found, context.config.topics[0])
    described = context.parts.source.discover(topics.topics)
    _check_identities({each.partition: each.identity for each in described}, found)
    return plan_hand_over(fold, topics.subscription, found)


def _check_topics(config: RouteConfig, found: HandOver, table: str) -> None:
    filled = sorted({each.partition.topic for each, _ in found.starts})
    if filled != sorted(config.topics):
        raise TableMismatchError(
            f"{table} is filled from the topics {', '.join(filled)}, and this route lists "
            f"{', '.join(sorted(config.topics))}",
            where="source.topics",
            hint="list the topics of the table's job",
        )


def _check_identities(described: Mapping[SourcePartition, SourceIdentity], found: HandOver) -> None:
    for each, end in found.starts:
        now = described.get(each.partition)
        if now is not None and now != each.identity:
            raise OffsetsLostError(
                f"it is not the topic that the table was filled from: topic id {now.topic_id} in "
                f"cluster {now.cluster_id}, the table has read {each.identity.topic_id} in cluster "
                f"{each.identity.cluster_id} up to {end}",
                where=str(each.partition),
                hint="name the connection of the table's job; where the topic was made again, "
                "that job has to go on with it first",
            )
