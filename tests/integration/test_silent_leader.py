"""Two brokers, one of which falls silent: only the routes that it leads wait."""

import threading
import uuid
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from sluiceway.driver.status_board import StatusBoard
from sluiceway.driver.stop import StopSignal
from sluiceway.errors import TableNotFoundError
from sluiceway.observe import metrics
from sluiceway.observe.figures import FigureLimits
from sluiceway.route.status import RouteState, RouteStatus
from sluiceway.service.metrics_page import MetricsPage
from tools.job_files import event, write_routes
from tools.lab_fixture import LabStarter
from tools.metrics_truth import read_page
from tools.route_faults import wait_until
from tools.route_runs import RouteRun
from tools.second_broker import SECOND, second_broker
from tools.topic_writer import TopicWriter

_TIMEOUT_S = 180.0


def offsets(run: RouteRun) -> list[object]:
    try:
        return [offset for (offset,) in run.rows("_offset")]
    except TableNotFoundError:
        return []


@pytest.mark.slow
def test_leader_that_does_not_answer_keeps_only_its_own_routes_waiting(
    lab_in: LabStarter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluiceway.schedule.task_failures.FIRST_RETRY_S", 0.5)
    monkeypatch.setattr("sluiceway.route.clients.REQUEST_TIMEOUT_S", 4.0)
    with lab_in(tmp_path / "lab") as lab, second_broker(lab, tmp_path / "second") as broker:
        servers = lab.endpoints().bootstrap_servers
        names = tuple(f"{name}_{uuid.uuid4().hex[:8]}" for name in ("sick", "well"))
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        places = zip(names, (SECOND, 1), strict=True)
        made = [NewTopic(name, 1, replica_assignment=[[place]]) for name, place in places]
        for future in admin.create_topics(made).values():
            future.result(_TIMEOUT_S)
        job = RouteRun(
            write_routes(
                tmp_path,
                "\n".join(f"  - {{topics: [{name}], table: ods.{name}}}" for name in names),
                bootstrap_servers=servers,
                metastore_uri=lab.endpoints().metastore_uri,
            )
        )
        sick, well = (job.of(f"ods-{name}") for name in names)
        board, stop = StatusBoard(), StopSignal()

        def status() -> RouteStatus:
            found = (one for one in board.snapshot() if one.route == f"ods-{names[0]}")
            return next(found, RouteStatus())

        def write(name: str, *numbers: int) -> None:
            TopicWriter(servers).write(name, [event(n) for n in numbers])

        for name in names:
            write(name, 0)
        driver = threading.Thread(target=job.run_until, args=(stop,), kwargs={"board": board})
        driver.start()
        try:
            wait_until(lambda: offsets(sick) == offsets(well) == [0])
            broker.fall_silent()
            wait_until(lambda: (status().state, status().code) == (RouteState.WAITING, "SW101"))
            write(names[1], 1, 2)
            wait_until(lambda: offsets(well) == [0, 1, 2])
            wait_until(lambda: f"{names[0]}[0]" in (status().message or ""))
            write(names[1], 3)
            wait_until(lambda: offsets(well) == [0, 1, 2, 3])
            assert status().state is not RouteState.HALTED
            broker.go_on()
            write(names[0], 1)
            wait_until(lambda: offsets(sick) == [0, 1])
        finally:
            broker.go_on()
            stop.ask()
            driver.join(_TIMEOUT_S)
        sick.assert_verified()
        well.assert_verified()


def test_route_goes_on_with_the_partitions_whose_leaders_answer(
    lab_in: LabStarter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluiceway.schedule.task_failures.FIRST_RETRY_S", 0.5)
    monkeypatch.setattr("sluiceway.route.clients.REQUEST_TIMEOUT_S", 4.0)
    with lab_in(tmp_path / "lab") as lab, second_broker(lab, tmp_path / "second") as broker:
        servers = lab.endpoints().bootstrap_servers
        name = f"half_{uuid.uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        made = NewTopic(name, 2, replica_assignment=[[1], [SECOND]])
        admin.create_topics([made])[name].result(_TIMEOUT_S)
        job = RouteRun(
            write_routes(
                tmp_path,
                f"  - {{topics: [{name}], table: ods.{name}}}",
                bootstrap_servers=servers,
                metastore_uri=lab.endpoints().metastore_uri,
            )
        )
        route = job.of(f"ods-{name}")
        board, stop = StatusBoard(), StopSignal()

        def status() -> RouteStatus:
            return next(iter(board.snapshot()), RouteStatus())

        def write(partition: int, *numbers: int) -> None:
            rows = [event(number) for number in numbers]
            TopicWriter(servers).write(name, rows, partition=partition)

        def rows() -> int:
            return len(offsets(route))

        write(0, 0)
        write(1, 1)
        driver = threading.Thread(target=job.run_until, args=(stop,), kwargs={"board": board})
        driver.start()
        try:
            wait_until(lambda: rows() == 2)
            broker.fall_silent()
            wait_until(lambda: status().left_out_count == 1)
            assert f"{name}[1]" in status().left_out
            page = MetricsPage("silent", board, FigureLimits())
            left_out = metrics.PARTITIONS_LEFT_OUT.full_name
            assert read_page(page.render("")[0].decode())[left_out] == {(): 1.0}
            write(0, 2, 3)
            wait_until(lambda: rows() == 4)
            assert status().state is RouteState.RUNNING
            broker.go_on()
            write(1, 4)
            wait_until(lambda: rows() == 5)
            wait_until(lambda: status().left_out_count == 0)
            assert read_page(page.render("")[0].decode())[left_out] == {(): 0.0}
        finally:
            broker.go_on()
            stop.ask()
            driver.join(_TIMEOUT_S)
        route.assert_verified()
