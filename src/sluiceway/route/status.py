"""What can be seen of a route, as values; the file `status.json` holds one of them.

Advice only: nothing that decides reads it.
"""

import json
import math
import re
import shlex
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum

from sluiceway.errors import StorageUnavailableError
from sluiceway.followers.runner import FollowerState
from sluiceway.ledger.folding.fold_state import FoldState
from sluiceway.route.halt_report import HaltReport
from sluiceway.storage.contract import Storage
from sluiceway.types.strict_json import StrictJsonError, from_plain, loads

_LAST_MS = 253_402_300_799_999
"""End of the year 9999: no clock says more, and not every date can be written."""
_FIRST_MS = -62_135_596_800_000
_MOST = 2**63
_ADDRESS = re.compile(r"https?://[\w.:\[\]-]+(/[\w./-]*)?", re.ASCII)
_OF_A_SHELL = frozenset("();<>|&")


class RouteState(StrEnum):
    """Where a route is. The last four are seen from outside only, `stopped` also at the end."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"
    HALTED = "halted"
    CAUGHT_UP = "caught_up"
    STOPPED = "stopped"
    NOT_STARTED = "not_started"
    NO_TABLE = "no_table"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class EpochTold:
    """One commit of rows, as its driver reported it; see `RouteStatus.epochs`.

    Attributes:
        seq: Slot of its record in the ledger.
        committed_ms: When it was committed, in milliseconds since the epoch.
        rows_read: Rows of it, as the next two.
        files: New files of the table.
        phases: Name of a phase -> seconds that it took.
    """

    seq: int
    committed_ms: int
    rows_read: int
    rows_written: int
    rows_dirty: int
    files: int
    phases: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RouteNumbers:
    """How far a route is; None is what is not known yet. See `RouteStatus`."""

    term: int | None = None
    last_seq: int | None = None
    last_commit_ms: int | None = None
    rows_read: int | None = None
    rows_written: int | None = None
    rows_dirty: int | None = None
    rows_dirty_open: int | None = None
    rows_late: int | None = None
    late_rows: dict[str, int] = field(default_factory=dict)
    lag_records: int | None = None
    lag_ms: int | None = None
    lag_at_least_ms: int | None = None
    rows_per_s: float = 0.0
    dirty_rows_per_s: float = 0.0
    dirty_reasons: dict[str, int] = field(default_factory=dict)
    ignored_fields: dict[str, int] = field(default_factory=dict)
    unfilled_columns: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    left_out_count: int = 0
    followers: tuple[FollowerState, ...] = ()
    units_wait_for: str = ""


@dataclass(frozen=True, slots=True)
class RouteStatus(RouteNumbers):
    """One route at one moment. Times are milliseconds since the epoch.

    Attributes:
        route: Its name.
        table: `database.table`.
        state: Where it is.
        code: Code of the error, when it waits or has halted; else None.
        message: Message of that error, with what to do next; else None.
        report: For a person, when it has halted: evidence, and commands that resolve it.
        since_ms: When it came into this state.
        as_of_ms: When this was seen.
        next_try_ms: When a route that has halted starts again; None when it does not.
        watermark_us: Event time up to which rows are complete, when the driver read it last.
        epochs: The last commits of this driver, the oldest first; a few.
        spark_ui: Address of the live driver's Spark UI; empty where that is off, None where it is
            not known or no driver lives.
        term: Term of the driver; None before it has fenced.
        last_seq: Last slot of the ledger.
        last_commit_ms: Last commit of rows, by this driver or as the one before it said.
        rows_read: All rows that the ledger has, as the next two.
        rows_dirty_open: Dirty rows that were neither replayed nor purged.
        rows_late: Late rows, whatever became of them, and `late_rows` the same by policy.
        lag_records: In the logs and not committed, when the brokers were last asked; without what
            left-out partitions have; None when no leader answers.
        lag_at_least_ms: While `lag_ms` is not known and records wait: the least age of the oldest
            one, by its own time, when the brokers were last asked.
        lag_ms: All older records are committed; 0 when there were none to commit, None until all
            that the first reading saw is committed.
        rows_per_s: Rows committed a second, over the last minute or two epochs.
        dirty_rows_per_s: Dirty rows among these.
        dirty_reasons: Dirty rows that this driver has committed, by reason and field.
        ignored_fields: Fields that no column reads and `unknown_fields: ignore` ignores: rows in
            which this driver's tasks have seen each, of the few that they sample.
        unfilled_columns: Columns that no row of this driver has filled, each with the ignored field
            that was meant; empty where no name is like it.
        left_out: Source partitions that the route goes on without, as no leader answers for them,
            each with why; a few of `left_out_count`. They hold the watermark.
        followers: What follows the commits, in order: how far each is, and what it waits for.
        units_wait_for: Why a route with `mode: recompute` could not compute its units when it tried
            last; empty when it could.
    """

    route: str = ""
    table: str = ""
    state: RouteState = RouteState.UNKNOWN
    code: str | None = None
    message: str | None = None
    report: HaltReport | None = None
    since_ms: int | None = None
    as_of_ms: int = 0
    next_try_ms: int | None = None
    watermark_us: int | None = None
    epochs: tuple[EpochTold, ...] = ()
    spark_ui: str | None = None

    def is_news(self, before: "RouteStatus") -> bool:
        """Whether it says more than the time."""
        return replace(self, as_of_ms=before.as_of_ms) != before


@dataclass(frozen=True, slots=True)
class RouteSummary:
    """What a run has done for one route.

    Attributes:
        state: State in which it ended.
        error: Why, when it waited or had halted.
        commits: Commits of rows by this run, as are the rows.
    """

    route: str
    table: str
    state: RouteState
    error: str | None
    commits: int
    rows_read: int
    rows_written: int
    rows_dirty: int


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run has done; routes in the order in which they came."""

    routes: tuple[RouteSummary, ...]

    @property
    def commits(self) -> int:
        """Commits of rows, of all routes."""
        return sum(route.commits for route in self.routes)

    @property
    def rows_read(self) -> int:
        """Rows committed, of all routes: written, dirty and left out."""
        return sum(route.rows_read for route in self.routes)

    @property
    def rows_written(self) -> int:
        """Rows in the tables' files, of all routes."""
        return sum(route.rows_written for route in self.routes)

    @property
    def rows_dirty(self) -> int:
        """Rows in the dirty stores, of all routes."""
        return sum(route.rows_dirty for route in self.routes)


