"""`sluiceway status` and the health endpoints on a real broker and metastore, without Spark."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from sluiceway.cli.app import run_command
from sluiceway.driver.status_board import StatusBoard
from sluiceway.driver.stop import StopSignal
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.lab.lab import LabEndpoints
from sluiceway.observe.log import stderr_log
from sluiceway.route.clients import open_sink
from sluiceway.service.health import health_served
from tools.job_files import JobFile, event, write_routes
from tools.lab_fixture import TopicFactory
from tools.raw_metastore import raw_client
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter
from tools.waiting import wait_for

TIMEOUT_S = 120.0


class Stage:
    """A job of two routes: what it does, and what is seen of it."""

    def __init__(
        self,
        endpoints: LabEndpoints,
        new_topic: TopicFactory,
        folder: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self.endpoints = endpoints
        self.folder = folder
        self.topics = [new_topic(), new_topic()]
        self.writer = TopicWriter(endpoints.bootstrap_servers)
        self._capsys = capsys

    def job(self, *, metastore_uri: str = "") -> JobFile:
        routes = [f"  - {{topics: [{name}], table: ods.{name}}}" for name in self.topics]
        return write_routes(
            self.folder,
            "\n".join(routes),
            bootstrap_servers=self.endpoints.bootstrap_servers,
            metastore_uri=metastore_uri or self.endpoints.metastore_uri,
        )

    def status(self, job: JobFile) -> tuple[int, dict[str, Any]]:
        """Exit code and answer of `sluiceway status -o json`."""
        self._capsys.readouterr()
        code = run_command(["status", str(job.path), "-o", "json"])
        return code, json.loads(self._capsys.readouterr().out)

    def table(self, job: JobFile) -> str:
        self._capsys.readouterr()
        run_command(["status", str(job.path)])
        return self._capsys.readouterr().out

    @contextmanager
    def running(self, job: JobFile) -> Iterator[int]:
        """The job runs beside the block; the port of its health endpoints."""
        stop, board, ended = StopSignal(), StatusBoard(), list[BaseException]()

        def drive() -> None:
            try:
                RouteRun(job).run_until(stop, board=board)
            except BaseException as error:  # noqa: BLE001 - handed to the test
                ended.append(error)

        driver = threading.Thread(target=drive)
        with health_served(0, board, stderr_log(level="warning")) as port:
            assert port is not None
            driver.start()
            try:
                yield port
            finally:
                stop.ask()
                driver.join(TIMEOUT_S)
        assert not driver.is_alive()
        assert ended == []


@pytest.fixture
def stage(
    lab_endpoints: LabEndpoints,
    new_topic: TopicFactory,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Stage:
    return Stage(lab_endpoints, new_topic, tmp_path, capsys)


def get(port: int, path: str) -> tuple[int, dict[str, Any]]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def each(body: dict[str, Any], key: str) -> list[Any]:
    return [route[key] for route in body["routes"]]


def test_status_of_a_job_before_during_and_after_a_run(stage: Stage) -> None:
    job = stage.job()
    code, body = stage.status(job)
    assert (code, body["ok"], each(body, "state")) == (1, False, ["no_table", "no_table"])
    assert each(body, "code") == ["SW407", "SW407"]
    assert all(f"run {job.path}` creates it" in message for message in each(body, "message"))
    stage.writer.write(stage.topics[0], [event(n) for n in range(5)])
    stage.writer.write(stage.topics[1], [event(1), b"{broken"])
    with stage.running(job) as port:
        wait_for(lambda: get(port, "/readyz")[0] == 200)
        wait_for(lambda: each(get(port, "/healthz")[1], "rows_read") == [5, 2])
        wait_for(lambda: each(stage.status(job)[1], "rows_read") == [5, 2])
        code, body = stage.status(job)
        assert (code, body["ok"], each(body, "state")) == (0, True, ["running", "running"])
        assert each(body, "rows_dirty") == [0, 1]
        assert all(" pid " in driver for driver in each(body, "driver"))
        assert all(rate >= 0 for rate in each(body, "rows_per_s"))
        wait_for(lambda: each(stage.status(job)[1], "lag_records") == [0, 0])
        wait_for(lambda: each(stage.status(job)[1], "lag_ms") == [0, 0])
    committed = each(stage.status(job)[1], "last_commit_ms")
    with stage.running(job) as port:
        # A driver that has not committed anything itself says what the one before it said.
        wait_for(lambda: get(port, "/readyz")[0] == 200)
        wait_for(lambda: each(stage.status(job)[1], "state") == ["running", "running"])
        assert each(get(port, "/readyz")[1], "last_commit_ms") == committed
    assert each(stage.status(job)[1], "last_commit_ms") == committed
    stage.writer.write(stage.topics[0], [event(n) for n in range(3)])
    code, body = stage.status(job)
    assert (code, each(body, "state")) == (0, ["stopped", "stopped"])
    assert (each(body, "lag_records"), each(body, "driver")) == ([3, 0], [None, None])
    (waiting,) = body["routes"][0]["attention"]
    assert waiting.startswith("3 records wait")
    assert waiting.endswith("and no driver runs")
    assert all(at is not None for at in each(body, "last_commit_ms"))
    shown = stage.table(job).splitlines()
    assert shown[0].split()[:4] == ["ROUTE", "TABLE", "STATE", "LAG"]
    assert shown[1].split()[1:4] == [f"ods.{stage.topics[0]}", "stopped", "3"]


def test_halted_route_is_told_while_it_runs_and_afterwards(stage: Stage) -> None:
    job = stage.job()
    for topic in stage.topics:
        stage.writer.write(topic, [event(0)])
    admin = AdminClient({"bootstrap.servers": stage.endpoints.bootstrap_servers, "log_level": 0})
    with stage.running(job) as port:
        wait_for(lambda: each(get(port, "/healthz")[1], "rows_read") == [1, 1])
        admin.delete_topics([stage.topics[0]])[stage.topics[0]].result(TIMEOUT_S)
        wait_for(lambda: get(port, "/readyz")[0] == 503)
        assert get(port, "/healthz")[0] == 200
        wait_for(lambda: each(stage.status(job)[1], "state") == ["halted", "running"])
        code, body = stage.status(job)
        assert (code, body["ok"], each(body, "code")) == (1, False, ["SW405", None])
    code, body = stage.status(job)
    assert (code, each(body, "state")) == (1, ["stopped", "stopped"])
    assert each(body, "code") == ["SW405", None]
    assert "\n  [SW405] " in stage.table(job)


def test_driver_that_died_is_not_a_clean_stop(stage: Stage) -> None:
    job = stage.job()
    for topic in stage.topics:
        stage.writer.write(topic, [event(0)])
    RouteRun(job).catch_up()
    lease = RouteRun(job, f"ods-{stage.topics[0]}").root() / (
        f"_sluiceway/ods-{stage.topics[0]}/lease.json"
    )
    held = json.loads(lease.read_text())
    assert held["released"] is True
    lease.write_text(
        json.dumps({**held, "released": False, "pid": 2**22 - 1}, sort_keys=True).replace(" ", "")
    )
    code, body = stage.status(job)
    assert (code, each(body, "state"), each(body, "code")) == (1, ["stopped"] * 2, [None, None])
    assert "ended without a stop" in body["routes"][0]["message"]
    assert body["routes"][1]["ok"] is True


def test_table_that_cannot_be_found_is_unknown_and_said_so(stage: Stage) -> None:
    stage.writer.write(stage.topics[0], [event(0)])
    RouteRun(stage.job()).catch_up()
    code, body = stage.status(stage.job(metastore_uri="thrift://127.0.0.1:1"))
    assert (code, each(body, "state")) == (1, ["unknown", "unknown"])
    assert each(body, "code") == ["SW102", "SW102"]
    assert "where its ledger is, is not known" in body["routes"][0]["message"]


def test_dropped_table_leaves_the_other_routes_status_alone(stage: Stage) -> None:
    for topic in stage.topics:
        stage.writer.write(topic, [event(0)])
    job = stage.job()
    RouteRun(job).catch_up()
    with raw_client(stage.endpoints.metastore_uri) as client:
        client.drop_table("ods", stage.topics[0], deleteData=False)
    code, body = stage.status(job)
    assert (code, each(body, "ok")) == (1, [False, True])
    assert each(body, "rows_read") == [None, 1]


def test_route_that_never_started_is_told_from_one_that_stopped(stage: Stage) -> None:
    job = stage.job()
    for route in compile_routes(job.spec).routes:
        with closing(open_sink(route)) as sink:
            sink.open()
    code, body = stage.status(job)
    assert (code, each(body, "state")) == (0, ["not_started", "not_started"])
    other = JobFile(stage.folder / "other.yaml", "")
    other.path.write_text(job.path.read_text().replace("name: many", "name: other"))
    # Its driver lives, and that is no news of this job's route.
    with stage.running(job):
        wait_for(lambda: each(stage.status(job)[1], "state") == ["running", "running"])
        code, body = stage.status(other)
    assert (code, each(body, "state")) == (1, ["not_started", "not_started"])
    assert body["routes"][0]["code"] == "SW454"
    assert "filled by job many" in body["routes"][0]["message"]


def test_last_commit_outlives_moved_offsets(stage: Stage) -> None:
    for topic in stage.topics:
        stage.writer.write(topic, [event(0), event(1)])
    job = stage.job()
    RouteRun(job).catch_up()
    before = each(stage.status(job)[1], "last_commit_ms")
    assert None not in before
    move = ["offsets", "reset", str(job.path), "--route", f"ods-{stage.topics[0]}"]
    how = ["--to", "earliest", "--reason", "again", "--accept-doubles", "--execute"]
    assert run_command([*move, *how]) == 0
    code, body = stage.status(job)
    assert (code, each(body, "last_commit_ms")) == (0, before)
    assert body["routes"][0]["lag_records"] == 2


def test_topic_that_was_created_again_has_no_lag_and_is_not_well(
    stage: Stage, bootstrap_servers: str
) -> None:
    for topic in stage.topics:
        stage.writer.write(topic, [event(0)])
    job, again = stage.job(), stage.topics[0]
    RouteRun(job).catch_up()
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    admin.delete_topics([again])[again].result(TIMEOUT_S)
    wait_for(lambda: again not in admin.list_topics(timeout=TIMEOUT_S).topics)
    admin.create_topics([NewTopic(again, 1, 1)])[again].result(TIMEOUT_S)
    stage.writer.write(again, [event(n) for n in range(20)])
    code, body = stage.status(job)
    assert (code, each(body, "lag_records"), each(body, "ok")) == (1, [None, 0], [False, True])
    assert each(body, "code") == ["SW455", None]
    assert "the topic was created again" in body["routes"][0]["message"]
    assert f"offsets show {job.path} --route ods-{again}" in stage.table(job)


def test_topics_that_get_no_table_of_their_own_are_told_and_not_well(
    stage: Stage, bootstrap_servers: str
) -> None:
    mark = stage.topics[0]
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    names = [f"{mark}_a", f"{mark}_A", f"{mark}_b-c"]
    for made in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        made.result(TIMEOUT_S)
    job = write_routes(
        stage.folder,
        f'  - {{topics: "{mark}_(.*)", table: "ods.{mark}_{{1}}"}}',
        bootstrap_servers=stage.endpoints.bootstrap_servers,
        metastore_uri=stage.endpoints.metastore_uri,
    )
    code, body = stage.status(job)
    assert (code, body["ok"]) == (1, False)
    assert list(body["topics_refused"]) == [f"{mark}_b-c"]
    assert list(body["topics_sharing"]) == [f"{mark}_a"]
    shown = stage.table(job)
    assert f"topic {mark}_b-c is not read: " in shown
    assert f"topic {mark}_a: ods.{mark}_a is filled from {mark}_A too" in shown
