"""Rows of a topic that may be in one room only."""

import pytest

from sluiceway.sources.kafka.replica_rooms import TopicReplicas, one_place_problems

SAFE = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}


@pytest.mark.parametrize(
    ("racks", "settings", "says"),
    [
        ([["a", "b", "c"]], SAFE, ""),
        ([["a", "a", "b", "b"]], {**SAFE, "min.insync.replicas": "3"}, ""),
        ([["a", "a", "b", "b"]], SAFE, "room a has 2 of a partition's replicas"),
        ([["a", "b", "c"], ["b", "b", "a"]], SAFE, "room b has 2"),
        ([["a", "b", "c"]], {}, "min.insync.replicas is 1, and room a has 1"),
        ([["a", None, "c"]], SAFE, "no broker.rack"),
        (
            [["a", "b", "c"]],
            {**SAFE, "unclean.leader.election.enable": "true"},
            "unclean.leader.election.enable is true",
        ),
    ],
)
def test_rows_are_safe_when_the_minimum_exceeds_the_replicas_of_each_room(
    racks: list[list[str | None]], settings: dict[str, str], says: str
) -> None:
    found = list(one_place_problems([TopicReplicas("orders", racks, settings)]))
    assert len(found) == bool(says)
    assert says in "".join(found)
