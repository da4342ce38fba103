"""One seed: trouble, then a healed world in which all has to come to rest and be right."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from sim import operators
from sim.actors import ACTORS, OFTEN, ROOM_ACTORS, SQL_ACTORS, weight_of
from sim.lives import Life
from sim.places import ViolationError
from sim.scheduler import KilledError, Process, StuckError
from sim.substitutes import running
from sim.weather import Rates
from sim.world import TOPIC, World, enter, leave

_MOST_STEPS = 60_000
_MOST_GAP = 400
_MOST_STARTS = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a seed ended.

    Attributes:
        violation: What was broken; empty when nothing was.
        seen: How often the interesting things have happened.
        trace: All that happened, when it was asked for.
        often: What happened often in its world.
    """

    seed: int
    steps: int
    violation: str
    seen: Counter[str]
    trace: tuple[str, ...] = ()
    often: frozenset[str] = frozenset()


class _Run:
    def __init__(self, world: World) -> None:
        self._world = world
        self._scheduler = world.scheduler
        self._arrived = 0
        actors = (*ACTORS, *ROOM_ACTORS) if world.rooms.there else ACTORS
        actors = (*actors, *SQL_ACTORS) if world.sql.there else actors
        self._drawn = [actor for actor in actors for _ in range(weight_of(actor, world.often))]

    def trouble(self) -> None:
        """Actors act until their number is up."""
        world, rng = self._world, self._world.rng
        for _ in range(rng.randint(0, 6)):
            world.broker.append(TOPIC)
        world.start_driver(bounded=False)
        for _ in range(rng.randint(4, 30)):
            gap = int(_MOST_GAP ** rng.random())
            self._go_on(self._scheduler.steps + gap)
            rng.choice(self._drawn).act(world)
            while world.lull:
                seconds, then = world.lull.pop(0)
                self._pass(seconds)
                then()
            if not world.running() and rng.random() < 0.7:
                world.start_driver(bounded=False)
            world.check_halts()

    def heal(self) -> None:
        """The world is well, zombies wake up, all are asked to stop, one driver reads the rest."""
        world = self._world
        world.note("the world is well from here on")
        world.weather.heal()
        world.broker.heal()
        world.doubts.heal()
        world.rooms.heal()
        world.sql.heal()
        for life in world.running():
            life.stop.ask()
        processes = [life.process for life in world.running()]
        processes += [command.process for command in world.commanded()]
        sleepers = [process for process in processes if process.paused and world.rng.random() < 0.6]
        self._wake(process for process in processes if process not in sleepers)
        if world.is_another_log and world.rng.random() < 0.8:
            self._until_ended([operators.start(world, "change", operators.change)])
        last = self._read_behind_cuts(self._read_the_rest())
        if world.cut_partitions():
            return
        if sleepers:
            # They find a ledger that has gone on for long.
            for _ in range(world.rng.randint(0, 4)):
                for _ in range(3):
                    world.broker.append(TOPIC)
                self._read_the_rest()
            self._wake(sleepers)
            world.broker.heal()
            last = self._read_the_rest()
        last = self._look_again() or last
        world.check_halts()
        if world.is_another_log or world.monitor.reset_into_nothing:
            return
        if last.halts:
            raise ViolationError(f"halt: {last.halts} in a healed world")
        world.monitor.check_end(world.all_files(), world.table.partitions)
        world.weather.deliver(everything=True)
        self._check()
        world.power_cut()
        world.monitor.check_end(world.all_files(), world.table.partitions)

    def _read_behind_cuts(self, last: Life) -> Life:
        """Logs that were cut have halted the route; an operator may let it read on."""
        world = self._world
        cut = world.cut_partitions()
        if not cut:
            return last
        halted = "SW455" in [code for code, _ in last.halts]
        if not (halted or world.is_another_log) and any(map(world.has_more, cut)):
            raise ViolationError(f"P7: {cut} were cut, the last driver has not halted")
        if world.rng.random() < 0.2:
            return last
        for _ in range(_MOST_STARTS):
            if world.cut_partitions():
                self._until_ended([operators.start(world, "accept", operators.accept_cut)])
        return self._read_the_rest()

    def _look_again(self) -> Life | None:
        """Start once more when something arrived while the last driver ran; None when nothing did.

        A metastore call of long ago may come after that driver's last look, and only one who
        looks again puts it right: those still under way come now.
        """
        weather, last = self._world.weather, None
        weather.deliver(everything=True, to="metastore")
        while self._arrived != weather.arrived:
            weather.rates = Rates()
            weather.deliver(everything=True)
            last = self._read_the_rest()
        return last

    def _wake(self, chosen: Iterable[Process]) -> None:
        """Let processes go on to their end."""
        processes = list(chosen)
        for process in processes:
            self._scheduler.pause(process, paused=False)
            process.crash_in, process.stops_at = None, ""
        self._until_ended(processes)

    def _read_the_rest(self) -> Life:
        """Run a driver to the ends of the logs."""
        for _ in range(_MOST_STARTS):
            self._arrived = self._world.weather.arrived
            last = self._world.start_driver(bounded=True)
            self._until_ended([last.process])
            if [code for code, _ in last.halts] != ["SW452"]:
                break
            # A dead driver's lease arrived late and looked alive; a supervisor starts again.
        return last

    def _go_on(self, until: int) -> None:
        """Let threads run for some steps, or until none can."""
        self._scheduler.next_event = until
        while self._scheduler.steps < until and self._turn():
            pass

    def _pass(self, seconds: float) -> None:
        """Let time pass, but not for ever."""
        until, end = self._scheduler.now + seconds, self._scheduler.steps + _MOST_STEPS
        self._scheduler.next_event = end
        while self._scheduler.now < until and self._scheduler.steps < end and self._turn():
            pass

    def _turn(self) -> bool:
        if self._world.weather.under_way:
            self._world.weather.deliver()
        goes_on = self._scheduler.turn()
        self._check()
        return goes_on

    def _check(self) -> None:
        if self._scheduler.escaped:
            raise ViolationError(f"escaped: {self._scheduler.escaped}")
        if self._world.monitor.broken:
            raise ViolationError(self._world.monitor.broken)

    def _until_ended(self, processes: list[Process]) -> None:
        end = self._scheduler.steps + _MOST_STEPS
        self._scheduler.next_event = end
        while not all(process.dead for process in processes):
            if self._scheduler.steps >= end or not self._turn():
                names = [process.name for process in processes if not process.dead]
                raise ViolationError(f"liveness: {names} do not come to an end")


