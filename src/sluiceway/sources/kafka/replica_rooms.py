"""Whether a row that a producer got an answer for lies in more than one room."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_MINIMUM = "min.insync.replicas"
_UNCLEAN = "unclean.leader.election.enable"


@dataclass(frozen=True, slots=True)
class TopicReplicas:
    """Where the replicas of a topic are, and its settings.

    Attributes:
        topic: Its name.
        racks: `broker.rack` of each replica, a partition each; None where a broker has none.
        settings: The topic's settings in force.
    """

    topic: str
    racks: Sequence[Sequence[str | None]]
    settings: Mapping[str, str | None]


def one_place_problems(topics: Sequence[TopicReplicas]) -> Iterator[str]:
    """Why rows of these topics may be in one room only: one sentence a topic at most.

    A row has an answer once `min.insync.replicas` replicas have it. So that number has to exceed
    the most replicas that one room has. Whether producers ask for `acks=all` cannot be seen.
    """
    for each in topics:
        found = _problem(each)
        if found:
            yield f"{each.topic}: {found}"


def _problem(topic: TopicReplicas) -> str:
    if (topic.settings.get(_UNCLEAN) or "").lower() == "true":
        return f"{_UNCLEAN} is true: a replica without all rows may become the leader"
    minimum = int(topic.settings.get(_MINIMUM) or 1)
    for racks in topic.racks:
        if None in racks:
            return "a broker has no broker.rack, so the rooms of its replicas are not known"
        rack, most = Counter(racks).most_common(1)[0] if racks else ("", 0)
        if minimum <= most:
            return (
                f"{_MINIMUM} is {minimum}, and room {rack} has {most} of a partition's replicas: "
                "its rows may be in that room only"
            )
    return ""
