"""Requests of tools: named by what they ask for, refused with a word, never truth."""

from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.ledger.lane_records import LaneRange
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.requests import (
    LaneRequest,
    drop_answers,
    pop_refusal,
    put_answer,
    put_request,
    read_requests,
)

RANGE = LaneRange(f"dirty:{'f' * 32}/2/a.parquet", BigInt(0), BigInt(3))
REQUEST = LaneRequest(1, "f" * 32, "replay", "me@host", "repaired", (RANGE,))


@pytest.fixture
def layout(tmp_path: Path) -> LedgerLayout:
    return LedgerLayout(str(tmp_path), "orders")


def test_request_is_named_by_what_it_asks_for_whoever_asks() -> None:
    assert REQUEST.id == replace(REQUEST, operator="you@host", reason="").id
    others = (
        replace(REQUEST, kind="purge"),
        replace(REQUEST, ledger="e" * 32),
        replace(REQUEST, ranges=(replace(RANGE, stop=BigInt(4)),)),
    )
    assert len({each.id for each in (REQUEST, *others)}) == 4


def test_asking_twice_is_asking_once(layout: LedgerLayout) -> None:
    storage = LocalStorage()
    put_request(storage, layout, REQUEST)
    put_request(storage, layout, replace(REQUEST, operator="you@host"))
    (letter,) = read_requests(storage, layout)
    assert (letter.name, letter.request) == (REQUEST.id, REQUEST)
    assert list(Path(layout.stage).iterdir()) == []


def test_answer_takes_the_request_away_and_is_read_once(layout: LedgerLayout) -> None:
    storage = LocalStorage()
    put_request(storage, layout, REQUEST)
    assert pop_refusal(storage, layout, REQUEST.id) is None
    put_answer(storage, layout, REQUEST.id, "rows are taken")
    assert list(read_requests(storage, layout)) == []
    assert pop_refusal(storage, layout, REQUEST.id) == "rows are taken"
    assert pop_refusal(storage, layout, REQUEST.id) is None
    assert list(Path(layout.requests).iterdir()) == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "cannot be read"),
        (b"{}", "cannot be read"),
        (b'{"version":1', "cannot be read"),
        (b'{"ledger":"\\ud800"}', "cannot be read"),
        (b"x" * ((16 << 20) + 1), "16,777,217 bytes"),
        (None, "of version 2, not 1"),
    ],
)
def test_file_that_is_no_request_of_this_version_is_told_as_such(
    layout: LedgerLayout, content: bytes | None, problem: str
) -> None:
    storage = LocalStorage()
    put_request(storage, layout, replace(REQUEST, version=2))
    (path,) = Path(layout.requests).iterdir()
    if content is not None:
        path.write_bytes(content)
    (letter,) = read_requests(storage, layout)
    assert letter.request is None
    assert problem in letter.problem


def test_request_under_another_name_is_refused(layout: LedgerLayout) -> None:
    storage = LocalStorage()
    put_request(storage, layout, REQUEST)
    (path,) = Path(layout.requests).iterdir()
    path.rename(path.with_name("0" * 32 + ".json"))
    (letter,) = read_requests(storage, layout)
    assert (letter.request, letter.name) == (None, "0" * 32)


def test_only_answers_are_dropped_written_or_half_written(layout: LedgerLayout) -> None:
    storage = LocalStorage()
    assert drop_answers(storage, layout) == 0
    put_request(storage, layout, REQUEST)
    put_answer(storage, layout, "0" * 32, "rows are taken")
    folder = Path(layout.requests)
    half = f".{'1' * 32}.answer.json.{'2' * 32}.tmp"
    others = {"notes.txt", ".1.answer.json.2.tmp", f"{'3' * 31}.answer.json"}
    for name in (half, *others):
        (folder / name).write_bytes(b"{")
    (folder / f"{'4' * 32}.answer.json").mkdir()
    assert drop_answers(storage, layout) == 2
    left = {path.name for path in folder.iterdir()}
    assert left == {*others, f"{REQUEST.id}.json", f"{'4' * 32}.answer.json"}
