"""The cross product of failpoints, faults and states, without what the rules leave out."""

import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import islice, product
from pathlib import Path

from matrix.rules import (
    ACTIONS,
    HOURS_VISITS,
    KEYED_VISITS,
    LANE_VISITS,
    QUEUES,
    QUEUES_VISITS,
    RULES,
    VISITS,
    Fault,
    Scene,
    State,
    Visit,
)
from matrix.stores import Store, points_of, points_of_queues
from sluiceway.observe.failpoint_names import REPLY, REQUEST
from sluiceway.observe.failpoints import FailpointSpec

_OWN_TABLES = (Scene.LANE, Scene.HOURS, Scene.KEYED, *QUEUES)
Visits = Sequence[tuple[str, tuple[Visit, ...]]]

SPARK_CELLS = 120
SMOKE_LANE_CELLS = 12
SMOKE_HOURS_CELLS = 4
SMOKE_SPARK_CELLS = 4
QUEUES_SPARK_CELLS = 8


@dataclass(frozen=True, slots=True)
class Cell:
    """One experiment.

    Attributes:
        spark: The first driver runs its tasks under Spark.
    """

    point: str
    fault: Fault
    state: State
    visit: Visit
    hit: int
    spark: bool = False
    store: Store = Store.LOCAL

    @property
    def name(self) -> str:
        """Unique, and stable as long as the matrix is."""
        store = "" if self.store is Store.LOCAL else f"{self.store}/"
        runner = f"{store}spark/" if self.spark else store
        scene = f"{self.visit.scene}/" if self.visit.scene in _OWN_TABLES else ""
        return f"{runner}{scene}{self.point}/{self.fault}/{self.state}"

    def spec(self, folder: Path) -> FailpointSpec:
        """What the first driver gets."""
        return FailpointSpec(
            point=self.point,
            action=ACTIONS[self.fault],
            folder=str(folder),
            hit=self.hit,
            place=self.visit.place,
            by=self.visit.by,
        )


def visits_of(point: str) -> tuple[Visit, ...]:
    """When the point is met.

    Raises:
        LookupError: The data does not say.
    """
    found = _visits(point, VISITS)
    if not found:
        raise LookupError(f"no visit of {point} is known")
    return found


def _visits(point: str, known: Visits) -> tuple[Visit, ...]:
    """Of the first pattern that fits; none when none does."""
    bare = point.removesuffix(f".{REQUEST}").removesuffix(f".{REPLY}")
    fit = (of for pattern, of in known if fnmatchcase(bare, pattern) or fnmatchcase(point, pattern))
    return next(fit, ())


def cross_product(store: Store = Store.LOCAL) -> tuple[list[Cell], Counter[str]]:
    """All cells that make sense, and how many others each rule leaves out."""
    cells: list[Cell] = []
    left_out: Counter[str] = Counter()
    for point, fault, state in product(points_of(store), Fault, State):
        found = _cell(point, fault, state, visits_of)
        if isinstance(found, Cell):
            cells.append(replace(found, store=store))
        else:
            left_out[found] += 1
    return cells, left_out


def lane_cells(store: Store = Store.LOCAL) -> list[Cell]:
    """Points that lanes share with the stream, met by a lane; what the rules leave in of them.

    A lane has no local state of its own, so each of these cells has one of the two.
    """
    return _shared_cells(LANE_VISITS, store)


def hours_cells(store: Store = Store.LOCAL) -> list[Cell]:
    """The same of points that are met when hours are merged, announced and told of."""
    return _shared_cells(HOURS_VISITS, store)


def keyed_cells(store: Store = Store.LOCAL) -> list[Cell]:
    """The same of points that are met when changes of keyed rows are published; local only."""
    return _shared_cells(KEYED_VISITS, store) if store is Store.LOCAL else []


def queue_cells() -> list[Cell]:
    """The matrix of a job on RocketMQ: a few of its cells under Spark too."""
    cells = _cells_at(QUEUES_VISITS, points_of_queues(), Store.LOCAL)
    by_name = sorted(cells, key=lambda cell: zlib.crc32(cell.name.encode()))
    return [*cells, *map(under_spark, by_name[:QUEUES_SPARK_CELLS])]


