"""The crash matrix as data: its size, its rules, and that it cannot call a red cell green."""

from collections import Counter
from pathlib import Path

import pytest

from matrix.__main__ import Kept, closing_line, keep, read_kept
from matrix.cells import (
    all_cells,
    cross_product,
    hours_cells,
    keyed_cells,
    lane_cells,
    queue_cells,
    smoke_cells,
    visits_of,
)
from matrix.experiment import lawful_exit_codes
from matrix.rules import (
    HOURS_VISITS,
    KEYED_VISITS,
    LANE_VISITS,
    QUEUES,
    QUEUES_VISITS,
    RULES,
    VISITS,
    Fault,
    Scene,
    State,
)
from matrix.stores import Store, points_of, points_of_queues
from sluiceway.observe.failpoint_names import POINTS


@pytest.mark.parametrize("store", Store)
def test_every_combination_is_a_cell_or_left_out_by_a_rule(store: Store) -> None:
    cells, left_out = cross_product(store)
    assert len(cells) + sum(left_out.values()) == len(points_of(store)) * len(Fault) * len(State)
    assert set(left_out) == {rule.name for rule in RULES}


def test_every_point_belongs_to_a_store_or_to_all() -> None:
    of_stores = {point for store in Store for point in points_of(store)}
    assert of_stores | set(points_of_queues()) == set(POINTS)
    assert not [point for point in of_stores if point.startswith("rocketmq.")]
    assert not [point for point in points_of_queues() if point.startswith("kafka.")]
    shared = set.intersection(*(set(points_of(store)) for store in Store))
    assert not [point for point in shared if point.startswith("storage.")]


def test_matrix_is_large_enough_and_its_names_are_unique() -> None:
    cells = all_cells()
    assert max(Counter(cell.name for cell in cells).values()) == 1
    assert len(cells) >= 840
    assert sum(cell.spark for cell in cells) >= 120


def test_every_point_has_cells_but_those_that_no_driver_of_it_meets() -> None:
    met = {cell.point for store in Store for cell in cross_product(store)[0]}
    uploads = ("begin_upload", "upload_part", "complete_upload", "abort_upload", "list_uploads")
    unmet = ("metastore.list_partitions", *(f"storage.s3.{name}" for name in uploads))
    upkeep = {"lake.expired", "lake.replacing", "lake.rewritten", "backfill.close"}
    upkeep |= {point for point in POINTS if point.startswith(("swap.", "unit."))}
    queues = {point for point in POINTS if point.startswith("rocketmq.")}
    assert {point for point in POINTS if point not in met} - upkeep - queues == {
        f"{edge}.{side}" for edge in unmet for side in ("request", "reply")
    }
    assert upkeep.isdisjoint(met)


def test_every_visit_belongs_to_a_point() -> None:
    used = {id(visits_of(cell.point)) for store in Store for cell in cross_product(store)[0]}
    assert [pattern for pattern, visits in VISITS if id(visits) not in used] == []


def test_lane_dies_and_is_disturbed_at_every_point_that_it_meets() -> None:
    cells = lane_cells()
    used = {id(cell.visit) for cell in cells}
    known = [visits for _, visits in LANE_VISITS]
    assert [visits for visits in known if not any(id(each) in used for each in visits)] == []
    assert {cell.visit.scene for cell in cells} == {Scene.LANE}
    # The driver of a lane has no workers here.
    assert {cell.fault for cell in cells} == set(Fault) - {Fault.KILL_WORKER}
    points = {cell.point for cell in cells}
    for fault in (Fault.KILL_DRIVER, Fault.ZOMBIE):
        assert {cell.point for cell in cells if cell.fault is fault} == points
    marks = {cell.point for cell in cross_product()[0] if cell.visit.scene is Scene.LANE}
    assert marks == {point for point in POINTS if point.startswith("lane.")}


def test_hours_are_disturbed_at_every_point_at_which_they_are_merged_announced_and_told() -> None:
    cells = hours_cells()
    used = {id(cell.visit) for cell in cells}
    known = [visits for _, visits in HOURS_VISITS]
    assert [visits for visits in known if not any(id(each) in used for each in visits)] == []
    assert {cell.visit.scene for cell in cells} == {Scene.HOURS}
    # The process that merges is a worker, and dies like one.
    assert {cell.fault for cell in cells} == set(Fault)
    points = {cell.point for cell in cells}
    for fault in (Fault.KILL_DRIVER, Fault.ZOMBIE):
        assert {cell.point for cell in cells if cell.fault is fault} == points
    own = [cell for cell in cross_product()[0] if cell.visit.scene is Scene.HOURS]
    assert {cell.point for cell in own} == {
        point for point in POINTS if point.startswith(("rewrite.", "announce.", "lineage."))
    }
    # Their drivers run until all is told, which a run under Spark here does not.
    assert not [c for c in all_cells() if c.spark and c.visit.scene is Scene.HOURS]


