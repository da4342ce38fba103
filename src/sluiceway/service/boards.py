"""What the boards show: panels with their expressions, from which Grafana's files are made."""

from dataclasses import dataclass
from enum import StrEnum

from sluiceway.observe import metrics
from sluiceway.observe.metrics import Metric

WINDOW = "$__rate_interval"
"""Grafana puts a window in that fits the interval of the scrapes."""

_BY_JOB = "job_name"
_BY_ROUTE = "job_name, route"


@dataclass(frozen=True, slots=True)
class Query:
    """One expression of a panel.

    Attributes:
        expression: PromQL, with `$job_name`, `$route` and the window as variables.
        legend: Legend of each line; `{{label}}` stands for a label's value.
    """

    expression: str
    legend: str


class PanelKind(StrEnum):
    """How a panel is drawn, as Grafana calls it."""

    CHART = "timeseries"
    NUMBER = "stat"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart, number or table.

    Attributes:
        unit: Unit as Grafana calls it.
        help: One sentence under the title's mark.
        yellow: From which value on a number is; None never.
        red: From which value on a number is.
    """

    title: str
    unit: str
    help: str
    queries: tuple[Query, ...]
    kind: PanelKind = PanelKind.CHART
    yellow: float | None = None
    red: float | None = None


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard.

    Attributes:
        uid: By which links find it.
        variables: Labels to choose by, from left to right.
    """

    uid: str
    title: str
    variables: tuple[str, ...]
    panels: tuple[Panel, ...]


class _Scope:
    """Expressions over the routes that a board's variables choose."""

    def __init__(self, *variables: str) -> None:
        self._chosen = ",".join(f'{name}=~"${name}"' for name in variables)

    def series(self, metric: Metric, extra: str = "", suffix: str = "") -> str:
        chosen = ",".join(part for part in (self._chosen, extra) if part)
        return f"{metric.full_name}{suffix}{{{chosen}}}"

    def rate(self, metric: Metric, by: str) -> str:
        return f"sum by ({by}) (rate({self.series(metric)}[{WINDOW}]))"

    def increase(self, metric: Metric, by: str) -> str:
        return f"sum by ({by}) (increase({self.series(metric)}[{WINDOW}]))"

    def total(self, metric: Metric, by: str) -> str:
        return f"sum by ({by}) ({self.series(metric)})"

    def most(self, metric: Metric, by: str) -> str:
        return f"max by ({by}) ({self.series(metric)})"

    def quantile(self, metric: Metric, share: float, by: str) -> str:
        buckets = f"rate({self.series(metric, suffix='_bucket')}[{WINDOW}])"
        return f"histogram_quantile({share}, sum by ({by}, le) ({buckets}))"

    def top(self, expression: str) -> str:
        return f"topk(10, {expression})"


def _panel(title: str, unit: str, told: str, *queries: tuple[str, str]) -> Panel:
    return Panel(title, unit, told, tuple(Query(*query) for query in queries))


def _quantiles(scope: _Scope, metric: Metric, by: str, legend: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (scope.quantile(metric, share, by), f"{legend} p{round(100 * share)}")
        for share in (0.5, 0.95, 0.99)
    )


_NOT_RUNNING = 'state=~"waiting|halted|stopped"'
_ALERTED_LAG_S, _ALERTED_SHARE = 900, 0.01
"""From where on the alerts Lag and DirtyRate fire."""


def _numbers(scope: _Scope) -> tuple[Panel, ...]:
    """The first row: what needs a person, each as one number."""
    read, dirty = scope.series(metrics.RECORDS_READ), scope.series(metrics.RECORDS_DIRTY)
    # Where nothing is read the share is 0, and no gap.
    share = f"sum(rate({dirty}[10m])) / clamp_min(sum(rate({read}[10m])), 0.001)"
    lag = f"max({scope.series(metrics.LAG_SECONDS)})"
    stopped = f"sum({scope.series(metrics.JOB_STATE, _NOT_RUNNING)})"
    overdue = f"sum({scope.series(metrics.PARTITIONS_OVERDUE)})"
    return (
        _number("Routes not running", "short", "That wait, have halted or stopped.", stopped, 1),
        _number("Overdue hours", "short", "Over by the clock, and not announced.", overdue, 1),
        _number(
            "Oldest uncommitted record",
            "s",
            "All that is older is committed, in the route that is furthest behind.",
            lag,
            _ALERTED_LAG_S,
            yellow=_ALERTED_LAG_S / 3,
        ),
        _number(
            "Dirty share",
            "percentunit",
            "Of the rows that were read in ten minutes.",
            share,
            _ALERTED_SHARE,
            yellow=_ALERTED_SHARE / 10,
        ),
    )


