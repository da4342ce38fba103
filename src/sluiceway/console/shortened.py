"""Answers of a size for browsers: a table of ten years has more hours than a page shows.

The answer counts what it leaves out. The commands show all of it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sluiceway.console.contract import Document

MOST_TIMES = 20_000
"""Most times of all tables in one answer; of one table a tenth."""

MOST_GROUPS = 200
"""Most groups of dirty rows of one route."""

MOST_PATH_CHARS = 400
"""Longest name of a dirty field: keys of payloads may be of any length, addresses may not."""

MOST_RAW_CHARS = 64 * 1024
"""Longest stored form of a ledger's record."""

_LOOKED_AT_FIRST = frozenset({"overdue", "late"})


def short_partitions(found: Document, route: str, part: str) -> dict[str, Any]:
    """The newest times of each table, after all times that need attention.

    Args:
        found: As `JobAnswers.partitions`.
        route: Only this route; empty for all.
        part: Only routes whose name or table contains this text.
    """
    chosen = [
        each
        for each in found["routes"]
        if route in ("", each["route"])
        and (part in each["route"] or part in str(each.get("table", "")))
    ]
    most = min(MOST_TIMES // 10, max(1, MOST_TIMES // max(1, len(chosen))))
    return {
        **found,
        "routes": [
            each if each.get("error") is not None else _short_times(each, most) for each in chosen
        ],
        "routes_left_out": len(found["routes"]) - len(chosen),
    }


def _short_times(route: Mapping[str, Any], most: int) -> dict[str, Any]:
    times: Sequence[Mapping[str, Any]] = route["prefixes"]
    places = range(len(times))
    if len(times) > most:
        # The oldest come first.
        by_need = sorted(places, key=lambda at: (times[at]["state"] in _LOOKED_AT_FIRST, at))
        places = sorted(by_need[-most:])  # type: ignore[assignment]
    return {
        **route,
        "counts": dict(Counter(str(each["state"]) for each in times)),
        "prefixes": [
            {name: value for name, value in times[at].items() if name != "partitions"}
            for at in places
        ],
    }


def short_dirty(found: Document) -> dict[str, Any]:
    """The largest groups of each route; very long names are cut."""
    return {
        **found,
        "routes": [
            each if each.get("error") is not None else _short_groups(each)
            for each in found["routes"]
        ],
    }


def _short_groups(route: Mapping[str, Any]) -> dict[str, Any]:
    groups: Sequence[Mapping[str, Any]] = route["groups"]
    return {
        **route,
        "groups": [_short_group(each) for each in groups[:MOST_GROUPS]],
        "groups_left_out": max(0, len(groups) - MOST_GROUPS),
    }


def _short_group(group: Mapping[str, Any]) -> dict[str, Any]:
    path = group["path"]
    if len(path) <= MOST_PATH_CHARS:
        return {**group, "path_is_cut": False}
    return {**group, "path": f"{path[:MOST_PATH_CHARS]}…", "path_is_cut": True, "replay": None}


def short_ledger(found: Document) -> dict[str, Any]:
    """Records whose stored form is cut where it is very long."""
    return {**found, "records": [_short_record(each) for each in found["records"]]}


def _short_record(record: Mapping[str, Any]) -> dict[str, Any]:
    raw = record["raw"]
    return {**record, "raw": raw[:MOST_RAW_CHARS], "raw_is_cut": len(raw) > MOST_RAW_CHARS}
