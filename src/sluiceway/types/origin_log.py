"""A log in another cluster whose rows a source partition has copies of."""

from dataclasses import dataclass

from sluiceway.types.strict_json import BigInt


@dataclass(frozen=True, slots=True)
class OriginLog:
    """The log that a route has left, and how far the table has its rows.

    Attributes:
        header: Name of the header in which a copy names its row.
        name: `<cluster id>/<topic>/<partition>`, with the topic's name in that cluster.
        topic_id: Id of its topic.
        end: The origin end: first offset there whose row is not in the table.
    """

    header: str
    name: str
    topic_id: str
    end: BigInt
