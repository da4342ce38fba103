"""What docs/contributors/faults.md says of the last run: made from the file of results."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from matrix.__main__ import RESULTS, Kept, closing_line, read_kept
from matrix.cells import Cell, all_cells, queue_cells

_MOST_NAMED = 20


def fault_results() -> str:
    """The block of the page: of the cells that there are now, by the last result of each."""
    return results_block(all_cells(), read_kept(RESULTS))


def rocketmq_results() -> str:
    """The same of the cells of a job on RocketMQ."""
    return results_block(queue_cells(), read_kept(RESULTS))


def results_block(cells: Sequence[Cell], known: Mapping[str, Kept]) -> str:
    """The closing line, and every cell that is not green, by why it is not.

    Args:
        cells: Of this tree.
        known: The last result of each, also of cells that are gone.
    """
    found = [known[cell.name] for cell in cells if cell.name in known]
    closing = closing_line(cells, found)
    lines = ["```json", json.dumps(closing), "```", ""]
    red = [kept.cell for kept in found if not kept.green and kept.wrong]
    missed = [kept.cell for kept in found if not kept.green and not kept.wrong]
    missing = [cell.name for cell in cells if cell.name not in known]
    points = {cell.point for cell in cells} - {
        cell.point for cell in cells if cell.name in known and known[cell.name].hit
    }
    all_green = closing["green"] == len(cells) and not points
    lines.append("All cells are green." if all_green else "**Not all cells are green.**")
    if not all_green:
        lines += ["", "| cells | number | which |", "|---|---|---|"]
        lines.append(f"| green | {closing['green']:,} | |")
    for what, names in (
        ("red", red),
        ("whose failpoint was not met", missed),
        ("not run since they were added", missing),
        ("failpoints that no cell has met", sorted(points)),
    ):
        lines += [f"| {what} | {len(names):,} | {_named(names)} |"] if names else []
    lines += ["", f"Found at these commits (`+`: changed since): {_commits(found)}.", ""]
    return "\n".join(lines)


def _named(names: Sequence[str]) -> str:
    """A few by name, many by their scenes: the words before the first slash or dot."""
    if len(names) <= _MOST_NAMED:
        return ", ".join(f"`{name}`" for name in names)
    scenes = Counter(name.partition("/")[0].partition(".")[0] for name in names)
    return ", ".join(f"{number:,} of `{scene}`" for scene, number in sorted(scenes.items()))


def _commits(found: Sequence[Kept]) -> str:
    commits = Counter(kept.commit or "unknown" for kept in found)
    told = sorted(commits.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"`{commit}` {number:,}" for commit, number in told) or "none"