def _number(
    title: str,
    unit: str,
    told: str,
    expression: str,
    red: float,
    *,
    yellow: float | None = None,
) -> Panel:
    return Panel(title, unit, told, (Query(expression, ""),), PanelKind.NUMBER, yellow, red)


def _overdue_hours(scope: _Scope) -> Panel:
    by = f"{_BY_ROUTE}, table, prefix"
    since = scope.most(metrics.PARTITION_OVERDUE_SINCE, by)
    return Panel(
        "Which hours are overdue",
        "s",
        "For how long, the oldest 20 of a route. `sluiceway partitions why JOB HOUR` says why.",
        (Query(f"sort_desc(time() - {since})", ""),),
        PanelKind.TABLE,
    )


_ALL = _Scope(_BY_JOB)
_SINCE_COMMIT = f"time() - {_ALL.most(metrics.LAST_COMMIT, _BY_ROUTE)}"
FLEET_BOARD = Board(
    "sluiceway-fleet",
    "Sluiceway / Fleet",
    (_BY_JOB,),
    (
        *_numbers(_ALL),
        _overdue_hours(_ALL),
        _panel(
            "Routes by state",
            "short",
            "How many routes are in each state; waiting and halted ones need a look.",
            (_ALL.total(metrics.JOB_STATE, "state"), "{{state}}"),
        ),
        _panel(
            "Records read",
            "rps",
            "Records that were read and committed, a second.",
            (_ALL.rate(metrics.RECORDS_READ, _BY_JOB), "{{job_name}}"),
        ),
        _panel(
            "Bytes",
            "Bps",
            "Bytes of payloads that came in, and of files that went out.",
            (_ALL.rate(metrics.BYTES_READ, _BY_JOB), "{{job_name}} in"),
            (_ALL.rate(metrics.BYTES_WRITTEN, _BY_JOB), "{{job_name}} out"),
        ),
        _panel(
            "Dirty rows",
            "rps",
            "Rows that could not be converted.",
            (_ALL.rate(metrics.RECORDS_DIRTY, _BY_JOB), "{{job_name}}"),
        ),
        _panel(
            "Failed writes",
            "rps",
            "Records of attempts that failed; they are read again.",
            (_ALL.rate(metrics.WRITE_FAILED_RECORDS, _BY_JOB), "{{job_name}}"),
        ),
        _panel(
            "Lag, records: furthest behind",
            "short",
            "Records in the logs that are not committed.",
            (_ALL.top(_ALL.total(metrics.LAG_RECORDS, _BY_ROUTE)), "{{job_name}} {{route}}"),
        ),
        _panel(
            "Lag, seconds: furthest behind",
            "s",
            "All that is older is committed.",
            (_ALL.top(_ALL.most(metrics.LAG_SECONDS, _BY_ROUTE)), "{{job_name}} {{route}}"),
        ),
        _panel(
            "Source partitions left out",
            "short",
            "No leader answers for them, or they are gone; lag does not count their rows.",
            (_ALL.top(_ALL.most(metrics.PARTITIONS_LEFT_OUT, _BY_ROUTE)), "{{job_name}} {{route}}"),
        ),
        _panel(
            "Since the last commit",
            "s",
            "Rises where nothing comes, too.",
            (_ALL.top(_SINCE_COMMIT), "{{job_name}} {{route}}"),
        ),
        _panel(
            "From append to commit",
            "s",
            "95 of 100 rows took less.",
            (_ALL.quantile(metrics.END_TO_END, 0.95, _BY_JOB), "{{job_name}}"),
        ),
        _panel(
            "Archive delay",
            "s",
            "From event time to commit; 95 of 100 rows took less.",
            (_ALL.quantile(metrics.ARCHIVE_DELAY, 0.95, _BY_JOB), "{{job_name}}"),
        ),
        _panel(
            "Overdue hours",
            "short",
            "Hours that are over by the clock and not announced.",
            (_ALL.total(metrics.PARTITIONS_OVERDUE, _BY_JOB), "{{job_name}}"),
        ),
        _panel(
            "Followers behind",
            "s",
            "What works after the commit and has not caught up.",
            (
                _ALL.top(_ALL.most(metrics.FOLLOWER_BEHIND_SECONDS, f"{_BY_ROUTE}, follower")),
                "{{job_name}} {{route}} {{follower}}",
            ),
        ),
        _panel(
            "Memory of drivers",
            "bytes",
            "Resident memory of each driver's process.",
            (_ALL.most(metrics.DRIVER_MEMORY, _BY_JOB), "{{job_name}}"),
        ),
        _panel(
            "Versions",
            "short",
            "Drivers of each version.",
            (_ALL.total(metrics.BUILD_INFO, "version"), "{{version}}"),
        ),
    ),
)

