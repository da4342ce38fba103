"""The engine of the crash matrix can fail: a planted loss is red, a point not met is not green."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from matrix.cells import Cell, visits_of
from matrix.drivers import DriverServer, driver_server
from matrix.experiment import Experiment, Outcome
from matrix.hours import told_hook
from matrix.rules import Fault, Scene, State, Visit
from matrix.stage import Stage
from sluiceway.lab.lab import LabEndpoints
from sluiceway.observe.failpoints import Role
from tools.independent_reader import Report
from tools.raw_metastore import raw_client


class _LossyStage(Stage):
    """Loses one published file before the reader looks."""

    def judge(self, name: str, scene: Scene, job: Path) -> Report:
        with raw_client(self.endpoints.metastore_uri) as client:
            root = Path(urlsplit(client.get_table(name, "t").sd.location).path)
        next(root.glob("dt=*/hr=*/*.parquet")).unlink()
        return Stage.judge(self, name, scene, job)


@pytest.fixture(scope="module")
def server() -> Iterator[DriverServer]:
    with driver_server() as found:
        yield found


@pytest.fixture(scope="module")
def stage(lab_endpoints: LabEndpoints) -> Iterator[Stage]:
    with told_hook() as hook:
        found = Stage(lab_endpoints, hook)
        found.fill()
        yield found


def _outcome(
    stage: Stage, server: DriverServer, folder: Path, cell: Cell
) -> tuple[Outcome, list[str]]:
    outcome = Experiment(cell, stage, server, folder).run()
    return outcome, [path.name for path in folder.iterdir()]


def _cell(point: str, fault: Fault, visit: Visit | None = None) -> Cell:
    return Cell(point, fault, State.REMOVED, visit or visits_of(point)[-1], 1)


@pytest.mark.parametrize("fault", [Fault.KILL_DRIVER, Fault.KILL_WORKER, Fault.ZOMBIE])
def test_cell_of_a_sound_product_is_green_and_leaves_nothing(
    stage: Stage, server: DriverServer, tmp_path: Path, fault: Fault
) -> None:
    cell = _cell("storage.publish.link.reply", fault)
    outcome, left = _outcome(stage, server, tmp_path, cell)
    assert outcome.green, outcome.wrong
    assert outcome.report.read > 200
    assert outcome.report.dirty > 0
    assert left == []


def test_cell_in_which_rows_were_lost_is_red(
    stage: Stage, server: DriverServer, tmp_path: Path
) -> None:
    lossy = _LossyStage(stage.endpoints, stage.hook, records=stage.records)
    cell = _cell("step.committed", Fault.KILL_DRIVER)
    outcome, left = _outcome(lossy, server, tmp_path, cell)
    assert outcome.hit
    assert not outcome.green
    assert outcome.report.lost > 0
    assert len(left) == 1, "the remains of a red cell are kept"


def test_cell_whose_point_was_not_met_is_not_green(
    stage: Stage, server: DriverServer, tmp_path: Path
) -> None:
    never = Visit(Role.DRIVER, "*/there-is-no-such-place")
    cell = _cell("storage.read.request", Fault.RAISE, never)
    outcome, _ = _outcome(stage, server, tmp_path, cell)
    assert (outcome.hit, outcome.wrong, outcome.green) == (False, "", False)
