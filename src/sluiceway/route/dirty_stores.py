"""Which further store a route's dirty rows go to, and who feeds it."""

from collections.abc import Sequence
from typing import Final

from sluiceway.followers.dirty_feed import DirtyFeeder, DirtyStore
from sluiceway.followers.dirty_table import DirtyTable, dirty_columns
from sluiceway.followers.dirty_topic import DirtyTopic
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.dirty_files import CommittedDirty
from sluiceway.ledger.driver_term import OwnedLedger
from sluiceway.observe.log import Log
from sluiceway.sinks.registry import open_day_folders
from sluiceway.sources.registry import has_text_keys, open_row_feed
from sluiceway.storage.contract import Storage
from sluiceway.upkeep.dirty_retention import DirtyRetention

_TIMEOUT_S: Final = 30.0


def feeders_of(config: RouteConfig, owned: OwnedLedger, log: Log) -> tuple[DirtyFeeder, ...]:
    """Followers that feed a route's dirty rows to stores; none when the job file names no store."""
    ledger = owned.owner.ledger
    store: DirtyStore | None = dirty_table_of(config, owned.storage, ledger)
    if config.dirty_topic is not None:
        feed = open_row_feed(config.dirty_topic, feed_name(ledger), _TIMEOUT_S)
        store = DirtyTopic(feed, owned.storage, log)
    if store is None:
        return ()

    def let_go(found: CommittedDirty) -> bool:
        # Rows that lanes have taken stay taken: an answer of any moment holds.
        return owned.fold.lanes.taken.get(str(found.source)) == [(0, int(found.file.rows))]

    feeder = DirtyFeeder(owned.log, ledger, store, log, let_go=let_go)
    topic = config.dirty_topic
    feeder.connection = f"dirty {config.table.metastore if topic is None else topic.topic}"
    return (feeder,)


def keeper_of(
    config: RouteConfig, owned: OwnedLedger, feeders: Sequence[DirtyFeeder], log: Log
) -> DirtyRetention:
    """Who lets go of a route's dirty rows: none that a further store does not have."""
    fed = (lambda: min(each.fed_through for each in feeders)) if feeders else None
    return DirtyRetention(
        owned.log,
        config.dirty_keep_ms,
        log,
        table=dirty_table_of(config, owned.storage, owned.owner.ledger),
        fed_through=fed,
    )


def dirty_table_of(config: RouteConfig, storage: Storage, ledger: str) -> DirtyTable | None:
    """The table that a route's dirty rows go to; not yet opened. None when there is none.

    Args:
        config: The route.
        storage: Where its dirty files lie.
        ledger: Uuid of its ledger.
    """
    if config.dirty_table is None:
        return None
    columns = dirty_columns(text_keys=has_text_keys(config.source))
    table = open_day_folders(config.table, config.dirty_table, columns, stores=config.stores)
    return DirtyTable(table, storage, ledger)


def feed_name(ledger: str) -> str:
    """Group and transactional id of a ledger's dirty rows; for access rules on the brokers."""
    return f"sluiceway-dirty-{ledger}"
