"""Risks that `plan` tells, with the commands that show more."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from sluiceway.audit.next_run import _row_risks, _start_risks
from sluiceway.audit.row_preview import NOTHING
from sluiceway.cli.job_file import load_checked_job
from sluiceway.jobfile.compile.compile import compile_routes
from tools.table_on_disk import table_on_disk


def test_command_that_shows_dirty_rows_names_the_route(tmp_path: Path) -> None:
    job = table_on_disk(tmp_path).job
    (config,) = compile_routes(load_checked_job(job).spec).routes
    counts = replace(NOTHING.counts, read=cast("Any", 3), dirty=cast("Any", 1))
    sample = replace(NOTHING, counts=counts, reasons={"broken": 1})

    class Route:
        pass

    route = cast("Any", Route())
    route.config = config
    (risk,) = _row_risks(route, sample)
    assert risk.todo.startswith("`sluiceway preview JOB --route orders` shows them")
    # They are kept.
    assert risk.weight.label == "aside"
    assert "put aside" in risk.text
    odd = replace(NOTHING, refused={"a-b": "its key is no name of a column"})
    (told,) = _row_risks(route, odd)
    assert "a-b: its key is no name of a column" in told.text


def test_route_that_reads_whole_units_is_not_said_to_lack_source_partitions() -> None:
    for units, texts in ((None, ["no source partition answers"]), ("a rule", [])):
        route = cast("Any", SimpleNamespace(config=SimpleNamespace(units=units)))
        assert [risk.text for risk in _start_risks(route, ())] == texts
