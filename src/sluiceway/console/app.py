"""The page's addresses: its files, and the answers below `/api/`."""

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from sluiceway import __version__
from sluiceway.console.access import AccessMiddleware, PageAccess
from sluiceway.console.contract import (
    MOST_RECORDS,
    MOST_ROWS,
    DirtyChoice,
    Document,
)
from sluiceway.console.shortened import short_dirty, short_ledger, short_partitions
from sluiceway.console.watched_jobs import TellError, WatchedJob, WatchedJobs
from sluiceway.errors import SluicewayError, WrongUsageError

FoundT = TypeVar("FoundT")

_MOST_KEPT = 256
_AT_ONCE = 4


@dataclass(slots=True)
class _Slot(Generic[FoundT]):
    lock: threading.Lock = field(default_factory=threading.Lock)
    kept: tuple[float, FoundT] | None = None


class SharedAnswers(Generic[FoundT]):
    """Keeps answers that are costly, such as reading a ledger. Any thread may ask.

    It computes at most four answers at once. Each is kept for as long as the caller says, or for as
    long as it took, if that is longer.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slots: OrderedDict[Hashable, _Slot[FoundT]] = OrderedDict()
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(_AT_ONCE)

    def get(self, key: Hashable, compute: Callable[[], FoundT], keep_s: float) -> FoundT:
        """The answer for a key, computed again where the kept one is too old.

        Args:
            key: Identifies the question.
            compute: Computes the answer; called by one thread at a time for a key; its errors are
                not kept.
            keep_s: How long the answer is valid, in seconds.
        """
        slot = self._slot(key)
        with slot.lock:
            if slot.kept is not None and self._clock() < slot.kept[0]:
                return slot.kept[1]
            with self._free:
                begun = self._clock()
                found = compute()
                ended = self._clock()
            slot.kept = (ended + max(keep_s, ended - begun), found)
            return found

    def _slot(self, key: Hashable) -> _Slot[FoundT]:
        with self._lock:
            slot = self._slots.setdefault(key, _Slot())
            self._slots.move_to_end(key)
            while len(self._slots) > _MOST_KEPT:
                self._slots.popitem(last=False)
            return slot


PAGE = Path(__file__).parent / "page"

_KEEP_S = 2.0
_KEEP_DIRTY_S = 10.0
_HEAVY = ("epochs", "followers", "ignored_fields", "unfilled_columns", "dirty_reasons")
_MOST_SLOT = 10**18

MOST_WHOLE = 100
"""Up to so many routes of a job come with their epochs and followers at once."""

Explain = Callable[[str], Document]
"""Returns the page of an error code; WrongUsageError for an unknown one."""


def page_app(
    jobs: WatchedJobs, access: PageAccess, tell_error: TellError, explain: Explain
) -> Starlette:
    """The whole page as an ASGI application.

    Args:
        jobs: The jobs to show; started and closed by the caller.
        access: Who may send requests.
        tell_error: Turns an error into a document.
        explain: Returns the page of an error code.
    """
    api = _Api(jobs, tell_error, explain)
    routes = [
        Route("/", _index),
        Route("/api/fleet", api.fleet),
        Route("/api/explain/{code}", api.explain),
        Route("/api/jobs/{job}", api.job),
        Route("/api/jobs/{job}/history", api.history),
        Route("/api/jobs/{job}/partitions", api.partitions),
        Route("/api/jobs/{job}/why", api.why),
        Route("/api/jobs/{job}/dirty", api.dirty),
        Route("/api/jobs/{job}/dirty/rows", api.dirty_rows),
        Route("/api/jobs/{job}/ledger", api.ledger),
        Mount("/page", StaticFiles(directory=PAGE)),
    ]
    app = Starlette(routes=routes, middleware=[Middleware(AccessMiddleware, access=access)])
    app.router.redirect_slashes = False
    return app


def _index(request: Request) -> Response:
    del request
    return Response((PAGE / "index.html").read_bytes(), media_type="text/html; charset=utf-8")


class _Api:
    """Request handlers; plain functions, so that each runs in a thread and may wait for a store."""

    def __init__(self, jobs: WatchedJobs, tell_error: TellError, explain: Explain) -> None:
        self._jobs = jobs
        self._tell_error = tell_error
        self._explain = explain
        self._shared: SharedAnswers[Document] = SharedAnswers()

    def fleet(self, request: Request) -> Response:
        """All jobs as they were last read, without the details of a job's own page."""
        del request
        jobs = [_shown(job, frozenset()) for job in self._jobs.by_name.values()]
        return _Answer({"version": __version__, "now_ms": _now_ms(), "jobs": jobs})

    def explain(self, request: Request) -> Response:
        """The page of an error code."""
        try:
            return _Answer(dict(self._explain(request.path_params["code"])))
        except WrongUsageError as error:
            return _Answer({"error": {"message": error.message}}, 404)

    def job(self, request: Request) -> Response:
        """One job as it was last read."""
        job = self._jobs.by_name.get(request.path_params["job"])
        if job is None:
            return _no_job()
        return _Answer({"now_ms": _now_ms(), **_shown(job, _whole(job, _text(request, "route")))})

    def history(self, request: Request) -> Response:
        """Figures of the last hour, younger than `since`."""
        job = self._jobs.by_name.get(request.path_params["job"])
        if job is None:
            return _no_job()
        since = _number(request, "since", 0, 0, _MOST_SLOT)
        return _Answer(job.history.since(since or 0, _now_ms()))

    def partitions(self, request: Request) -> Response:
        """As `partitions list`."""
        route, part = _text(request, "route"), _text(request, "find")
        return self._answer(
            request,
            lambda job: job.answers.partitions(),
            ("partitions",),
            shorten=lambda found: short_partitions(found, route, part),
        )

    def why(self, request: Request) -> Response:
        """As `partitions why`."""
        route, partition = _text(request, "route"), _text(request, "partition")
        key = ("why", route, partition)
        return self._answer(request, lambda job: job.answers.why(route, partition), key)

    def dirty(self, request: Request) -> Response:
        """As `dirty list`."""
        return self._answer(
            request,
            lambda job: job.answers.dirty(),
            ("dirty",),
            keep_s=_KEEP_DIRTY_S,
            shorten=short_dirty,
        )

    def dirty_rows(self, request: Request) -> Response:
        """As `dirty show`."""
        asked = request.query_params
        route = _text(request, "route")
        choice = DirtyChoice(
            reason=asked.get("reason"),
            path=asked.get("path"),
            state=asked.get("state", "open"),
            limit=_number(request, "limit", 20, 1, MOST_ROWS) or 1,
        )
        key = ("dirty_rows", route, choice)
        return self._answer(
            request,
            lambda job: job.answers.dirty_rows(route, choice),
            key,
            keep_s=_KEEP_DIRTY_S,
        )

    def ledger(self, request: Request) -> Response:
        """As `ledger show`."""
        route = _text(request, "route")
        start = _number(request, "from", None, 0, _MOST_SLOT)
        limit = _number(request, "limit", 50, 1, MOST_RECORDS) or 1
        key = ("ledger", route, start, limit)
        return self._answer(
            request, lambda job: job.answers.ledger(route, start, limit), key, shorten=short_ledger
        )

    def _answer(
        self,
        request: Request,
        ask: Callable[[WatchedJob], Document],
        key: tuple[object, ...],
        *,
        keep_s: float = _KEEP_S,
        shorten: Callable[[Document], Document] = dict,
    ) -> Response:
        job = self._jobs.by_name.get(request.path_params["job"])
        if job is None:
            return _no_job()
        try:
            found = self._shared.get((job.name, *key), lambda: ask(job), keep_s)
        except WrongUsageError as error:
            return _Answer({"error": self._tell_error(error, job.answers)}, 404)
        except SluicewayError as error:
            return _Answer({"error": self._tell_error(error, job.answers)}, 503)
        return _Answer(dict(shorten(found)))


