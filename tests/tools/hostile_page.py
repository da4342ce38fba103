"""The page of jobs whose names and texts are as bad as they come, for a browser: a process.

`python -m tools.hostile_page PORT [TOKEN]` serves it until a signal comes. The answers are
documents of the commands' shape; what is in them no server would have to send.
"""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sluiceway.cli.views.answers import in_milliseconds
from sluiceway.console.access import PageAccess
from sluiceway.console.app import page_app
from sluiceway.console.contract import DirtyChoice, Document, JobAnswers
from sluiceway.console.server import serve
from sluiceway.console.watched_jobs import WatchedJobs
from sluiceway.errors import SluicewayError
from sluiceway.followers.runner import FollowerState
from sluiceway.observe.log import stderr_log
from sluiceway.route.halt_report import HaltReport
from sluiceway.route.status import EpochTold, RouteState, RouteStatus

HOUR_MS = 3_600_000
NEVER_MS = 2**63 - 1
BAD_TEXTS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "two\nlines\r\n\tand a tab",
    "\u202egnp.exe\u2066",
    "\x1b[2J\x00\u2028",
    "&lt;b&gt;&#x3c;",
    "{{7*7}}${7*7}`id`",
    "half \udcff",
    "x" * 10_000,
)
NAMES = (*BAD_TEXTS, "only", "head", "find", "rest", "board", "__proto__", "constructor")
MANY = 3_000
HOURS = 100


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class HostileAnswers:
    """A job with these routes.

    Args:
        name: Of its file.
        routes: Names of routes.
        runs: Whether drivers run.
    """

    def __init__(self, name: str, routes: Sequence[str], *, runs: bool = True) -> None:
        self.path = Path(f"/jobs/{name}.yaml")
        self._runs = runs
        self._routes = routes

    def status(self) -> Document:
        routes = [self._route(name, number) for number, name in enumerate(self._routes)]
        return {
            "job": self.path.stem,
            "ok": False,
            "error": None,
            "routes": routes,
            "topics_refused": {},
            "topics_sharing": {},
        }

    def _route(self, name: str, number: int) -> dict[str, Any]:
        bad = BAD_TEXTS[number % len(BAD_TEXTS)]
        halted = number % 5 == 0
        status = RouteStatus(
            route=name,
            table=f"ods.{name}",
            state=RouteState.HALTED if halted else RouteState.RUNNING,
            code="SW404" if halted else None,
            message=bad if halted else None,
            report=HaltReport(bad, bad, bad, {bad: bad}, (f"sluiceway status {bad}",)),
            last_commit_ms=now_ms() - number,
            watermark_us=253_402_300_799_999_999,
            rows_dirty_open=number,
            epochs=(EpochTold(1, NEVER_MS, 1, 1, 0, 1, {"run": 1.0, bad: 2.0}),),
            followers=(FollowerState(bad, 1, 7, 9e9, bad, lags=True),),
        )
        told: dict[str, Any] = in_milliseconds(asdict(status))
        driver = f"host {bad[:100]} pid 1" if self._runs else None
        return {**told, "driver": driver, "ok": not halted}

    def partitions(self) -> Document:
        begin = now_ms() // HOUR_MS * HOUR_MS
        told = {"timezone": "Mars/Olympus", "prefixes": self._times(begin)}
        return {
            "routes": [{"route": name, "table": f"ods.{name}", **told} for name in self._routes]
        }

    def _times(self, begin: int) -> list[dict[str, Any]]:
        states = ("ready", "late", "open", "closed", "expired", "overdue")
        return [
            {
                "prefix": f"dt={n}/app={BAD_TEXTS[n % 9]}",
                "begin_ms": at,
                "end_ms": at + HOUR_MS,
                "state": states[n % 6],
                "version": 1,
                "rows": n,
                "files": 1,
                "size_bytes": 1,
                "late_rows": n % 2,
                "delay_ms": None,
                "whole": True,
                "partitions": [],
            }
            for n in range(HOURS)
            for at in (begin - (HOURS - n) * HOUR_MS,)
        ]

    def why(self, route: str, partition: str) -> Document:
        bad = "\n".join(BAD_TEXTS)
        holder = {"topic": bad, "partition": 0, "reason": bad, "at_ms": NEVER_MS, "needs_ms": None}
        times = ("begin_ms", "end_ms", "watermark_ms", "needs_ms", "expected_ms", "looked_at_ms")
        return {
            "prefix": partition,
            "state": "overdue",
            "rows": 1,
            "version": 0,
            "text": f"{route} {bad}",
            "holders": [{**holder, "behind_records": 7}],
            "announced_to": {bad: True},
            **dict.fromkeys(times, -NEVER_MS),
        }

    def dirty(self) -> Document:
        groups = [
            {
                "reason": "broken",
                "path": path,
                "state": "open",
                "rows": 9,
                "files": 1,
                "first_seq": 1,
                "last_seq": 2,
                "first_ms": 0 if path == NAMES[0] else -NEVER_MS,
                "last_ms": NEVER_MS,
                "replay": f"sluiceway dirty replay --field {path}",
            }
            for path in (*BAD_TEXTS, *(f"field{n}" for n in range(500)))
        ]
        lane = {
            "lane": BAD_TEXTS[0],
            "kind": "replay",
            "finished": True,
            "rows": 1,
            "written": 1,
            "dirty": 0,
            "operator": BAD_TEXTS[1],
            "why": BAD_TEXTS[2],
        }
        return {
            "routes": [
                {
                    "route": name,
                    "open": 1,
                    "groups": groups[: 600 if at < 2 else 2],
                    "lanes": [lane],
                }
                for at, name in enumerate(self._routes)
            ]
        }

    def dirty_rows(self, route: str, choice: DirtyChoice) -> Document:
        rows = [
            {
                "topic": "t",
                "partition": 0,
                "offset": n,
                "timestamp_ms": NEVER_MS,
                "slot": 1,
                "message": f"{choice.path} {text}",
                "value": text,
            }
            for n, text in enumerate(BAD_TEXTS)
        ]
        return {"rows": rows, "more": True, "values": True, "route": route}

    def ledger(self, route: str, start: int | None, limit: int) -> Document:
        del start
        raw = json.dumps({"files": list(BAD_TEXTS) * 20}, indent=2, ensure_ascii=False)
        records = [
            {"seq": n, "term": 1, "type": "DATA", "what": f"{route} {text}", "raw": raw}
            for n, text in enumerate(BAD_TEXTS[:limit])
        ]
        return {"records": records, "next_seq": 10**15}


def told_error(error: SluicewayError, job: JobAnswers) -> Document:
    del job
    return {"code": error.code, "message": error.message}


def explain(code: str) -> Document:
    return {"title": f"{code} {BAD_TEXTS[0]}", "text": "\n\n".join(BAD_TEXTS)}


def main() -> None:
    """Serve until a signal."""
    # Names that the page might have for parts of its own.
    jobs = [
        HostileAnswers("attention", NAMES),
        HostileAnswers("many", _many()),
        HostileAnswers("still", NAMES[:2], runs=False),
    ]
    log = stderr_log(level="error")
    with WatchedJobs(lambda: jobs, told_error, log) as watched:
        access = PageAccess(token=sys.argv[2] if len(sys.argv) > 2 else None)
        app = page_app(watched, access, told_error, explain)
        serve(app, access, int(sys.argv[1]), None, lambda url: print(url, flush=True))


def _many() -> list[str]:
    return [f"route-{number}" for number in range(MANY)]


if __name__ == "__main__":
    main()
