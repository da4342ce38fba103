"""Times of a table that have rows and are not announced, or only in part, each with the reason."""

from dataclasses import dataclass

from sluiceway.audit.partition_states import PartitionProgress, TimeRule, observed_prefixes
from sluiceway.audit.partition_why import explain
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.folding.fold_state import FoldState

MOST_EXPLAINED = 5
"""Times of one table that are listed with their reasons; the others are only counted."""


@dataclass(frozen=True, slots=True)
class Unannounced:
    """A time that readers do not see, or not in full.

    Attributes:
        prefix: Its folder, relative to the table.
        rows: How many rows are committed.
        reason: In words, as `partitions why` has it.
    """

    prefix: str
    rows: int
    reason: str


def unannounced(
    fold: FoldState, config: RouteConfig, now_us: int
) -> tuple[tuple[Unannounced, ...], int]:
    """The first times that are committed and not announced, and how many there are in all.

    Args:
        fold: The ledger.
        config: Config of the route; without a block `ready` nothing is announced, and none is
            listed.
        now_us: The clock.
    """
    if config.ready is None:
        return (), 0
    rule = TimeRule.of(config)
    waits = (
        PartitionProgress.OPEN,
        PartitionProgress.OVERDUE,
        PartitionProgress.CLOSED,
        PartitionProgress.LATE,
    )
    found = [
        each for each in observed_prefixes(fold, rule, now_us) if each.state in waits and each.rows
    ]
    told = []
    for each in found[:MOST_EXPLAINED]:
        why = explain(fold, config.ready, rule, each.prefix, now_us)
        told.append(Unannounced(each.prefix, each.rows, why.text))
    return tuple(told), len(found)