class _Answer(JSONResponse):
    """JSON in ASCII: halves of surrogate pairs, which UTF-8 cannot hold, are escaped."""

    def render(self, content: object) -> bytes:
        """Called once for each answer."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


def _whole(job: WatchedJob, wanted: str) -> frozenset[str]:
    """Routes that come with all details; of very many only the selected one.

    Args:
        job: The job.
        wanted: Name of the selected route; an unknown name selects the first that runs.
    """
    routes = () if job.last is None else job.last.status["routes"]
    names = [str(route["route"]) for route in routes]
    if len(names) <= MOST_WHOLE:
        return frozenset(names)
    running = (str(route["route"]) for route in routes if route.get("driver") is not None)
    return frozenset((wanted if wanted in names else next(running, names[0]),))


def _shown(job: WatchedJob, whole: frozenset[str]) -> dict[str, Any]:
    seen = job.last
    shown: dict[str, Any] = {"id": job.name, "file": str(job.answers.path)}
    if seen is None:
        return {**shown, "seen_at_ms": None, "took_ms": None, "status": None, "stands": {}}
    status = dict(seen.status)
    status["routes"] = [
        {
            name: value
            for name, value in route.items()
            if name not in _HEAVY or route["route"] in whole
        }
        for route in status["routes"]
    ]
    return {
        **shown,
        "seen_at_ms": seen.at_ms,
        "took_ms": seen.took_ms,
        "status": status,
        "stands": seen.stands,
    }


def _no_job() -> Response:
    return JSONResponse({"error": {"message": "no job of this name is shown here"}}, 404)


def _text(request: Request, name: str) -> str:
    return request.query_params.get(name, "")


def _number(
    request: Request, name: str, otherwise: int | None, least: int, most: int
) -> int | None:
    """A number of the query; no number counts as not given; limited to the bounds."""
    text = request.query_params.get(name, "")
    if not (text.isascii() and text.isdigit()):
        return otherwise
    return min(max(int(text[:20]), least), most)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
