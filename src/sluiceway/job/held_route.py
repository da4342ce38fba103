"""What a route holds while its driver owns its ledger."""

from dataclasses import dataclass

from sluiceway.job.effects import EffectsApplier
from sluiceway.job.housekeeping import Housekeeper
from sluiceway.job.lanes import Lanes
from sluiceway.job.publish import Publisher
from sluiceway.job.takeover import OwnedLedger
from sluiceway.ledger.upkeep import LogUpkeep
from sluiceway.worker.plan import RoutePlan


@dataclass(frozen=True, slots=True)
class HeldRoute:
    """From START to the end of its session, which closes it."""

    owned: OwnedLedger
    publisher: Publisher
    effects: EffectsApplier
    housekeeper: Housekeeper
    plan: RoutePlan
    upkeep: LogUpkeep
    lanes: Lanes
