"""What the records of a ledger add up to, for the monitor: plain state."""

from dataclasses import dataclass, field

from sim.lane_monitor import Lanes
from sim.places import Places
from sim.readiness import Marks


@dataclass(slots=True)
class NamedFile:
    """A file that a record names.

    Attributes:
        dead: How the ledger let it go; empty for a live one.
        gone: It was at its final name and is there no more.
    """

    seq: int
    staged: str
    final: str
    content: bytes
    visible: bool = False
    dead: str = ""
    gone: bool = False


@dataclass(slots=True)
class Source:
    """A source partition in the monitor's fold.

    Attributes:
        passages: Log and range that each earlier generation has read.
    """

    topic_id: str
    start: int
    end: int
    how: str
    had_rows: bool = False
    generation: int = 0
    passages: list[tuple[str, int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Folded:
    """What the records add up to."""

    records: list[bytes] = field(default_factory=list)
    term: int = 0
    epoch: int = -1
    published_through: int = 0
    snapshot_through: int = 0
    after_fence: bool = False
    sources: dict[int, Source] = field(default_factory=dict)
    files: dict[str, NamedFile] = field(default_factory=dict)
    staged: dict[str, NamedFile] = field(default_factory=dict)
    places: Places = field(default_factory=Places)
    lanes: Lanes = field(default_factory=Lanes)
    marks: Marks = field(default_factory=Marks)
