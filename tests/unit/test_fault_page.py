"""docs/contributors/faults.md cannot be greener than the file of results."""

from matrix.__main__ import Kept
from matrix.cells import Cell, all_cells
from tools.fault_page import results_block

CELLS = all_cells()[:6]


def kept(cell: Cell, *, green: bool = True, hit: bool = True, wrong: str = "") -> Kept:
    return Kept(cell.name, green, hit, 1.0, 0, 0, 0, commit="abc", wrong=wrong)


def block(*found: Kept) -> str:
    return results_block(CELLS, {each.cell: each for each in found})


def test_page_of_green_cells_says_so() -> None:
    shown = block(*map(kept, CELLS))
    assert "\nAll cells are green.\n" in shown
    assert "`abc` 6" in shown


def test_page_names_cells_that_are_red_not_met_or_not_run() -> None:
    red = kept(CELLS[0], green=False, wrong="lost 1")
    missed = kept(CELLS[1], green=False, hit=False)
    shown = block(red, missed, *map(kept, CELLS[2:5]))
    assert "All cells are green" not in shown
    assert "**Not all cells are green.**" in shown
    assert f"| red | 1 | `{CELLS[0].name}` |" in shown
    assert f"| whose failpoint was not met | 1 | `{CELLS[1].name}` |" in shown
    assert f"| not run since they were added | 1 | `{CELLS[5].name}` |" in shown
    assert "| green | 3 | |" in shown


def test_page_without_results_is_not_green() -> None:
    shown = block()
    assert "All cells are green" not in shown
    assert "| not run since they were added | 6 |" in shown


def test_results_of_cells_that_are_gone_do_not_count() -> None:
    gone = Kept("gone/raise/kept", True, True, 1.0, 0, 0, 0)  # noqa: FBT003
    assert "| green | 0 | |" in block(gone)