def _shared_cells(known: Visits, store: Store) -> list[Cell]:
    return _cells_at(known, points_of(store), store)


def _cells_at(known: Visits, points: Sequence[str], store: Store) -> list[Cell]:
    met = {point: found for point in points if (found := _visits(point, known))}
    cells = []
    for point, fault in product(met, Fault):
        state = list(State)[zlib.crc32(f"{point}/{fault}".encode()) % len(State)]
        cell = _cell(point, fault, state, met.__getitem__)
        if isinstance(cell, Cell):
            cells.append(replace(cell, store=store))
    return cells


def _cell(
    point: str, fault: Fault, state: State, visits_at: Callable[[str], tuple[Visit, ...]]
) -> Cell | str:
    """The cell at the point's first fit visit, by a rotation of its own; else a rule's name."""
    if rule := _rule(point, fault, early=False):
        return rule
    visits = visits_at(point)
    fit = [visit for visit in visits if not (visit.early and _rule(point, fault, early=True))]
    if not fit:
        return _rule(point, fault, early=True)
    number = zlib.crc32(f"{point}/{fault}/{state}".encode())
    visit = fit[number % len(fit)]
    return Cell(point, fault, state, visit, visit.hits[(number >> 8) % len(visit.hits)])


def _rule(point: str, fault: Fault, *, early: bool) -> str:
    return next((rule.name for rule in RULES if rule.covers(point, fault, early=early)), "")


def all_cells(store: Store = Store.LOCAL) -> list[Cell]:
    """The whole matrix: every cell under the local runner, a spread of them under Spark too."""
    cells, _ = cross_product(store)
    own = (*lane_cells(store), *hours_cells(store), *keyed_cells(store))
    return [*cells, *own, *_spark_cells(cells)]


def smoke_cells(store: Store = Store.LOCAL) -> list[Cell]:
    """Every failpoint is met once: some by a lane, some by hours, some under Spark."""
    cells, _ = cross_product(store)
    chosen = [
        *_some(lane_cells(store), SMOKE_LANE_CELLS),
        *_some(hours_cells(store), SMOKE_HOURS_CELLS),
        *_some(_spark_cells(cells), SMOKE_SPARK_CELLS),
    ]
    met = {cell.point for cell in chosen}
    return [*chosen, *spread([cell for cell in cells if cell.point not in met], 0)]


def _some(cells: Sequence[Cell], count: int) -> list[Cell]:
    """So many, with faults and states in turn."""
    by_name = sorted(cells, key=lambda cell: zlib.crc32(cell.name.encode()))
    return list(islice(_in_turn([by_name], Counter()), count))


def _spark_cells(cells: Sequence[Cell]) -> list[Cell]:
    # What merges, announces and publishes does so beside the tasks, whoever runs those.
    beside = (Scene.HOURS, Scene.KEYED)
    of_tasks = [cell for cell in cells if cell.visit.scene not in beside]
    return [under_spark(cell) for cell in spread(of_tasks, SPARK_CELLS)]


def under_spark(cell: Cell) -> Cell:
    """The same cell with a JVM."""
    return replace(cell, spark=True)


def spread(cells: Sequence[Cell], least: int) -> list[Cell]:
    """At least so many cells, and one of every point, with faults and states in turn."""
    by_point: dict[str, list[Cell]] = {}
    for cell in cells:
        by_point.setdefault(cell.point, []).append(cell)
    return list(islice(_in_turn(list(by_point.values()), Counter()), max(least, len(by_point))))


def _in_turn(groups: list[list[Cell]], used: Counter[tuple[Fault, State]]) -> Iterator[Cell]:
    """One cell of each group after the other: the fault and state that came least so far."""
    left = [list(group) for group in groups]
    while any(left):
        for group in left:
            if group:
                best = min(group, key=lambda cell: used[cell.fault, cell.state])
                group.remove(best)
                used[best.fault, best.state] += 1
                yield best
