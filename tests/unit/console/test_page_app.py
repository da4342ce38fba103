"""The page's addresses, and the gate before them, without a server."""

import re
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from sluiceway.console.access import SECURITY_HEADERS, PageAccess
from sluiceway.console.app import PAGE, page_app
from sluiceway.console.contract import DirtyChoice, Document, JobAnswers
from sluiceway.console.watched_jobs import WatchedJobs, unused_name
from sluiceway.errors import SluicewayError, StorageUnavailableError, WrongUsageError
from sluiceway.observe.log import stderr_log
from tools.asgi_calls import request

TOKEN = "correct-horse-battery"  # noqa: S105 - of these tests alone
ROUTE = {
    "route": "orders",
    "driver": "host pid 7",
    "rows_per_s": 12.5,
    "dirty_rows_per_s": 0.0,
    "lag_records": 3,
    "lag_ms": 40,
    "epochs": [{"seq": 1}],
    "ok": True,
}


class FakeAnswers:
    """Answers that say how they were asked; raises `error` when there is one."""

    def __init__(self, path: str = "/jobs/orders.yaml") -> None:
        self._path = Path(path)
        self.error: Exception | None = None
        self.asked: list[tuple[object, ...]] = []

    @property
    def path(self) -> Path:
        return self._path

    def _told(self, *asked: object, **answer: Any) -> Document:
        self.asked.append(asked)
        if self.error is not None:
            raise self.error
        return answer

    def status(self) -> Document:
        return self._told("status", job="orders", ok=True, error=None, routes=[dict(ROUTE)])

    def partitions(self) -> Document:
        states = [{"state": state} for state in ("ready", "overdue", "ready")]
        return self._told("partitions", routes=[{"route": "orders", "prefixes": states}])

    def why(self, route: str, partition: str) -> Document:
        return self._told("why", route, partition, text="held")

    def dirty(self) -> Document:
        return self._told("dirty", routes=[])

    def dirty_rows(self, route: str, choice: DirtyChoice) -> Document:
        return self._told("dirty_rows", route, choice, rows=[])

    def ledger(self, route: str, start: int | None, limit: int) -> Document:
        return self._told("ledger", route, start, limit, records=[], next_seq=0)


def told_error(error: SluicewayError, job: JobAnswers) -> Document:
    del job
    return {"code": error.code, "message": error.message}


def explain(code: str) -> Document:
    if code != "SW455":
        raise WrongUsageError(f"no message is called `{code}`")
    return {"title": "SW455", "text": "offsets"}


def app_of(
    *answers: FakeAnswers, access: PageAccess | None = None
) -> tuple[Starlette, WatchedJobs]:
    jobs = WatchedJobs(lambda: answers, told_error, stderr_log(level="error"))
    return page_app(jobs, access or PageAccess(), told_error, explain), jobs


def test_jobs_come_and_go_while_the_page_is_served() -> None:
    there = [FakeAnswers(), FakeAnswers("/other/orders.yaml")]
    jobs = WatchedJobs(lambda: there, told_error, stderr_log(level="error"))
    first, second = jobs.by_name.values()
    there[:] = [FakeAnswers("/jobs/new.yaml"), FakeAnswers("/other/orders.yaml")]
    jobs.refresh()
    # One that stays keeps its name, and all that was seen of it.
    assert list(jobs.by_name) == ["new", "orders-2"]
    assert jobs.by_name["orders-2"] is second
    there.append(FakeAnswers())
    jobs.refresh()
    assert list(jobs.by_name) == ["new", "orders-2", "orders"]
    assert jobs.by_name["orders"] is not first
    there.clear()
    jobs.refresh()
    app = page_app(jobs, PageAccess(), told_error, explain)
    assert request(app, "/api/fleet").document["jobs"] == []
    assert request(app, "/api/jobs/orders").status == 404


def test_fleet_tells_each_job_and_leaves_out_what_only_its_own_page_shows() -> None:
    app, jobs = app_of(FakeAnswers(), FakeAnswers("/other/orders.yaml"))
    jobs.by_name["orders"].read()
    first, second = request(app, "/api/fleet").document["jobs"]
    assert (first["id"], second["id"]) == ("orders", "orders-2")
    assert first["status"]["routes"][0]["lag_records"] == 3
    assert "epochs" not in first["status"]["routes"][0]
    assert first["stands"] == {"orders": {"ready": 2, "overdue": 1}}
    assert second["status"] is None
    whole = request(app, "/api/jobs/orders").document
    assert whole["status"]["routes"][0]["epochs"] == [{"seq": 1}]


