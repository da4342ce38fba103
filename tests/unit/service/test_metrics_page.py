from dataclasses import replace

from sluiceway.driver.status_board import MeasuredRoute, StatusBoard
from sluiceway.observe import metrics
from sluiceway.observe.figures import FigureLimits, Figures
from sluiceway.observe.metrics import METRICS
from sluiceway.route.status import RouteState, RouteStatus
from sluiceway.service.metrics_page import MetricsPage
from tools.metrics_truth import read_page


class Board(StatusBoard):
    routes: tuple[MeasuredRoute, ...] = ()

    def measured(self) -> tuple[MeasuredRoute, ...]:
        return self.routes


def route(number: int, state: RouteState = RouteState.RUNNING) -> MeasuredRoute:
    figures = Figures(FigureLimits(topics=1))
    figures.add(metrics.RECORDS_READ, 10 + number, f"t{number}")
    figures.add(metrics.RECORDS_READ, 1, "more")
    figures.put(metrics.LAG_RECORDS, {(f"t{number}",): 5})
    figures.observe(metrics.END_TO_END, 3.0, times=4)
    status = RouteStatus(
        route=f"r{number}",
        table=f"ods.r{number}",
        state=state,
        lag_records=5,
        lag_ms=1500,
        last_commit_ms=7000,
    )
    return MeasuredRoute(status, figures.read())


def page(*routes: MeasuredRoute, most: int = 500) -> str:
    board = Board()
    board.routes = routes
    return MetricsPage("job", board, FigureLimits(routes=most)).render("")[0].decode()


def test_figures_stand_under_their_route() -> None:
    text = page(route(1), route(2, RouteState.HALTED))
    first = 'job_name="job",route="r1",table="ods.r1"'
    assert f'sluiceway_records_read_total{{{first},topic="t1"}} 11.0' in text
    assert (
        'sluiceway_job_state{job_name="job",route="r1",state="running",table="ods.r1"} 1.0' in text
    )
    assert (
        'sluiceway_job_state{job_name="job",route="r1",state="halted",table="ods.r1"} 0.0' in text
    )
    assert f"sluiceway_source_lag_seconds{{{first}}} 1.5" in text
    assert f"sluiceway_last_commit_timestamp_seconds{{{first}}} 7.0" in text
    assert 'route="r2",state="halted",table="ods.r2"} 1.0' in text


def test_source_partitions_that_are_left_out_are_counted_also_when_there_is_none() -> None:
    name = "sluiceway_source_partitions_left_out"
    status = RouteStatus(route="r", left_out={"a[3]": "no leader answers for it"})
    for count in (0, 3):
        told = replace(status, left_out_count=count)
        assert read_page(page(MeasuredRoute(told, Figures().read())))[name] == {(): float(count)}


def test_lag_that_is_not_known_is_no_zero() -> None:
    figures = Figures()
    figures.put(metrics.LAG_RECORDS, {("orders",): 0})
    told = RouteStatus(route="r", lag_records=0, lag_at_least_ms=11_160_000)
    found = read_page(page(MeasuredRoute(told, figures.read())))
    assert found["sluiceway_source_lag_seconds"] == {(): 11160.0}
    assert found["sluiceway_source_lag_records"] == {("orders",): 0.0}
    unknown = read_page(page(MeasuredRoute(RouteStatus(route="r"), figures.read())))
    assert not unknown.get("sluiceway_source_lag_seconds")
    assert not unknown.get("sluiceway_source_lag_records")


def test_buckets_add_up() -> None:
    text = page(route(1))
    base = 'job_name="job",route="r1",table="ods.r1"'
    name = "sluiceway_end_to_end_latency_seconds"
    assert f'{name}_bucket{{job_name="job",le="2.5",route="r1",table="ods.r1"}} 0.0' in text
    assert f'{name}_bucket{{job_name="job",le="5",route="r1",table="ods.r1"}} 4.0' in text
    assert f'{name}_bucket{{job_name="job",le="+Inf",route="r1",table="ods.r1"}} 4.0' in text
    assert f"{name}_sum{{{base}}} 12.0" in text


def test_counters_and_histograms_begin_at_zero() -> None:
    found = read_page(page(MeasuredRoute(RouteStatus(route="r"), Figures().read())))
    plain = [m for m in METRICS if m.of_route and not m.labels and m.kind != "gauge"]
    assert len(plain) > 10
    for metric in plain:
        name = metric.full_name + ("_count" if metric.kind == "histogram" else "")
        assert found[name] == {(): 0.0}, name


def test_routes_beyond_the_bound_are_added_up_and_counted() -> None:
    found = page(*(route(number) for number in range(5)), most=2)
    other = 'job_name="job",route="_other",table="_other"'
    assert f'sluiceway_records_read_total{{{other},topic="_other"}} {12 + 13 + 14 + 3}.0' in found
    assert f"sluiceway_end_to_end_latency_seconds_count{{{other}}} 12.0" in found
    assert 'route="r3"' not in found
    # What gauges say of several routes is no sum.
    assert 'sluiceway_source_lag_records{job_name="job",route="_other"' not in found
    assert 'sluiceway_metrics_cut_off_total{job_name="job",label="route"} 3.0' in found
    assert 'sluiceway_metrics_cut_off_total{job_name="job",label="topic"} 5.0' in found


def test_page_of_a_job_without_routes_tells_the_process() -> None:
    found = read_page(page())
    assert found["sluiceway_threads"][()] >= 1
    assert list(found["sluiceway_build_info"].values()) == [1.0]
    assert "process_resident_memory_bytes" in found
    assert "process_start_time_seconds" in found
