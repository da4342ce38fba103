"""Reads all jobs of the page again and again, so that a browser never waits for a broker."""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluiceway.console.contract import Document, JobAnswers
from sluiceway.errors import SluicewayError
from sluiceway.observe.log import Log

SERIES = ("rows_per_s", "dirty_rows_per_s", "lag_records", "lag_ms")
"""Fields of a route's status that the history keeps."""

EVERY_MS = 5_000
KEPT_MS = 3_600_000
MOST_ROUTES = 100
"""Most routes of a job in the history, those with the most rows: a few MiB per job at most."""

_Values = tuple[float | None, ...]


class History:
    """Figures of one job over the last hour. One thread writes, any thread reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samples: deque[tuple[int, dict[str, _Values]]] = deque(maxlen=KEPT_MS // EVERY_MS)

    def add(self, at_ms: int, routes: Iterable[Mapping[str, Any]]) -> None:
        """Add the current figures, unless the last sample is less than five seconds old.

        Args:
            at_ms: Now, in milliseconds since the epoch.
            routes: The routes of a status document; a route without a driver is a gap.
        """
        with self._lock:
            if self._samples and 0 <= at_ms - self._samples[-1][0] < EVERY_MS:
                return
            running = [each for each in routes if each.get("driver") is not None]
            running.sort(key=lambda each: -(each.get("rows_per_s") or 0.0))
            self._samples.append(
                (
                    at_ms,
                    {
                        str(each["route"]): tuple(_value(each, name) for name in SERIES)
                        for each in running[:MOST_ROUTES]
                    },
                )
            )

    def since(self, after_ms: int, now_ms: int) -> dict[str, Any]:
        """Samples that are younger than both `after_ms` and an hour, by columns.

        Returns:
            `at_ms`, and under `routes` for each route one list for each of `SERIES`, as long as
            `at_ms`; null where nothing is known.
        """
        first = max(after_ms, now_ms - KEPT_MS)
        with self._lock:
            samples = [each for each in self._samples if each[0] > first]
        names = sorted({name for _, routes in samples for name in routes})
        nothing: _Values = (None,) * len(SERIES)
        return {
            "at_ms": [at for at, _ in samples],
            "routes": {
                name: {
                    series: [routes.get(name, nothing)[column] for _, routes in samples]
                    for column, series in enumerate(SERIES)
                }
                for name in names
            },
        }


def _value(route: Mapping[str, Any], name: str) -> float | None:
    found: float | None = route.get(name)
    # A lag of at least so much is drawn as that number: an unknown lag is neither 0 nor a gap.
    return route.get("lag_at_least_ms") if found is None and name == "lag_ms" else found


LOOK_EVERY_S = 2.0
PARTITIONS_EVERY_S = 10.0
_CLOSE_TIMEOUT_S = 15.0
_SHARE = 20

TellError = Callable[[SluicewayError, JobAnswers], Document]
"""Turns an error into the field `error` of an answer."""


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """The result of the last look at a job.

    Attributes:
        at_ms: When the look ended, in milliseconds since the epoch.
        took_ms: How long it took.
        status: The document of `status`; with `error` alone when the job cannot be read.
        stands: Route -> state of a partition -> number of partitions.
    """

    at_ms: int
    took_ms: int
    status: Document
    stands: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


class WatchedJob:
    """One job of the page. Its own thread looks; any thread reads.

    Args:
        name: Unique name for addresses of the page.
        answers: Answers of the job.
        tell_error: Turns an error into a document.
        log: Gets bugs as errors.
    """

    def __init__(self, name: str, answers: JobAnswers, tell_error: TellError, log: Log) -> None:
        self.name = name
        self.answers = answers
        self.history = History()
        self._tell_error = tell_error
        self._log = log
        self._observed: JobSnapshot | None = None
        self._stands: dict[str, dict[str, int]] = {}
        self._stands_due = 0.0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch-{name}", daemon=True)

    @property
    def last(self) -> JobSnapshot | None:
        """The last look; None before the first one has ended."""
        return self._observed

    def start(self) -> None:
        """Start the thread. Called once."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread; a running look ends by itself."""
        self._closing.set()

    def join(self) -> None:
        """Wait some seconds for the last look."""
        if self._thread.is_alive():
            self._thread.join(_CLOSE_TIMEOUT_S)

    def read(self) -> JobSnapshot:
        """Look once. Called by the thread; by tests too."""
        begun = time.monotonic()
        try:
            status = self.answers.status()
            self._count_partitions(begun)
        except SluicewayError as error:
            status = self._without(self._tell_error(error, self.answers))
        except Exception as error:  # noqa: BLE001 - the boundary of the thread: it goes on
            self._log.warning("page_look_failed", job=self.name, error=repr(error))
            told = SluicewayError(f"a look at the job failed: {type(error).__name__}")
            status = self._without(self._tell_error(told, self.answers))
        now_ms = time.time_ns() // 1_000_000
        self.history.add(now_ms, status["routes"])
        took_ms = int(1000 * (time.monotonic() - begun))
        self._observed = JobSnapshot(now_ms, took_ms, status, self._stands)
        return self._observed

    def _without(self, error: Document) -> dict[str, Any]:
        return {"job": self.answers.path.stem, "ok": False, "error": error, "routes": []}

    def _count_partitions(self, begun: float) -> None:
        if begun < self._stands_due:
            return
        routes = self.answers.partitions()["routes"]
        self._stands = {
            each["route"]: dict(Counter(str(one["state"]) for one in each["prefixes"]))
            for each in routes
            if each.get("error") is None
        }
        took_s = time.monotonic() - begun
        # Large ledgers are read less often: for a twentieth of the time at most.
        self._stands_due = begun + max(PARTITIONS_EVERY_S, _SHARE * took_s)

    def _run(self) -> None:
        while not self._closing.is_set():
            self.read()
            self._closing.wait(LOOK_EVERY_S)


