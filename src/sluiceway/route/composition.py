"""Which followers a route has: all that is made equal to its log after the commits."""

from dataclasses import dataclass

from sluiceway.errors import StorageUnavailableError
from sluiceway.followers.catalog import CatalogFollower
from sluiceway.followers.dirty_feed import DirtyFeeder
from sluiceway.followers.files import FilesFollower, Publisher
from sluiceway.followers.group_offsets import GroupOffsets
from sluiceway.followers.late_follow import late_follower
from sluiceway.followers.lineage import LineageFollower, receiver_of
from sluiceway.followers.lineage_columns import column_origins
from sluiceway.followers.lineage_events import LineageRoute, source_namespace
from sluiceway.followers.moved_partitions import MovedPartitions
from sluiceway.followers.ready_effects import ReadyEffects
from sluiceway.followers.runner import FollowerRunner
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.ready_rule import LineageRule
from sluiceway.observe.log import Log
from sluiceway.rooms.cut_files import CutFiles
from sluiceway.route.dirty_stores import feeders_of
from sluiceway.route.route_context import RouteContext
from sluiceway.route.takeover import OwnedTable
from sluiceway.sinks.contract import FollowedRoute


@dataclass(frozen=True, slots=True)
class Composed:
    """The followers of a route.

    Attributes:
        runner: Runs all of them; not begun yet.
        feeders: Followers that feed dirty rows to further stores.
        catalog: Shows partitions; None for a table that follows the log by itself.
        moved: What has moved, for the catalog.
    """

    runner: FollowerRunner
    feeders: tuple[DirtyFeeder, ...]
    catalog: CatalogFollower | None
    moved: MovedPartitions


def compose(context: RouteContext, owned: OwnedTable, ready: ReadyEffects | None) -> Composed:
    """Make them. Called once, at START, when the ledger is held.

    Args:
        context: Context of the route's session.
        owned: Its ledger and table.
        ready: What announcements leave in the table.

    Raises:
        InvariantError: They wait for each other in a circle.
    """
    config, sink, log = context.config, context.parts.sink, context.log
    figures = context.figures.figures
    moved = MovedPartitions(owned.log, log)
    catalog = None
    followers = [*sink.followers(_followed(config, owned, log))]
    if followers and not any(each.publishes for each in followers):
        # Files get their names below the ledger's folder, and the table follows from there.
        followers.insert(0, _files(owned, log))
    if not followers:
        catalog = CatalogFollower(
            sink,
            log,
            owned.writer.set_effects,
            moved,
            check_held=owned.tenure.check,
            ready=ready,
        )
        catalog.connection = f"catalog {owned.state.identity.catalog}"
        followers = [_files(owned, log), catalog]
    if owned.fold.adoptions:
        check = owned.tenure.check
        place = owned.storage, owned.layout
        cut = CutFiles(owned.fold.adoptions, *place, check, log, figures)
        cut.after = tuple(each.name for each in followers if each.publishes)
        followers.append(cut)
    shown: tuple[str, ...] = tuple(each.name for each in followers if each.follows_slots)
    for announcer in () if ready is None else ready.announcers:
        # No announcement goes out for what readers do not find yet.
        announcer.after = shown
        followers.append(announcer)
    feeders = feeders_of(config, owned, log)
    late = late_follower(config, owned, log)
    placed = tuple(each.name for each in followers if each.publishes)
    for reader in [*feeders, *([] if late is None else [late])]:
        # They read files at their final names.
        reader.after = placed
        followers.append(reader)
    if config.lineage is not None:
        teller_of_lineage = _lineage(config, config.lineage, owned)
        # What it reports is in the table already.
        teller_of_lineage.after = shown
        followers.append(teller_of_lineage)
    servers = source_namespace(config.source)
    followers.append(GroupOffsets(context.source, config.group, f"source {servers}"))
    return Composed(
        FollowerRunner(followers, owned.log, log, epoch_s=config.interval_s),
        feeders,
        catalog,
        moved,
    )


def _followed(config: RouteConfig, owned: OwnedTable, log: Log) -> FollowedRoute:
    fold = owned.fold
    return FollowedRoute(
        name=config.route,
        ledger=owned.owner.ledger,
        log=owned.log,
        state=owned.state,
        events=log,
        published_through=fold.published_through,
        effects_through=fold.effects_through,
        note_effects=owned.writer.set_effects,
    )


def _lineage(config: RouteConfig, rule: LineageRule, owned: OwnedTable) -> LineageFollower:
    route = LineageRoute(
        namespace=rule.namespace,
        job=f"{config.job}.{config.route}",
        ledger=owned.owner.ledger,
        source=source_namespace(config.source),
        topics=config.topics,
        table=owned.state,
        origins=column_origins(config, owned.state),
    )
    return LineageFollower(route, receiver_of(rule), owned.layout, owned.storage, rule.interval_s)


def _files(owned: OwnedTable, log: Log) -> FilesFollower:
    publisher = Publisher(owned.storage, owned.layout, log)
    try:
        volume = owned.storage.volume(owned.layout.table_root)
    except StorageUnavailableError:
        # Then it shares its four calls with no other route.
        volume = owned.layout.table_root
    store = f"store {volume}"
    return FilesFollower(
        publisher, owned.layout, owned.tenure, term=owned.writer.term, connection=store
    )
