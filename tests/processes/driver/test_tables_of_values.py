"""A driver makes a table for each value: no server, every row once, whatever kills it."""

import json
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sluiceway.audit.pick_route import job_routes
from sluiceway.cli.app import run_command
from sluiceway.observe.log import stderr_log
from sluiceway.plugins import PluginGroup, installed_plugins
from tools.driver_process import DriverProcess
from tools.job_files import JobFile
from tools.plugin_packages import SOURCE_EXAMPLE, write_package
from tools.route_runs import RouteRun

_SHARDS = ("eu", "us")


class Job:
    """A job that routes one topic of a log in a file by `type`, into a folder's tables."""

    def __init__(self, folder: Path) -> None:
        from sluiceway_sqlite_log.log_file import LogFile  # noqa: PLC0415 - on the path by now

        self._folder = folder
        self._log = LogFile(folder / "events.log")
        self._log.create_topic("events", _SHARDS)

    def write(self, kinds: Sequence[object], first: int) -> None:
        """The same rows into both shards."""
        self.write_rows([{"id": first + n, "type": kind} for n, kind in enumerate(kinds)])

    def write_rows(self, rows: Sequence[dict[str, object]]) -> None:
        for shard in _SHARDS:
            self._log.append("events", shard, [json.dumps(row).encode() for row in rows])

    def run(self, max_tables: int = 10) -> RouteRun:
        path = self._folder / "events.yaml"
        path.write_text(f"""\
version: 1
name: events
connections:
  log: {{sqlite_log: {{path: {self._folder}/events.log}}}}
  lake: {{folder: {{path: "{self._folder}/lake"}}}}
source: {{connection: log, topics: [events], start: earliest}}
format: {{json: {{}}}}
route_by: $.type
max_tables: {max_tables}
table:
  hive: {{connection: lake, name: "ods.{{value}}"}}
  columns: [{{name: id, type: bigint, required: true}}]
  partition_by: []
  meta: [offset]
run: {{interval: 0.5s, discover_interval: 0.5s, master: "local[2]"}}
""")
        return RouteRun(JobFile(path, ""), "ods-unrouted")

    def ids(self, run: RouteRun, value: str) -> list[int]:
        rows = run.of(f"ods-{value}").rows("id")
        return sorted(int(str(found)) for (found,) in rows)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    packages = tmp_path / "installed"
    packages.mkdir()
    code = "from sluiceway_sqlite_log.source import SqliteLogSource\n"
    name = f"log_{uuid.uuid4().hex[:8]}"
    write_package(packages, name, str(PluginGroup.SOURCES), {"sqlite_log": "SqliteLogSource"}, code)
    for path in (SOURCE_EXAMPLE / "src", packages):
        monkeypatch.syspath_prepend(path)
    installed_plugins.cache_clear()
    yield Job(tmp_path)
    installed_plugins.cache_clear()


def routes(run: RouteRun) -> list[str]:
    return [config.route for config in job_routes(run.job.spec, stderr_log())]


def test_tables_are_made_on_the_way_and_known_to_the_next_driver(job: Job) -> None:
    kinds = ["created", "order-paid", "Created", None, "no/name", 7] * 50
    job.write(kinds, 0)
    run = job.run()
    run.catch_up()
    twice = sorted([*range(300)] * 2)
    # Values that give one name have one table.
    assert job.ids(run, "created") == [n for n in twice if n % 6 in (0, 2)]
    assert job.ids(run, "order_paid") == [n for n in twice if n % 6 == 1]
    assert job.ids(run, "unrouted") == []
    reasons = [reason for (reason,) in run.dirty("reason")]
    assert {reason: reasons.count(reason) for reason in reasons} == {
        "null": 100,
        "bad_partition_value": 100,
        "wrong_type": 100,
    }
    job.write(["created", "refunded"] * 20, 1000)
    run.catch_up()
    assert job.ids(run, "refunded") == sorted([*range(1001, 1040, 2)] * 2)
    assert job.ids(run, "created")[-40:] == sorted([*range(1000, 1040, 2)] * 2)
    assert routes(run) == ["ods-unrouted", "ods-created", "ods-order_paid", "ods-refunded"]
    for route in routes(run):
        run.of(route).assert_verified()


def test_value_beyond_the_most_tables_is_dirty_and_ends_nothing(job: Job) -> None:
    job.write(["a", "b", "c", "a"] * 30, 0)
    run = job.run(max_tables=2)
    run.catch_up()
    assert routes(run) == ["ods-unrouted", "ods-a", "ods-b"]
    assert job.ids(run, "a") == sorted([n for n in range(120) if n % 4 in (0, 3)] * 2)
    assert job.ids(run, "b") == sorted([*range(1, 120, 4)] * 2)
    assert len(run.dirty()) == 60
    run.assert_verified()


def test_replay_of_the_rest_loses_no_row_that_names_a_table(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write(["a", "b", None], 0)
    job.write_rows([{"type": "a"}, {"type": "new"}])
    run = job.run()
    run.catch_up()
    assert len(run.dirty()) == 6
    path = run.job.path
    path.write_text(path.read_text().replace(", required: true", ""))
    capsys.readouterr()
    command = ["dirty", "replay", str(path), "--route", "ods-unrouted", "-o", "json"]
    assert run_command(command) == 1
    (lane,) = json.loads(capsys.readouterr().out)["lanes"]
    # The tables are past these rows, and the rest writes into none of them.
    assert (lane["read"], lane["dirty"], lane["written"], lane["filtered"]) == (6, 6, 0, 0)
    assert (job.ids(run, "a"), job.ids(run, "b")) == ([0, 0], [1, 1])
    messages = [str(message) for (message,) in run.dirty("message")]
    assert sum("send the row there again" in message for message in messages) == 4
    assert sum("is null, and names the table" in message for message in messages) == 2 * 2
    for route in routes(run):
        run.of(route).assert_verified()


@pytest.mark.slow
def test_driver_that_is_killed_while_tables_are_named_and_read_together(
    job: Job, tmp_path: Path
) -> None:
    run, kinds, rows = job.run(), ["a", "b", "c"], 0
    # It dies once the rest, then a table, then several routes have committed something.
    for number, commits in enumerate((1, 2, 4)):
        kinds.append(f"late{number}")
        job.write([kinds[n % len(kinds)] for n in range(60)], rows)
        rows += 60
        with DriverProcess(run.job, tmp_path, module="tools.inline_driver") as driver:
            driver.wait_for_event("committed", commits)
            driver.kill_group()
    run.catch_up()
    found = {kind: job.ids(run, kind) for kind in kinds}
    # Each row once, in the table that its value names.
    assert sorted(n for ids in found.values() for n in ids) == sorted([*range(rows)] * 2)
    for number in range(3):
        own = [n for n in range(60) if n % (4 + number) == 3 + number]
        added = [n - 60 * number for n in found[f"late{number}"] if n < 60 * (number + 1)]
        assert added == sorted(own * 2)
    for route in routes(run):
        run.of(route).assert_verified()
