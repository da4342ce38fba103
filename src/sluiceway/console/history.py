"""Figures of the last hour, kept in memory; longer history is Prometheus'."""

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

SERIES = ("rows_per_s", "dirty_rows_per_s", "lag_records", "lag_ms")
"""Fields of a route's status that are kept."""

EVERY_MS = 5_000
KEPT_MS = 3_600_000
MOST_ROUTES = 100
"""Routes of a job that are kept, those with the most rows; so a job takes a few MiB at most."""

_Values = tuple[float | None, ...]


class History:
    """Of one job. One thread notes, any reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samples: deque[tuple[int, dict[str, _Values]]] = deque(maxlen=KEPT_MS // EVERY_MS)

    def add(self, at_ms: int, routes: Iterable[Mapping[str, Any]]) -> None:
        """Keep what is so now, unless the last sample is less than five seconds old.

        Args:
            at_ms: Now, in milliseconds since the epoch.
            routes: Of a status document; a route without a driver is a gap.
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
    # Behind by at least so much is drawn as it: an unknown is no 0, and no gap either.
    return route.get("lag_at_least_ms") if found is None and name == "lag_ms" else found