_JOB = _Scope(_BY_JOB)
JOB_BOARD = Board(
    "sluiceway-job",
    "Sluiceway / One job",
    (_BY_JOB,),
    (
        *_numbers(_JOB),
        _overdue_hours(_JOB),
        _panel(
            "Records read by route",
            "rps",
            "Records that were read and committed, a second.",
            (_JOB.rate(metrics.RECORDS_READ, "route"), "{{route}}"),
        ),
        _panel(
            "What became of rows",
            "rps",
            "Each row that is read is one of these.",
            (_JOB.rate(metrics.RECORDS_WRITTEN, _BY_JOB), "written"),
            (_JOB.rate(metrics.RECORDS_DIRTY, _BY_JOB), "dirty"),
            (_JOB.rate(metrics.RECORDS_FILTERED, _BY_JOB), "filtered"),
            (_JOB.rate(metrics.RECORDS_SKIPPED, _BY_JOB), "tombstones"),
        ),
        _panel(
            "Lag by route",
            "short",
            "Records in the logs that are not committed.",
            (_JOB.total(metrics.LAG_RECORDS, "route"), "{{route}}"),
        ),
        _panel(
            "Lag in seconds by route",
            "s",
            "All that is older is committed.",
            (_JOB.most(metrics.LAG_SECONDS, "route"), "{{route}}"),
        ),
        _panel(
            "Epochs",
            "short",
            "Epochs by what became of them.",
            (_JOB.increase(metrics.EPOCHS, "result"), "{{result}}"),
        ),
        _panel(
            "Phases of epochs",
            "s",
            "95 of 100 took less.",
            (_JOB.quantile(metrics.EPOCH_DURATION, 0.95, "phase"), "{{phase}}"),
        ),
        _panel(
            "From append to commit",
            "s",
            "Half, 95 and 99 of 100 rows took less.",
            *_quantiles(_JOB, metrics.END_TO_END, _BY_JOB, ""),
        ),
        _panel(
            "From commit to readable",
            "s",
            "Until files have their names, and new partitions are in the catalog.",
            *_quantiles(_JOB, metrics.READABLE_DELAY, _BY_JOB, ""),
        ),
        _panel(
            "Calls of the store",
            "s",
            "Of the driver; 95 of 100 took less.",
            (_JOB.quantile(metrics.STORE_OPERATION, 0.95, "operation"), "{{operation}}"),
        ),
        _panel(
            "Repeated and recovered",
            "short",
            "Puts that were repeated, starts, and records whose files a start has published.",
            (_JOB.increase(metrics.COMMIT_RETRIES, _BY_JOB), "puts repeated"),
            (_JOB.increase(metrics.RECOVERIES, "kind"), "{{kind}}"),
        ),
        _panel(
            "Read in vain",
            "short",
            "Records that were read once more; none is in the table twice.",
            (_JOB.increase(metrics.WRITE_FAILED_RECORDS, _BY_JOB), "failed attempts"),
            (_JOB.increase(metrics.DUPLICATES_PREVENTED, _BY_JOB), "epochs thrown away"),
        ),
        _panel(
            "Bytes read in vain",
            "bytes",
            "Of failed attempts.",
            (_JOB.increase(metrics.WRITE_FAILED_BYTES, _BY_JOB), "failed attempts"),
        ),
        _panel(
            "Workers",
            "bytes",
            "Largest resident memory of a worker in the last epoch.",
            (_JOB.most(metrics.WORKER_MEMORY, "route"), "{{route}}"),
        ),
        _panel(
            "Driver",
            "short",
            "Threads of the driver, and seconds since its loop went round.",
            (_JOB.most(metrics.THREADS, _BY_JOB), "threads"),
            (_JOB.most(metrics.BEAT_AGE, _BY_JOB), "seconds since the last turn"),
        ),
        _panel(
            "Since the start of the process",
            "s",
            "Falls to nothing at each restart.",
            (f"time() - {_JOB.most(metrics.STARTED, _BY_JOB)}", "running for"),
        ),
        _panel(
            "Cut off by bounds",
            "short",
            "Values that the bounds of the block `metrics` have left out.",
            (_JOB.increase(metrics.CUT_OFF, "label"), "{{label}}"),
        ),
    ),
)

