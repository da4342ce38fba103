"""What is left out of the page's answers: the oldest that is well, and it is counted."""

from typing import Any

from sluiceway.console import shortened
from sluiceway.console.shortened import short_dirty, short_ledger, short_partitions


def times(*states: str) -> list[dict[str, Any]]:
    return [
        {"prefix": f"hr={n}", "state": state, "partitions": [{}] * 9}
        for n, state in enumerate(states)
    ]


def test_newest_times_are_kept_and_those_that_need_a_look_before_them(
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(shortened, "MOST_TIMES", 30)
    states = ("overdue", "ready", "late", "ready", "ready", "open")
    routes: list[dict[str, Any]] = [{"route": "a", "table": "b.c", "prefixes": times(*states)}]
    (found,) = short_partitions({"routes": routes}, "", "")["routes"]
    assert [each["prefix"] for each in found["prefixes"]] == ["hr=0", "hr=2", "hr=5"]
    assert found["counts"] == {"overdue": 1, "ready": 3, "late": 1, "open": 1}
    assert "partitions" not in found["prefixes"][0]


def test_many_tables_share_what_one_answer_holds() -> None:
    count = 4_000
    prefixes = times(*["ready"] * 100)
    routes: list[dict[str, Any]] = [
        {"route": f"r{n}", "table": f"a.t{n}", "prefixes": prefixes} for n in range(count)
    ]
    routes.append({"route": "bad", "error": {"message": "gone"}})
    found = short_partitions({"routes": routes}, "", "")
    held = [len(each["prefixes"]) for each in found["routes"][:-1]]
    assert (len(held), sum(held)) == (count, count * 4)
    assert found["routes"][-1] == routes[-1]
    (one,) = short_partitions({"routes": routes}, "r7", "")["routes"]
    assert (one["route"], len(one["prefixes"])) == ("r7", 100)
    by_name = short_partitions({"routes": routes}, "", "t39")
    assert len(by_name["routes"]) == 111
    assert by_name["routes_left_out"] == count + 1 - 111


def test_long_names_and_many_groups_of_dirty_rows_are_cut() -> None:
    groups: list[dict[str, Any]] = [
        {"path": "x" * 10_000, "replay": "c"},
        *({"path": "p", "replay": "c"},) * 300,
    ]
    routes: list[dict[str, Any]] = [{"route": "a", "groups": groups}, {"route": "b", "error": {}}]
    first, second = short_dirty({"routes": routes})["routes"]
    assert (len(first["groups"]), first["groups_left_out"]) == (200, 101)
    cut, whole = first["groups"][:2]
    assert (len(cut["path"]), cut["path_is_cut"], cut["replay"]) == (401, True, None)
    assert whole == {"path": "p", "path_is_cut": False, "replay": "c"}
    assert second == routes[1]


def test_records_of_many_files_are_cut() -> None:
    records: list[dict[str, Any]] = [{"seq": 1, "raw": "x" * 100_000}, {"seq": 2, "raw": "{}"}]
    long, short = short_ledger({"records": records, "next_seq": 3})["records"]
    assert (len(long["raw"]), long["raw_is_cut"]) == (65_536, True)
    assert (short["raw"], short["raw_is_cut"]) == ("{}", False)
