"""The demo's events: deterministic, realistic, broken in every way and in the right number."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from sluiceway.lab.order_events import (
    COLUMNS,
    SPAN_MS,
    BrokenKind,
    broken_positions,
    order_events,
)
from tools import independent_reader as reader
from tools import payload_rules as rules
from tools import row_oracle as oracle

START_MS = 1_795_161_600_000
COUNT = 5_000


@pytest.fixture(scope="module")
def events() -> list[bytes]:
    return list(order_events(COUNT, 7, START_MS, 0.01))


@pytest.fixture(scope="module")
def fine(events: list[bytes]) -> list[dict[str, Any]]:
    broken = broken_positions(COUNT, 7, broken_ratio=0.01)
    return [json.loads(event) for index, event in enumerate(events) if index not in broken]


def _verdicts(events: Sequence[bytes]) -> list[bool]:
    """True for each event that an independent reading can convert."""
    rows = oracle.RowOracle(reader.TableView(COLUMNS, (), (), ()), reader.Expectation())
    found = []
    for index, event in enumerate(events):
        try:
            rows.row(reader.BrokerRecord("orders", 0, index, None, None, event))
        except rules.BrokenPayloadError:
            found.append(False)
        else:
            found.append(True)
    return found


def test_order_events_same_seed_gives_same_bytes(events: list[bytes]) -> None:
    assert list(order_events(COUNT, 7, START_MS, 0.01)) == events


def test_order_events_other_seed_gives_other_bytes(events: list[bytes]) -> None:
    assert list(order_events(COUNT, 8, START_MS, 0.01)) != events


def test_order_events_exactly_the_named_positions_are_broken(events: list[bytes]) -> None:
    broken = broken_positions(COUNT, 7, broken_ratio=0.01)
    verdicts = _verdicts(events)
    assert {index for index, fine in enumerate(verdicts) if not fine} == set(broken)


def test_broken_positions_default_ratio_is_one_in_a_thousand_of_every_kind() -> None:
    broken = broken_positions(200_000, 1)
    assert len(broken) == 200
    assert set(broken.values()) == set(BrokenKind)


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_order_events_extreme_ratio_breaks_none_or_all(ratio: float) -> None:
    verdicts = _verdicts(list(order_events(50, 1, START_MS, ratio)))
    assert verdicts == [ratio == 0.0] * 50


def test_order_events_times_cover_the_span_out_of_order(fine: list[dict[str, Any]]) -> None:
    times = [event["ts"] for event in fine]
    assert min(times) >= START_MS
    assert max(times) < START_MS + SPAN_MS
    assert {(ts - START_MS) // (SPAN_MS // 3) for ts in times} == {0, 1, 2}
    assert sum(a > b for a, b in pairwise(times)) > COUNT // 4


def test_order_events_order_ids_are_unique_and_pass_two_to_the_53(
    fine: list[dict[str, Any]],
) -> None:
    ids = {event["order_id"] for event in fine}
    assert len(ids) == len(fine)
    assert 2**53 + 1 in ids


def test_order_events_hold_what_careless_readers_change(
    events: list[bytes], fine: list[dict[str, Any]]
) -> None:
    whole = b"\n".join(events)
    for raw in ("北京", "📦", '\\"as new\\"', "line\\nbreak"):
        assert raw.encode() in whole
    for escaped in (b"\\u5317\\u4eac", b"\\ud83d\\udce6"):
        assert escaped in whole
    assert any(event.get("items") == [] for event in fine)
    assert any(event.get("tags") == [] for event in fine)
    assert any("geo" in event and event["geo"] is None for event in fine)
    assert any("status" not in event for event in fine)
    assert any(isinstance(event["user_id"], int) and event["user_id"] > 2**53 for event in fine)
    assert any(event["user_id"] is None for event in fine)
    assert any("experiment" in event for event in fine)


def test_order_events_are_made_only_when_asked_for() -> None:
    first = next(order_events(10**12, 1, START_MS, 0.0))
    assert json.loads(first)["ts"] >= START_MS
