"""The example notebook does what it says: its code cells run in order, in one process."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sluiceway.lab.lab import LabEndpoints

NOTEBOOK = Path(__file__).parents[2] / "examples/notebook.ipynb"


def cells(kind: str) -> list[str]:
    notebook = json.loads(NOTEBOOK.read_text("utf-8"))
    return ["".join(each["source"]) for each in notebook["cells"] if each["cell_type"] == kind]


def test_notebook_is_kept_without_what_a_run_has_left() -> None:
    notebook = json.loads(NOTEBOOK.read_text("utf-8"))
    code = [each for each in notebook["cells"] if each["cell_type"] == "code"]
    assert [each["outputs"] for each in code] == [[]] * len(code)
    assert {each["execution_count"] for each in code} == {None}


@pytest.mark.slow
def test_cells_of_the_notebook_run_in_order(lab_endpoints: LabEndpoints, tmp_path: Path) -> None:
    script = tmp_path / "cells.py"
    script.write_text("\n\n".join(cells("code")), "utf-8")
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={**os.environ, "SLUICEWAY_LAB": str(lab_endpoints.warehouse.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert "not delivered: 0" in said
    assert re.search(r"Spark UI: http://\S+:\d+", said)
    assert "read 1000, written 990, dirty 10" in said
    assert "orders in the table: 990" in said
    assert re.search(r"notebook: epoch \d+, 2 splits, 1\.0 k records waiting", said)