def simulate(seed: int, *, traced: bool = False, often: frozenset[str] = frozenset()) -> Outcome:
    """Run one seed from its beginning to its end; the same seed always does the same.

    Args:
        seed: Of all dice of its world.
        traced: Keep what happens.
        often: Names of what happens ten times as often as in other worlds, see `OFTEN`.

    Raises:
        LookupError: Nothing of that name happens.
    """
    if unknown := often - OFTEN:
        raise LookupError(f"nothing that happens is {sorted(unknown)}; {sorted(OFTEN)} do")
    world = World(seed, traced=traced, often=often)
    violation = ""
    with running(world.scheduler):
        enter(world)
        try:
            run = _Run(world)
            run.trouble()
            run.heal()
        except (ViolationError, StuckError) as error:
            violation = str(error)
        finally:
            try:
                world.scheduler.close()
            except KilledError:
                violation = violation or "a dead process went on"
            leave()
    seen = world.seen + Counter(
        records=len(world.monitor.fold.records),
        takeovers=world.monitor.fold.term,
        snapshots=world.monitor.snapshots,
        packs=world.monitor.packs,
        sealed=world.monitor.sealings,
        files_aside=world.monitor.aside,
        late_arrivals=world.weather.arrived,
        **{f"store_{world.store}": 1},
    )
    trace = tuple(world.trace or ())
    return Outcome(seed, world.scheduler.steps, violation, seen, trace, often)
