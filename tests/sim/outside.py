"""Who changes what has no fencing: metastore, announced folders, the route's mailbox.

A driver that was fenced may do so for a short while, as nothing can keep it from it: until it has
looked at the log again, and while a call is under way. Then it has to stand still.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from sim.places import require
from sim.scheduler import Process

STOPS_WITHIN_S = 15.0
"""For how long a fenced driver that is awake may go on: a look's age, and slow calls."""

READERS_GRACE_S = 8.0


@dataclass(slots=True)
class Outside:
    """Of one table.

    Attributes:
        terms: Driver's process -> term of its fence.
        fenced: Moment of each fence, the first one first.
    """

    now: Callable[[], float]
    system: str
    root: str
    terms: dict[Process, int] = field(default_factory=dict)
    fenced: list[float] = field(default_factory=list)
    _repaired: dict[str, tuple[Process, float]] = field(default_factory=dict)

    def note_fence(self, term: int) -> None:
        """The log has a fence of this term now; a power cut may have taken one of it before."""
        del self.fenced[term - 1 :]
        self.fenced.append(self.now())

    def is_outside(self, path: str) -> bool:
        """Whether a file is for others than drivers: rows, answers to tools, sent announcements."""
        relative = path.removeprefix(f"{self.system}/")
        if relative != path:
            return relative.startswith(("requests/", "dirty/", "late/", "told-"))
        return path.startswith(f"{self.root}/") and not path.startswith(f"{self.root}/_sluiceway/")

    def changed(self, process: Process | None, what: str) -> None:
        """Somebody changes it; None when a call arrives whose sender waits no more."""
        term = 0 if process is None else self.terms.get(process, 0)
        if process is None or not 0 < term < len(self.fenced):
            return
        # The next term's fence is the first that it could have seen.
        awake_s = self.now() - max(self.fenced[term], process.awake_since)
        stopped = awake_s <= STOPS_WITHIN_S
        require(stopped, "rule 16", f"{process.name}, fenced {awake_s:.1f} s ago: {what}")

    def moved(self, process: Process | None, old: str, new: str) -> None:
        """The metastore sends readers from one folder to another."""
        self._repaired.pop(new, None)
        if process is not None:
            self._repaired[old] = (process, self.now())

    def removed(self, process: Process | None, folder: str) -> None:
        """A published file that was replaced is removed from the folder that it was seen in."""
        found = self._repaired.get(folder)
        if process is None or found is None or found[0] is not process:
            return
        ago_s = self.now() - found[1]
        long = ago_s >= READERS_GRACE_S
        require(long, "rule 16", f"{process.name} sent readers from {folder} {ago_s:.1f} s ago")
