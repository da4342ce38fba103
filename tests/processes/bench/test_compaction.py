"""An hour of epochs in small, as `bench.compaction` measures it."""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def compaction() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[3])
        yield importlib.import_module("bench.compaction")


@pytest.mark.slow
def test_files_of_360_epochs_become_few_with_the_same_rows(
    compaction: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compaction.main(["--epochs", "360", "--records", "8"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["files_before"] == 360
    assert found["files_after"] == 1 <= found["most_files"]
    assert found["rows_unequal"] == 0
    assert found["rows"] == 2880
    assert found["compaction_cpu_s"] > 0


def test_row_that_is_missing_or_another_is_seen(compaction: Any, tmp_path: Path) -> None:
    hours = []
    for records in (4, 3):
        hour = compaction.write_hour(tmp_path / str(records), 2, records)
        hours.append([Path(hour.layout.final(file.final)) for file in hour.files])
    assert compaction.rows_unequal(hours[0], hours[0]) == 0
    assert compaction.rows_unequal(hours[0], hours[0][:1]) == 4
    # Event times are spread over the hour, so that only the first event is the same in both.
    assert compaction.rows_unequal(*hours) == 7 + 5