@pytest.mark.parametrize(
    ("asked", "told"), [("", "r1"), ("?route=r150", "r150"), ("?route=x", "r1")]
)
def test_of_very_many_routes_one_is_told_whole(asked: str, told: str) -> None:
    answers = FakeAnswers()
    routes = [{**ROUTE, "route": f"r{n}", "driver": n and "host pid 7"} for n in range(200)]
    routes[0]["driver"] = None
    answers.status = lambda: {"job": "orders", "routes": routes}  # type: ignore[method-assign]
    app, jobs = app_of(answers)
    jobs.by_name["orders"].read()
    found = request(app, f"/api/jobs/orders{asked}").document["status"]["routes"]
    assert len(found) == 200
    assert [each["route"] for each in found if "epochs" in each] == [told]
    assert all(each["ok"] for each in found)


def test_job_that_cannot_be_looked_at_is_told_and_looked_at_again() -> None:
    answers = FakeAnswers()
    app, jobs = app_of(answers)
    answers.error = StorageUnavailableError("the disk is gone")
    jobs.by_name["orders"].read()
    told = request(app, "/api/jobs/orders").document["status"]
    assert told["error"]["message"] == "the disk is gone"
    assert told["ok"] is False
    answers.error = None
    jobs.by_name["orders"].read()
    assert request(app, "/api/jobs/orders").document["status"]["ok"] is True


def test_bug_in_a_look_is_told_without_its_words() -> None:
    answers = FakeAnswers()
    app, jobs = app_of(answers)
    answers.error = ValueError("password=hunter2")
    jobs.by_name["orders"].read()
    told = request(app, "/api/jobs/orders")
    assert b"hunter2" not in told.content
    assert told.document["status"]["error"]["message"].endswith("ValueError")


@pytest.mark.parametrize(
    ("target", "asked"),
    [
        ("partitions", ("partitions",)),
        ("why?route=orders&partition=dt%3D1/hr%3D2", ("why", "orders", "dt=1/hr=2")),
        ("dirty", ("dirty",)),
        (
            "dirty/rows?route=orders&reason=scale&path=&limit=9999",
            ("dirty_rows", "orders", DirtyChoice("scale", "", "open", 100)),
        ),
        ("ledger?route=orders", ("ledger", "orders", None, 50)),
        ("ledger?route=orders&from=7&limit=0", ("ledger", "orders", 7, 1)),
        ("ledger?route=orders&from=-7&limit=x", ("ledger", "orders", None, 50)),
    ],
)
def test_question_reaches_the_job_within_its_bounds(target: str, asked: tuple[object, ...]) -> None:
    answers = FakeAnswers()
    app, _ = app_of(answers)
    assert request(app, f"/api/jobs/orders/{target}").status == 200
    assert answers.asked == [asked]
    # Those who ask soon after get the same answer.
    assert request(app, f"/api/jobs/orders/{target}").status == 200
    assert answers.asked == [asked]


@pytest.mark.parametrize(
    ("error", "status"),
    [(WrongUsageError("no such route"), 404), (StorageUnavailableError("gone"), 503)],
)
def test_error_of_an_answer_is_told_and_not_kept(error: SluicewayError, status: int) -> None:
    answers = FakeAnswers()
    app, _ = app_of(answers)
    answers.error = error
    told = request(app, "/api/jobs/orders/dirty")
    assert (told.status, told.document["error"]["message"]) == (status, error.message)
    answers.error = None
    assert request(app, "/api/jobs/orders/dirty").status == 200


def test_runbook_is_told_by_code() -> None:
    app, _ = app_of(FakeAnswers())
    assert request(app, "/api/explain/SW455").document["text"] == "offsets"
    assert request(app, "/api/explain/SW000").status == 404


@pytest.mark.parametrize("target", ["/api/jobs/none", "/api/jobs/none/dirty", "/api/x", "/x"])
def test_what_is_not_there_is_not_found(target: str) -> None:
    app, _ = app_of(FakeAnswers())
    assert request(app, target).status == 404


@pytest.mark.parametrize(
    "target", ["/page/../app.py", "/page/%2e%2e/app.py", "/page//etc/passwd", "/page/"]
)
def test_only_files_of_the_page_are_served(target: str) -> None:
    app, _ = app_of(FakeAnswers())
    assert request(app, target).status == 404