def encode_status(status: RouteStatus) -> bytes:
    """Content of `status.json`."""
    return json.dumps(asdict(status), ensure_ascii=False).encode() + b"\n"


def last_commit_ms(storage: Storage, path: str, fold: FoldState) -> int | None:
    """When the driver before committed, as it said: the ledger has no times of most commits.

    Args:
        storage: Store of the ledger.
        path: Where `status.json` lies.
        fold: The ledger.
    """
    swap_ms = last_swap_ms(fold)
    try:
        raw = storage.read(path)
    except StorageUnavailableError:
        return swap_ms
    before = decode_status(raw) if raw is not None else None
    return later_ms(swap_ms, before.last_commit_ms if before is not None else None)


def last_swap_ms(fold: FoldState) -> int | None:
    """When rows of a part of the table were replaced last, by the READY that followed.

    None where that was not announced yet, or the part is sealed.
    """
    closed = ((fold.closed.get(prefix), seq) for prefix, seq in fold.swaps.items())
    told_us = (
        each.ready_at_us
        for each, seq in closed
        if each is not None and each.ready_at_us is not None and each.ready_seq > seq
    )
    return max((us // 1000 for us in told_us), default=None)


def later_ms(one: int | None, other: int | None) -> int | None:
    """The later one of two moments that may not be known."""
    return max((each for each in (one, other) if each is not None), default=None)


def decode_status(raw: bytes) -> RouteStatus | None:
    """Read `status.json`; None when another version wrote it, it is torn, or no driver says so.

    Whoever may write next to the table may write this file. What it says is shown and pasted, so
    numbers that cannot be, and commands that are not our own, make it unreadable.
    """
    try:
        plain = from_plain(loads(raw), dict[str, object], "status")
        plain["state"] = RouteState(plain.get("state"))
        status: RouteStatus = from_plain(plain, RouteStatus, "status")
    except (StrictJsonError, ValueError):
        return None
    commands = () if status.report is None else status.report.commands
    own = all(map(_is_own_command, commands)) and _is_address(status.spark_ui or "")
    return status if own and _can_be(plain) else None


def _is_address(text: str) -> bool:
    """Whether a browser that follows this asks a web server, and runs nothing."""
    return not text or _ADDRESS.fullmatch(text) is not None


def _can_be(value: object, name: str = "") -> bool:
    """Whether all numbers are finite, and all times are ones that a calendar has."""
    if isinstance(value, dict):
        return all(_can_be(each, key) for key, each in value.items())
    if isinstance(value, list):
        return all(_can_be(each, name) for each in value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return True
    if name.endswith("_ms"):
        return 0 <= value <= _LAST_MS
    if name.endswith("_us"):
        return _FIRST_MS <= value / 1000 <= _LAST_MS
    return math.isfinite(value) and abs(value) < _MOST


def _is_own_command(text: str) -> bool:
    """Whether a shell that gets this runs this program, and nothing else."""
    if not text.startswith("sluiceway ") or not text.isprintable() or {*"`$!\\"} & {*text}:
        return False
    words = shlex.shlex(text, posix=True, punctuation_chars=True)
    words.commenters = ""
    try:
        return not any(_OF_A_SHELL.issuperset(word) for word in words if word)
    except ValueError:
        return False