class WatchedJobs:
    """All jobs of the page, by name and in order.

    Args:
        find: Returns the current jobs; called every few seconds, because files come and go. A job
            is known by its path, and keeps its name and its last hour.
        tell_error: Turns an error into a document.
        log: Gets bugs as errors.
    """

    def __init__(
        self, find: Callable[[], Sequence[JobAnswers]], tell_error: TellError, log: Log
    ) -> None:
        self.by_name: dict[str, WatchedJob] = {}
        self._find = find
        self._tell_error = tell_error
        self._log = log
        self._started = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch-jobs", daemon=True)
        self.refresh()

    def __enter__(self) -> "WatchedJobs":
        self._started = True
        for job in self.by_name.values():
            job.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join(_CLOSE_TIMEOUT_S)
        for job in self.by_name.values():
            job.close()
        for job in self.by_name.values():
            job.join()

    def refresh(self) -> None:
        """Add new jobs, and drop jobs whose files are gone."""
        before = {job.answers.path: job for job in self.by_name.values()}
        answers = {each.path: each for each in self._find()}
        taken = {job.name for path, job in before.items() if path in answers}
        now: dict[str, WatchedJob] = {}
        fresh: list[WatchedJob] = []
        for path, each in answers.items():
            job = before.pop(path, None)
            if job is None:
                name = unused_name(path.stem, {**now, **dict.fromkeys(taken)})
                job = WatchedJob(name, each, self._tell_error, self._log)
                fresh.append(job)
            now[job.name] = job
        # Replaced as a whole: another thread reads either the old or the new one.
        self.by_name = now
        for job in before.values():
            job.close()
        for job in fresh if self._started else ():
            job.start()

    def _run(self) -> None:
        while not self._closing.wait(LOOK_EVERY_S):
            try:
                self.refresh()
            except Exception as error:  # noqa: BLE001 - the boundary of the thread: it goes on
                self._log.warning("page_look_failed", job="", error=repr(error))


def unused_name(stem: str, taken: Mapping[str, object]) -> str:
    """An unused name for addresses, from a file's name: two folders may have files of one name."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in stem)
    plain = plain.strip(".") or "job"
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain}-{number}"
    return name
