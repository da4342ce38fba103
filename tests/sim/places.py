"""Partitions as the monitor knows them: where each is, what is closed, worked on or announced.

Shares no code with the product's fold.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Row = tuple[int, int]


class ViolationError(Exception):
    """A promise was broken."""


def require(holds: object, rule: str, what: str) -> None:
    """Refuse unless the rule holds."""
    if not holds:
        raise ViolationError(f"{rule}: {what}")


class Named(Protocol):
    """A file that a record names."""

    final: str
    content: bytes
    visible: bool
    dead: str


def rows_of(files: Iterable[Named]) -> Counter[Row]:
    """Rows of simulated data files."""
    lines = (line.split(":") for file in files for line in file.content.decode().split())
    return Counter((int(partition), int(offset)) for partition, offset in lines)


@dataclass(slots=True)
class Place:
    """A partition.

    Attributes:
        folder: Where it is now, relative to the table.
        value: Of the partition column.
        since: Slot that gave it this folder, or dropped it.
        announced: Slot of the first READY that has spoken of it; -1 before.
    """

    folder: str
    value: str
    since: int
    expired: bool = False
    announced: int = -1
    live: dict[str, Named] = field(default_factory=dict)


@dataclass(slots=True)
class Places:
    """All partitions, as the records read so far have them."""

    by_name: dict[str, Place] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    closed: dict[str, int] = field(default_factory=dict)
    intents: dict[int, dict[str, Any]] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    expired_rows: Counter[Row] = field(default_factory=Counter)
    sealed: set[str] = field(default_factory=set)

    def data(
        self, body: dict[str, Any], files: Sequence[tuple[Named, str]], seq: int, root: str
    ) -> int:
        """Rows go where their partition is, and to a closed one only when they are late.

        Args:
            body: Of the DATA record.
            files: Clean ones, with the value of the partition column.
            seq: Its slot.
            root: The table's folder.

        Returns:
            How many rows went to closed partitions.
        """
        reached = 0
        late = set(body["late_in"])
        for prefix in body["closed"]:
            require(prefix not in self.closed, "rule 6", f"slot {seq} closes {prefix} again")
            self.closed[prefix] = 0
        for file, value in files:
            folder = file.final.removeprefix(f"{root}/").rpartition("/")[0]
            name = self._name(folder)
            require(name not in self.sealed, "rule 4", f"slot {seq} writes to the sealed {name}")
            place = self.by_name.get(name)
            if place is None:
                fresh = folder not in self.used
                require(fresh, "rule 4", f"slot {seq} writes to {folder}, which was left")
                place = self.by_name[name] = Place(folder, value, seq)
                self.used.add(folder)
            require(place.folder == folder, "rule 4", f"slot {seq}: {name} is at {place.folder}")
            marked = name not in self.closed or name in late
            require(marked, "I7", f"slot {seq} writes to the closed {name}")
            reached += file.content.count(b"\n") if name in self.closed else 0
            if place.expired:
                place.expired, place.since = False, seq
            place.live[file.final] = file
        return reached

    def late(self, files: Sequence[tuple[Named, str]], seq: int) -> None:
        """Late rows are those of closed partitions, and of sealed ones.

        Args:
            files: With the value of the partition column.
            seq: Slot of their record, which is taken already.
        """
        for file, value in files:
            name = f"hr={value}"
            closed = name in self.closed or name in self.sealed
            require(closed, "I7", f"slot {seq}: {file.final} is of the open {name}")
            require(f"/late/{name}/" in file.final, "I4", f"slot {seq}: late rows in {file.final}")

    def seal(self, names: Iterable[str], seq: int, timed: bool) -> None:  # noqa: FBT001
        """What no row reaches any more has nothing left to be done with it."""
        for name in names:
            where = f"slot {seq} seals {name}"
            require(name not in self.sealed, "rule 4", f"{where} again")
            busy = any(each["partition"] == name for each in self.intents.values())
            require(not busy, "rule 4", f"{where}, which is worked on")
            if name in self.closed:
                require(self.closed[name] > 0, "I7", f"{where}, which was never announced")
            else:
                place = self.by_name.get(name)
                moved = place is not None and place.folder != name
                there = place is not None and (place.expired or not timed)
                require(moved and there, "I7", f"{where}, which is still to be closed")
            self.sealed.add(name)

    def _name(self, folder: str) -> str:
        found = (name for name, place in self.by_name.items() if place.folder == folder)
        return next(found, folder)

    def take(self, kind: str, body: dict[str, Any], seq: int) -> None:
        """Take a record without files in."""
        if kind == "INTENT":
            below = self.by_name.get(body["partition"])
            self.intents[seq] = {**body, "live": {} if below is None else dict(below.live)}
        elif kind == "ABANDON":
            require(self.intents.pop(body["intent"], None), "rule 2", f"slot {seq} ends nothing")
            self.ended.add(body["intent"])
        elif kind == "READY":
            self.ready(body, seq)
        elif kind == "EXPIRE":
            self.expire(body, seq)
        else:
            require(kind == "FENCE", "rule 2", f"slot {seq} holds {kind}")

    def staged(self, intent: int) -> str:
        """What the staged names of work begin with."""
        return f"i{intent}-{self.intents.get(intent, {'uuid': '?'})['uuid']}/"

    def check_shown(
        self,
        partitions: dict[tuple[str, ...], str],
        root: str,
        is_hidden: Callable[[Place], bool] = lambda _: False,
    ) -> None:
        """Readers are sent where the rows are, and nowhere else."""
        for place in self.by_name.values():
            found = partitions.get((place.value,))
            if is_hidden(place):
                require(found is None, "EARLY", f"{place.value} is shown before it is announced")
                continue
            wanted = None if place.expired else f"{root}/{place.folder}"
            require(found == wanted, "rule 16", f"{place.value} is shown at {found}, not {wanted}")

    def replace(self, body: dict[str, Any], added: Sequence[Named], seq: int, root: str) -> None:
        """The same rows are elsewhere, in a folder that was never used."""
        intent = self.intents.pop(body["intent"], None)
        require(intent, "rule 2", f"slot {seq}: intent {body['intent']} is not open")
        self.ended.add(body["intent"])
        place = self.by_name[body["partition"]]
        removed = {f"{root}/{place.folder}/{each['name']}" for each in body["removed"]}
        live = set(place.live)
        require(removed == live, "rule 2", f"slot {seq} leaves {sorted(live ^ removed)[:2]}")
        self._let_go(place, "replaced", seq)
        folder = body["folder"]
        require(folder not in self.used, "rule 4", f"slot {seq} moves to {folder} again")
        self.used.add(folder)
        require(
            rows_of(added) == rows_of(place.live.values()), "P6", f"slot {seq} changes the rows"
        )
        place.folder, place.since = folder, seq
        place.live = {file.final: file for file in added}

    def swap(
        self,
        body: dict[str, Any],
        each: dict[str, Any],
        files: tuple[Sequence[Named], Sequence[Named]],
        seq: int,
        root: str,
    ) -> None:
        """A partition has the rows that were written again, and what has come since the INTENT.

        Args:
            body: Of the record.
            each: The partition, as the record has it.
            files: Files that are new, and files that were carried over.
            seq: Its slot.
            root: The table's folder.
        """
        name, (added, carried) = each["partition"], files
        intent = self.intents.get(body["intent"])
        if intent is None or not name == intent["partition"] == body["prefix"]:
            raise ViolationError(f"rule 2: slot {seq}: no work of {body['intent']} is open there")
        place, before = self.by_name[name], intent["live"].values()
        removed = {f"{root}/{place.folder}/{one['name']}" for one in each.get("removed", ())}
        live = set(place.live)
        require(removed == live, "rule 2", f"slot {seq} leaves {sorted(live ^ removed)[:2]}")
        since = [file for final, file in place.live.items() if final not in intent["live"]]
        require(rows_of(added) == rows_of(before), "P6", f"slot {seq} changes the rows")
        kept = rows_of(carried) == rows_of(since)
        require(kept, "rule 4", f"slot {seq} does not carry over what came since the INTENT")
        self._let_go(place, "swapped", seq)
        folder = each["folder"]
        require(folder not in self.used, "rule 4", f"slot {seq} moves to {folder} again")
        self.used.add(folder)
        place.folder, place.since, place.expired = folder, seq, False
        place.live = {file.final: file for file in (*added, *carried)}

    def end(self, intent: int, seq: int) -> None:
        """Work has ended with its record."""
        require(self.intents.pop(intent, None), "rule 2", f"slot {seq} ends nothing")
        self.ended.add(intent)

    def ready(self, body: dict[str, Any], seq: int) -> None:
        """All of it is there to be read."""
        prefix = body["prefix"]
        require(prefix in self.closed, "rule 6", f"slot {seq}: {prefix} is open")
        version = self.closed[prefix] + 1
        earlier = [name for name, had in self.closed.items() if not had and name < prefix]
        in_order = version > 1 or "=2" not in prefix or not earlier
        require(in_order, "I7", f"slot {seq}: {prefix} before {earlier[:1]}")
        require(body["version"] == version, "I7", f"slot {seq}: {prefix} version {version}")
        self.closed[prefix] = version
        below = {name: place for name, place in self.by_name.items() if name == prefix}
        rows = 0
        for place in below.values():
            place.announced = seq if place.announced < 0 else place.announced
            for file in place.live.values():
                require(file.visible, "I7", f"slot {seq} announces {file.final} unseen")
            rows += rows_of(place.live.values()).total()
        fits = int(body["rows"]) == rows or not body["whole"]
        require(fits, "I7", f"slot {seq}: {prefix} has {rows} rows")

    def expire(self, body: dict[str, Any], seq: int) -> None:
        """What was in them counts no more."""
        for each in body["partitions"]:
            place = self.by_name[each["partition"]]
            require(not place.expired, "rule 2", f"slot {seq}: {each['partition']} is gone")
            self.expired_rows += rows_of(place.live.values())
            self._let_go(place, "expired", seq)
            folder = each["next_folder"]
            require(folder not in self.used, "rule 4", f"slot {seq} goes on in {folder} again")
            self.used.add(folder)
            place.folder, place.since, place.expired = folder, seq, True
            place.live = {}

    @staticmethod
    def _let_go(place: Place, why: str, seq: int) -> None:
        for file in place.live.values():
            require(file.visible, "rule 2", f"slot {seq} lets go of {file.final} unseen")
            file.dead = why
