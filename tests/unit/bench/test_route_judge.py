"""What the judge of many routes counts of a table that was dropped while a driver ran."""

import importlib
import json
from pathlib import Path

import pytest

FINALS = {
    "files": "dt=20261120/hr=08/rows.parquet",
    "dirty_files": "_sluiceway/ods-own_001/dirty/d.parquet",
}


@pytest.mark.parametrize("published", [(), ("files",), ("files", "dirty_files")])
def test_committed_files_count_once_wherever_publishing_stood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, published: tuple[str, ...]
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[3])
    topic = importlib.import_module("bench.route_topics").Topic(
        "own_001", "narrow", "hour", listed=True, dropped=True
    )
    system = tmp_path / "_sluiceway" / topic.route
    named = {
        name: [{"final": final, "staged": f"7/{Path(final).name}"}]
        for name, final in FINALS.items()
    }
    record = system / "log" / "0000" / "0007.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"type": "DATA", "body": named}))
    for name, final in FINALS.items():
        place = tmp_path / final if name in published else system / "stage/7" / Path(final).name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()

    view = importlib.import_module("bench.route_judge").view_of_folder(tmp_path, topic)

    assert [Path(file.path).name for file in view.files] == ["rows.parquet"]
    assert [file.values for file in view.files] == [("20261120", "08")]
    assert [Path(path).name for path in view.dirty_files] == ["d.parquet"]