def test_keyed_tables_are_disturbed_wherever_their_changes_are_published() -> None:
    cells = keyed_cells()
    used = {id(cell.visit) for cell in cells}
    known = [visits for _, visits in KEYED_VISITS]
    assert [visits for visits in known if not any(id(each) in used for each in visits)] == []
    assert {cell.visit.scene for cell in cells} == {Scene.KEYED}
    assert {cell.fault for cell in cells} == set(Fault)
    own = {cell.point for cell in cross_product()[0] if cell.visit.scene is Scene.KEYED}
    assert own == {point for point in POINTS if point.startswith("lake.")} - {
        "lake.expired",
        "lake.replacing",
        "lake.rewritten",
    }
    assert not [cell for cell in all_cells() if cell.spark and cell.visit.scene is Scene.KEYED]
    assert keyed_cells(Store.S3) == []


def test_job_on_rocketmq_dies_at_every_point_of_its_source_and_while_it_commits() -> None:
    cells = queue_cells()
    assert max(Counter(cell.name for cell in cells).values()) == 1
    assert not {cell.name for cell in cells} & {cell.name for cell in all_cells()}
    used = {id(cell.visit) for cell in cells}
    known = [visits for _, visits in QUEUES_VISITS]
    assert [visits for visits in known if not any(id(each) in used for each in visits)] == []
    assert {cell.visit.scene for cell in cells} == set(QUEUES)
    points = {cell.point for cell in cells}
    assert {each for each in points if each.startswith("rocketmq.")} == {
        point for point in POINTS if point.startswith("rocketmq.")
    }
    for fault in (Fault.KILL_DRIVER, Fault.ZOMBIE):
        assert {cell.point for cell in cells if cell.fault is fault} == points
    assert {cell.fault for cell in cells} == set(Fault)
    assert {cell.fault for cell in cells if cell.spark} >= {Fault.KILL_DRIVER}


@pytest.mark.parametrize("store", Store)
def test_smoke_meets_every_point_and_every_fault_and_uses_spark(store: Store) -> None:
    cells = smoke_cells(store)
    assert {cell.store for cell in cells} == {store}
    points = {cell.point for cell in cross_product(store)[0]}
    assert {cell.point for cell in cells} == points
    assert len(points) <= len(cells) <= len(points) + 12
    assert sum(cell.spark for cell in cells) == 4
    lanes = {cell.fault for cell in cells if cell.visit.scene is Scene.LANE}
    # The calls of a lane are those of the local store; of four cells not every one can be all.
    local = store is Store.LOCAL
    assert lanes == set(Fault) - {Fault.KILL_WORKER} or not local
    assert {cell.fault for cell in cells if not cell.spark} == set(Fault)
    under_spark = {cell.fault for cell in cells if cell.spark}
    assert under_spark >= {Fault.KILL_DRIVER, Fault.KILL_WORKER, Fault.ZOMBIE} or not local
    for spark in (False, True) if local else (False,):
        assert {cell.state for cell in cells if cell.spark is spark} == set(State)


def _kept(cell: str, *, green: bool, hit: bool = True, lost: int = 0) -> Kept:
    return Kept(cell, green, hit, 1.0, lost, 0, 0)


def test_closing_line_counts_what_is_red_missed_or_not_run() -> None:
    cells = cross_product()[0][:4]
    found = [
        _kept(cells[0].name, green=True),
        _kept(cells[1].name, green=False, lost=3),
        _kept(cells[2].name, green=False, hit=False),
    ]
    assert closing_line(cells, found) == {
        "cells": 4,
        "green": 1,
        "failpoints": len({cell.point for cell in cells}),
        "hit": len({cell.point for cell in cells[:2]}),
        "lost": 3,
        "doubled": 0,
        "altered": 0,
    }


def test_call_that_fails_may_not_end_the_driver_and_a_bug_may() -> None:
    codes = {(cell.point, cell.fault): lawful_exit_codes(cell) for cell in cross_product()[0]}
    assert codes["storage.read.request", Fault.RAISE] == (0,)
    assert codes["metastore.read_table.reply", Fault.LOSE_REPLY] == (0,)
    assert codes["step.committed", Fault.RAISE] == (0, 1, 7)
    assert codes["task.write", Fault.KILL_WORKER] == (0,)
    assert codes["task.write", Fault.ZOMBIE] == (0, 7)
    assert {codes[key] for key in codes if key[1] is Fault.KILL_DRIVER} == {(-9,)}


def test_last_result_of_a_cell_counts(tmp_path: Path) -> None:
    path = tmp_path / "deep/faults.jsonl"
    assert read_kept(path) == {}
    keep(path, _kept("a", green=False))
    keep(path, _kept("b", green=True))
    keep(path, _kept("a", green=True))
    assert {name: kept.green for name, kept in read_kept(path).items()} == {"a": True, "b": True}
