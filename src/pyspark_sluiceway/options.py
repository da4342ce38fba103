"""Options of the data source, checked, and the route that they name."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sluiceway.audit.pick_route import pick_route, routes_without_brokers
from sluiceway.audit.read_point import PointRequest, parse_point
from sluiceway.cli.job_file import load_checked_job
from sluiceway.errors import WrongUsageError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.observe.log import stderr_log

BATCH = ("asOf", "ready")
STREAM = ("query", "start", "maxRowsPerTrigger", "onCorrection")
BOTH = ("job", "route", "content", "columns", "meta", "onCorrection")
EARLIEST, LATEST = "earliest", "latest"
_KNOWN = tuple(dict.fromkeys((*BOTH, *BATCH, *STREAM)))


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a user asks for.

    Attributes:
        job: Path of the job file.
        route: Name of a route; None takes the only one.
        files: Rows are file spans instead of the table's rows.
        columns: Names, in order; none takes all.
        meta: Whether `_sw_slot` and `_sw_place` are among the columns.
        skip: Whether rows that are not in the table any more are left out.
        point: What a batch reads.
        query: Name of a stream's lease; None is `spark-` and the name of the route.
        start: Start of a new stream: `earliest`, `latest` or `slot:N`, whose rows it has no more.
        most_rows: Most rows of a stream's batch, unless one record has more; None is no limit.
    """

    job: Path
    route: str | None
    files: bool
    columns: tuple[str, ...]
    meta: bool
    skip: bool
    point: PointRequest
    query: str | None
    start: str
    most_rows: int | None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "ReadOptions":
        """Check what Spark hands over.

        Raises:
            WrongUsageError: An option is unknown, missing or not valid.
        """
        told = {name.lower(): value for name, value in given.items()}
        unknown = sorted(told.keys() - {name.lower() for name in _KNOWN})
        if unknown:
            raise WrongUsageError(
                f"the data source has no option {', '.join(unknown)}",
                hint=f"its options: {', '.join(_KNOWN)}",
            )
        if not told.get("job"):
            raise WrongUsageError("the option job is missing", hint='option("job", "orders.yaml")')
        as_of, ready = told.get("asof"), told.get("ready", "")
        if as_of and ready:
            raise WrongUsageError("asOf and ready exclude each other", hint="leave one out")
        point = parse_point(as_of) if as_of else PointRequest(ready=ready)
        columns = tuple(filter(None, (name.strip() for name in told.get("columns", "").split(","))))
        return cls(
            job=Path(told["job"]),
            route=told.get("route"),
            files=_one_of(told, "content", "rows", "files") == "files",
            columns=columns,
            meta=_one_of(told, "meta", "false", "true") == "true",
            skip=_one_of(told, "onCorrection", "fail", "skip") == "skip",
            point=point,
            query=told.get("query"),
            start=_start(told.get("start", EARLIEST)),
            most_rows=_most_rows(told.get("maxrowspertrigger")),
        )

    def config(self) -> RouteConfig:
        """The route; loads the job file.

        Raises:
            JobFileError: The job file is not valid.
            WrongUsageError: It has no such route, or several and none is named.
        """
        spec = load_checked_job(self.job).spec
        log = stderr_log(level="warning")
        return pick_route(routes_without_brokers(spec, log, self.route), self.route)


def _one_of(told: Mapping[str, str], name: str, *values: str) -> str:
    value = told.get(name.lower(), values[0]).lower()
    if value not in values:
        raise WrongUsageError(f"option {name}: expected {' or '.join(values)}, got {value[:100]!r}")
    return value


def _start(text: str) -> str:
    if text not in (EARLIEST, LATEST) and parse_point(text).slot is None:
        raise WrongUsageError(f"option start: expected earliest, latest or slot:N, got {text!r}")
    return text


def _most_rows(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise WrongUsageError(f"option maxRowsPerTrigger: expected a number from 1, got {text!r}")
    return int(text)
