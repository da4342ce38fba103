"""What a route's session has of its job's rooms: a standby before START, a keeper after it."""

from dataclasses import dataclass

from sluiceway.errors import SluicewayError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.driver_term import OwnedLedger
from sluiceway.ledger.room_files import RoomReport, read_advice
from sluiceway.observe import metrics
from sluiceway.route.clients import open_source
from sluiceway.route.owned_route import OwnedRoute
from sluiceway.route.room_keeper import RoomKeeper, RoomProgress
from sluiceway.route.room_standby import StandbyParts, StandbyRoom
from sluiceway.route.route_context import RouteContext


@dataclass(slots=True)
class RouteRooms:
    """Lives as long as the session; does nothing for a job that has one place only.

    Attributes:
        standby: Decides when this driver may fence; None for commands and jobs without rooms.
        refused: Why queue or catalog do not answer; set by the loop, None while they do.
    """

    context: RouteContext
    standby: StandbyRoom | None = None
    refused: SluicewayError | None = None
    _keeper: RoomKeeper | None = None

    @classmethod
    def of(cls, context: RouteContext, driver: str) -> "RouteRooms":
        """The rooms of a session whose driver has this id."""
        slots, config = context.parts.slots, context.config
        if config.rooms is None or slots is None:
            return cls(context)
        asks = StandbyParts(
            open_source=lambda: open_source(context.config),
            topics=lambda: context.config.topics,
            slots=slots,
            driver=driver,
            log=context.log,
        )
        return cls(context, StandbyRoom(config.rooms, asks))

    @property
    def leave_to(self) -> str | None:
        """Room that is to take over from this driver; None while it stays."""
        return None if self._keeper is None else self._keeper.leave_to

    def owes_comparison(self, owned: OwnedLedger) -> bool:
        """Whether the room has changed, so that the catalog may lack what it had before.

        Called once a START, after the fence. Without a report nothing is known of the room.
        """
        rule = self.context.config.rooms
        if rule is None:
            return False
        report = read_advice(owned.storage, owned.layout.room(rule.room), RoomReport)
        return report is None or report.compare_owed

    def begin(self, held: OwnedRoute) -> None:
        """Report to the other rooms from now on. Called once a START, last."""
        rule = self.context.config.rooms
        if rule is None or self.standby is None:
            return
        catalog, owned = held.catalog, held.owned
        started_at = owned.fold.next_seq

        def progress() -> RoomProgress:
            compared = catalog is None or catalog.place() >= started_at
            return RoomProgress(self.context.meter.commits, self._why_stuck(config), compared)

        config = self.context.config
        self._keeper = RoomKeeper(rule, owned, progress, self._one_place, self.context.log)
        self._keeper.start()

    def _one_place(self) -> tuple[str, ...]:
        """Asked with a client of its own: the loop's is used by the loop."""
        source = open_source(self.context.config)
        try:
            return source.one_place_problems(self.context.config.topics)
        finally:
            source.close()

    def gauges(self) -> dict[str, dict[tuple[str, ...], float]]:
        """What the metrics say of the rooms, by metric and labels. Any thread may ask."""
        standby, keeper = self.standby, self._keeper
        if standby is None:
            return {}
        reports = [] if standby.report is None else [standby.report]
        found: dict[str, dict[tuple[str, ...], float]] = {}
        if keeper is not None and keeper.own is not None:
            reports = [keeper.own, *keeper.others.values()]
            found[metrics.ROOMS_IN_ONE_PLACE.name] = {(): float(bool(keeper.own.notices))}
            if keeper.drill is not None:
                found[metrics.LAST_DRILL.name] = {(): keeper.drill.ended_ms / 1000}
        # A standby says of itself alone.
        rooms = () if keeper is None else standby.rule.names
        ready: dict[tuple[str, ...], float] = {(name,): 0.0 for name in rooms}
        found[metrics.ROOM_READY.name] = ready | {(e.room,): float(e.ready) for e in reports}
        found[metrics.ROOM_NEEDS_CONFIRMATION.name] = {
            (each.room,): float(bool(each.confirm_term)) for each in reports
        }
        return found

    def _why_stuck(self, config: RouteConfig) -> str:
        if self.refused is not None:
            return str(self.refused)
        left_out = self.context.meter.read().left_out_count
        return f"{config.route}: {left_out} source partitions have no leader" if left_out else ""

    def close(self) -> None:
        """End what has threads or connections. Safe to repeat."""
        if self._keeper is not None:
            self._keeper.close()
        if self.standby is not None:
            self.standby.close()