@pytest.mark.parametrize(
    ("target", "method", "headers", "status"),
    [
        ("/", "GET", (("host", "evil.example"),), 421),
        ("/api/fleet", "GET", (("host", "evil.example:8090"),), 421),
        ("/api/fleet", "GET", (), 421),
        ("/api/fleet", "GET", (("host", "localhost"), ("host", "localhost")), 421),
        ("/api/fleet", "POST", (("host", "localhost"),), 405),
        ("/api/fleet", "DELETE", (("host", "localhost"),), 405),
        ("/api/fleet", "GET", (("host", "localhost"), ("sec-fetch-site", "cross-site")), 403),
        (
            "/api/fleet",
            "GET",
            (
                ("host", "localhost"),
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", "navigate"),
            ),
            403,
        ),
        ("/api/fleet?x=" + "y" * 5000, "GET", (("host", "localhost"),), 414),
        ("/api/fleet", "GET", (("host", "LOCALHOST:1"),), 200),
        ("/api/fleet", "HEAD", (("host", "127.0.0.1"),), 200),
        ("/", "GET", (("host", "[::1]:8090"),), 200),
    ],
)
def test_gate_lets_in_readers_by_our_own_names_only(
    target: str, method: str, headers: tuple[tuple[str, str], ...], status: int
) -> None:
    app, _ = app_of(FakeAnswers())
    answer = request(app, target, method=method, headers=headers)
    assert answer.status == status
    for name, value in SECURITY_HEADERS.items():
        assert answer.headers[name.lower()] == value
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ((), 401),
        ((("authorization", "Bearer wrong"),), 401),
        ((("authorization", f"Basic {TOKEN}"),), 401),
        ((("authorization", f"Bearer {TOKEN}"), ("authorization", f"Bearer {TOKEN}")), 401),
        ((("authorization", f"Bearer {TOKEN}"),), 200),
    ],
)
def test_data_need_the_token_and_the_files_of_the_page_do_not(
    given: tuple[tuple[str, str], ...], status: int
) -> None:
    access = PageAccess(token=TOKEN)
    assert TOKEN not in repr(access)
    app, _ = app_of(FakeAnswers(), access=access)
    headers = (("host", "localhost"), *given)
    assert request(app, "/api/fleet", headers=headers).status == status
    assert request(app, "/page/main.js", headers=headers).status == 200


@pytest.mark.parametrize(
    ("stem", "name"),
    [("orders", "orders"), ("a b/ü", "a-b--"), ("..", "job"), ("taken", "taken-2")],
)
def test_jobs_have_names_that_fit_in_an_address(stem: str, name: str) -> None:
    assert unused_name(stem, {"taken": 1}) == name


def test_half_of_a_surrogate_pair_in_an_answer_is_told() -> None:
    answers = FakeAnswers()
    app, jobs = app_of(answers)
    answers.error = StorageUnavailableError("a\udcffb")
    jobs.by_name["orders"].read()
    told = request(app, "/api/fleet").document["jobs"][0]["status"]
    assert told["error"]["message"] == "a\udcffb"
    assert request(app, "/api/jobs/orders/dirty").document["error"]["message"] == "a\udcffb"


def test_hours_of_the_page_are_those_of_the_routes_that_are_looked_for() -> None:
    app, _ = app_of(FakeAnswers())
    for query, found in (("", 1), ("?find=rder", 1), ("?find=x", 0), ("?route=order", 0)):
        told = request(app, f"/api/jobs/orders/partitions{query}").document
        assert len(told["routes"]) == found, query
        assert told["routes_left_out"] == 1 - found


FILES = sorted(PAGE.iterdir())
SCRIPTS = [path for path in FILES if path.suffix == ".js"]
MARKUP = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_file_names_no_other_server(path: object) -> None:
    assert path in FILES
    text = next(each for each in FILES if each == path).read_text("utf-8")
    addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"'`]*", text))
    assert {each for each in addresses if "www.w3.org" not in each} == set()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_script_makes_no_markup_and_imports_what_is_there(path: object) -> None:
    text = next(each for each in SCRIPTS if each == path).read_text("utf-8")
    assert [word for word in MARKUP if word in text] == []
    for name in re.findall(r'from "\./([\w.]+)"', text):
        assert (PAGE / name).is_file(), name


def test_page_has_no_script_or_style_of_its_own() -> None:
    text = (PAGE / "index.html").read_text("utf-8")
    assert re.findall(r"<script(?![^>]*src=)|<style| style=| on\w+=", text) == []
