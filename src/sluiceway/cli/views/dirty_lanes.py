"""The output and the work of `dirty replay`, `dirty purge` and `late replay`."""

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import typer

from sluiceway.audit.dirty_rows import DirtyFilter, DirtyRows, DirtyState, matching
from sluiceway.audit.format_times import counted
from sluiceway.cli.options import OutputFormat
from sluiceway.cli.views.answers import print_document
from sluiceway.cli.views.tables import printable
from sluiceway.cli.views.waiting import ProgressLine
from sluiceway.ledger.lane_records import LaneRange
from sluiceway.upkeep.requests import MOST_RANGES, REQUEST_VERSION, LaneRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluiceway.audit.late_choice import LateChoice, LateFiles
    from sluiceway.jobfile.compile.config import RouteConfig
    from sluiceway.ledger.lane_state import LaneState


@dataclass(frozen=True, slots=True)
class Choice:
    """Open dirty rows that a lane can take.

    Attributes:
        ranges: At most as many as a request holds; the oldest rows.
        rows: How many rows these ranges hold.
        reasons: Reason -> how many of these rows have it.
        left_out: Whether the selection has more rows than `ranges`.
    """

    ranges: tuple[LaneRange, ...]
    rows: int
    reasons: dict[str, int]
    left_out: bool

    def request(self, rows: DirtyRows, kind: str, operator: str, reason: str) -> LaneRequest:
        """The request for the driver."""
        first = rows.fold.first_fence
        ledger = first.ledger if first is not None else ""
        return LaneRequest(REQUEST_VERSION, ledger, kind, operator, reason, self.ranges)


def choose(rows: DirtyRows, wanted: DirtyFilter) -> Choice:
    """Open rows of the selection, as runs in their files, the oldest first.

    Raises:
        StorageUnavailableError: The store failed, or a file cannot be read.
    """
    wanted = replace(wanted, states=frozenset([DirtyState.OPEN]))
    ranges: list[LaneRange] = []
    reasons: Counter[str] = Counter()
    left_out = False
    for found in matching(rows, wanted):
        room = MOST_RANGES - len(ranges)
        runs = list(islice(found.ranges(), room + 1))
        left_out = len(runs) > room
        ranges += runs[:room]
        taken = _rows(runs[:room])
        reasons.update(found.keys.column("reason").to_pylist()[:taken])
        if left_out:
            break
    return Choice(tuple(ranges), _rows(ranges), dict(reasons), left_out)


def _rows(ranges: Iterable[LaneRange]) -> int:
    return sum(int(each.stop - each.start) for each in ranges)


def print_plan(
    config: "RouteConfig",
    rows: "DirtyRows",
    choice: "Choice",
    request: "LaneRequest",
    output: OutputFormat,
) -> None:
    """Say what would happen; changes nothing."""
    answer: dict[str, Any] = {
        "dry_run": True,
        "kind": request.kind,
        "rows": choice.rows,
        "reasons": choice.reasons,
        "more": choice.left_out,
    }
    if request.kind == "replay" and choice.rows:
        from sluiceway.operate.replay import try_rows  # noqa: PLC0415

        tried = try_rows(config, rows.log, rows.fold, choice.ranges)
        answer |= {"outcome": asdict(tried.counts), "still_dirty": tried.dirty_reasons}
        answer["superseded"] = tried.superseded
    if output.is_document:
        print_document(answer, output)
        return
    write = sys.stdout.write
    write(f"{request.kind} of {choice.rows:,} open rows{_by(choice.reasons)}\n")
    if "outcome" in answer:
        counts, still = answer["outcome"], answer["still_dirty"]
        write(f"clean now: {counts['written']:,}; dirty again: {counts['dirty']:,}{_by(still)}\n")
        if counts["filtered"] or counts["skipped"]:
            write(f"left out: {counts['filtered']:,} filtered, {counts['skipped']:,} skipped\n")
        if answer["superseded"]:
            write(f"superseded by later changes: {answer['superseded']:,} of those skipped\n")
    if choice.left_out:
        write("there are more rows than one request holds; repeat it when it is done\n")
    write("nothing was changed\n")


def _by(reasons: dict[str, int]) -> str:
    if not reasons:
        return ""
    most = sorted(reasons.items(), key=lambda each: (-each[1], each[0]))
    return f" ({', '.join(f'{printable(name)} {rows:,}' for name, rows in most)})"


def carry_out_and_tell(
    config: "RouteConfig",
    rows: "DirtyRows | LateFiles",
    choice: "Choice | LateChoice",
    request: "LaneRequest",
    output: OutputFormat,
) -> None:
    """Complete the lanes that an earlier call has left open, then this one.

    Raises:
        typer.Exit: A replay was in vain: all of its rows are dirty again.
        RequestRefusedError: It cannot be done; says why.
        SluicewayError: As at a driver's start, or as in a commit.
    """
    from sluiceway.observe.log import WarningsOnDemand  # noqa: PLC0415
    from sluiceway.operate.replay import carry_out, follow  # noqa: PLC0415

    log, watch = WarningsOnDemand(), _Progress()
    done = [
        follow(config, rows.log, lane.lane, watch, log)
        for lane in rows.fold.lanes.open_lanes()
        if lane.kind == request.kind
    ]
    if choice.rows:
        done.append(carry_out(config, rows.log, request, watch, log))
    watch.end()
    if output.is_document:
        lanes = [{"lane": each.lane, "slot": each.seq, **asdict(each.counts)} for each in done]
        print_document({"dry_run": False, "kind": request.kind, "lanes": lanes}, output)
    else:
        for lane in done:
            _print_lane(lane)
        if watch.by_driver and any(lane.counts.dirty for lane in done):
            sys.stdout.write(_AS_STARTED)
        if not done:
            none = "there is no such open row"
            none = "no such late row lies aside" if request.kind == "late" else none
            sys.stdout.write(f"nothing to do: {none}\n")
        elif choice.left_out:
            sys.stdout.write("there are more rows than one request holds; repeat the command\n")
    _refuse_in_vain(done)


def _refuse_in_vain(done: "Sequence[LaneState]") -> None:
    """End with 1 where a replay has brought no row into the table: nothing was mended."""
    still = sum(lane.counts.dirty for lane in done)
    if still and not any(lane.counts.written for lane in done):
        sys.stderr.write(f"no row was written: {counted(still, 'row')} dirty again\n")
        raise typer.Exit(1)


_AS_STARTED = (
    "the running driver reads with the job file that it was started with: if that was changed "
    "since, restart the driver and repeat this\n"
)


def _print_lane(lane: "LaneState") -> None:
    counts = lane.counts
    became = f"{counts.purged:,} given up"
    if lane.kind == "late":
        became = f"{counts.written:,} brought into their partitions"
    elif lane.kind == "replay":
        became = f"{counts.written:,} written, {counts.dirty:,} dirty again"
        if counts.superseded:
            became += f", {counts.superseded:,} superseded by later changes"
        if counts.filtered or counts.skipped:
            became += f", {counts.filtered:,} filtered, {counts.skipped:,} skipped"
    if counts.late:
        became += f", {counts.late:,} of sealed times put aside"
    sys.stdout.write(f"done: lane {lane.lane[:8]}, {counted(counts.read, 'row')}: {became}\n")


class _Progress(ProgressLine):
    """How many rows of a lane are done."""

    def __call__(self, lane: "LaneState | None", elsewhere: bool) -> None:
        far = None if lane is None else f"{lane.counts.read:,} of {lane.rows:,} rows"
        self.show("", far, elsewhere=elsewhere)