_ROUTE = _Scope(_BY_JOB, "route")
ROUTE_BOARD = Board(
    "sluiceway-route",
    "Sluiceway / One route",
    (_BY_JOB, "route"),
    (
        *_numbers(_ROUTE),
        _overdue_hours(_ROUTE),
        _panel(
            "Records read by topic",
            "rps",
            "Records that were read and committed, a second.",
            (_ROUTE.rate(metrics.RECORDS_READ, "topic"), "{{topic}}"),
        ),
        _panel(
            "Bytes read by topic",
            "Bps",
            "Bytes of payloads.",
            (_ROUTE.rate(metrics.BYTES_READ, "topic"), "{{topic}}"),
        ),
        _panel(
            "Lag by topic",
            "short",
            "Records in the logs that are not committed.",
            (_ROUTE.total(metrics.LAG_RECORDS, "topic"), "{{topic}}"),
        ),
        _panel(
            "Source partitions left out",
            "short",
            "No leader answers for them, or they are gone; they hold the watermark.",
            (_ROUTE.most(metrics.PARTITIONS_LEFT_OUT, "route"), "{{route}}"),
        ),
        _panel(
            "Snapshots passed over",
            "short",
            "They removed rows of the table that is read; its copies of them stay.",
            (_ROUTE.increase(metrics.SNAPSHOTS_PASSED_OVER, "route"), "{{route}}"),
        ),
        _panel(
            "Committed offsets, furthest behind",
            "short",
            "First offset that is not committed.",
            (_ROUTE.most(metrics.COMMITTED_OFFSET, "topic, partition"), "{{topic}} {{partition}}"),
        ),
        _panel(
            "Dirty rows by reason",
            "rps",
            "Rows that could not be converted.",
            (_ROUTE.rate(metrics.RECORDS_DIRTY, "reason"), "{{reason}}"),
        ),
        _panel(
            "Dirty rows that are open",
            "short",
            "Neither replayed nor purged.",
            (_ROUTE.most(metrics.DIRTY_ROWS_OPEN, "route"), "{{route}}"),
        ),
        _panel(
            "Late rows by policy",
            "rps",
            "What became of rows that came late.",
            (_ROUTE.rate(metrics.RECORDS_LATE, "policy"), "{{policy}}"),
        ),
        _panel(
            "Watermark behind the clock",
            "s",
            "Event time up to which rows are complete.",
            (f"time() - {_ROUTE.most(metrics.WATERMARK, 'route')}", "{{route}}"),
        ),
        _panel(
            "Source partitions furthest behind",
            "s",
            "Their greatest event time behind the clock.",
            (
                f"time() - {_ROUTE.most(metrics.SOURCE_WATERMARK, 'topic, partition')}",
                "{{topic}} {{partition}}",
            ),
        ),
        _panel(
            "Archive delay",
            "s",
            "From event time to commit.",
            *_quantiles(_ROUTE, metrics.ARCHIVE_DELAY, "route", ""),
        ),
        _panel(
            "Partitions",
            "short",
            "Partitions of the table by state.",
            (_ROUTE.total(metrics.PARTITIONS, "state"), "{{state}}"),
        ),
        _panel(
            "Open and overdue",
            "short",
            "Partitions that take rows, and hours that should have been announced.",
            (_ROUTE.total(metrics.PARTITIONS_OPEN, "route"), "open"),
            (_ROUTE.total(metrics.PARTITIONS_OVERDUE, "route"), "overdue"),
        ),
        _panel(
            "From the end of an hour to its READY",
            "s",
            "95 of 100 took less.",
            (_ROUTE.quantile(metrics.READY_DELAY, 0.95, "route"), "{{route}}"),
        ),
        _panel(
            "Files",
            "short",
            "New files, and those beyond as many as are needed.",
            (_ROUTE.increase(metrics.FILES_WRITTEN, "route"), "new"),
            (_ROUTE.total(metrics.SMALL_FILES, "route"), "small"),
        ),
        _panel(
            "Time of writing",
            "s",
            "That a task took to write and close its files; 95 of 100 took less.",
            (_ROUTE.quantile(metrics.WRITE_LATENCY, 0.95, "route"), "{{route}}"),
        ),
        _panel(
            "Open files",
            "short",
            "Most files that tasks of the last epoch held open at once.",
            (_ROUTE.most(metrics.OPEN_WRITERS, "route"), "{{route}}"),
        ),
        _panel(
            "Followers",
            "short",
            "Ledger slots that each has not followed yet.",
            (_ROUTE.most(metrics.FOLLOWER_BEHIND_SLOTS, "follower"), "{{follower}}"),
        ),
    ),
)

BOARDS: tuple[Board, ...] = (FLEET_BOARD, JOB_BOARD, ROUTE_BOARD)
