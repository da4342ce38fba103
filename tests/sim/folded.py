"""What the records of a ledger add up to, for the monitor: plain state."""

from dataclasses import dataclass, field
from typing import Any

from sim.counting import Counts
from sim.lane_monitor import Lanes
from sim.places import Places, require, rows_of
from sim.readiness import Marks, Seen, Timed


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
        end_epoch: Leader epoch of the end, as the ledger has it.
    """

    topic_id: str
    start: int
    end: int
    how: str
    had_rows: bool = False
    generation: int = 0
    passages: list[tuple[str, int, int]] = field(default_factory=list)
    end_epoch: int | None = None
    retired: bool = False


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
    counts: Counts = field(default_factory=Counts)

    def mark(self, body: dict[str, Any], seq: int, seen: Seen) -> None:
        """What a DATA record closes, and its watermark; before its rows are in their places."""
        places = self.places
        wrong = self.counts.wrong_closing(body, places.closed, places.by_name, seen.timed)
        require(not wrong, "counts", f"slot {seq} {wrong}")
        live = {number: known for number, known in self.sources.items() if not known.retired}
        self.marks.data(body, live, seq, seen)

    def take(self, kind: str, body: dict[str, Any], seq: int) -> None:
        """Take a record without files in."""
        if kind == "COUNTS":
            for each in body["counts"]:
                is_open = each["prefix"] not in self.places.closed
                require(is_open, "counts", f"slot {seq} counts the closed {each['prefix']}")
            self.counts.take(body)
            return
        for each in body["partitions"] if kind == "EXPIRE" else ():
            place = self.places.by_name[each["partition"]]
            self.counts.expire(each["partition"], rows_of(place.live.values()).total())
        self.places.take(kind, body, seq)

    def check_end(self, timed: Timed | None) -> None:
        """All that nothing holds any more is announced."""
        places = self.places
        if timed is None or not timed.counts:
            self.marks.check_end(places, timed)
            return
        found = self.counts.stuck(places.closed, places.by_name, self.marks.us, timed)
        require(not found, "stuck", f"{found} is all there, and is not announced")
        waits = [name for name, version in places.closed.items() if not version]
        require(not waits, "stuck", f"{waits[:1]} is closed, and is not announced")
