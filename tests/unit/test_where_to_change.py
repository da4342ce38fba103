"""The table of rooms in docs/contributors/architecture.md names files that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_ROW = re.compile(r"\| (?P<question>[^|]+) \| (?P<rooms>[^|]+) \| (?P<files>[^|]+) \|")


def _rows() -> list[tuple[str, list[str], list[str]]]:
    text = (ROOT / "docs/contributors/architecture.md").read_text()
    section = text.partition("## Where would I change ...?")[2].partition("\n## ")[0]
    found = [_ROW.fullmatch(line) for line in section.splitlines()]
    told = [row.groupdict() for row in found if row and "`" in row["rooms"]]
    name = re.compile("`([^`]+)`")
    return [(r["question"], name.findall(r["rooms"]), name.findall(r["files"])) for r in told]


def test_each_question_has_a_file_in_each_room_that_it_names() -> None:
    rows = _rows()
    assert len(rows) == 12
    for question, rooms, files in rows:
        found = dict.fromkeys(f"{file.partition('/')[0]}/" for file in files)
        assert list(found) == rooms, question
        for file in files:
            assert (ROOT / "src" / "sluiceway" / file).is_file(), question
