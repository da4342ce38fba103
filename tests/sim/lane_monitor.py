"""What has become of every dirty row: open, in a lane, replayed or purged; in one of them, once.

Of late rows likewise: aside, in a lane, or brought into their partition.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from sim.broker import CLEAN, DIRTY, repaired

Row = tuple[int, int]
OPEN, REPLAYED, PURGED = "open", "replayed", "purged"
BROUGHT_IN = "brought in"
Require = Callable[[object, str, str], None]


class Named(Protocol):
    """A file that a record names."""

    dead: str


@dataclass(slots=True)
class DirtyFile:
    """Rows of a committed dirty or late file, and where each is: a state, or the lane with it."""

    seq: int
    rows: list[Row]
    where: list[str]
    named: Named
    kind: str = "dirty"

    def settle(self) -> None:
        """Let it go once no lane can read a row of it again, and rows of it were given up."""
        if {*self.where} == {BROUGHT_IN}:
            self.named.dead = BROUGHT_IN
        if PURGED in self.where and {*self.where} <= {REPLAYED, PURGED}:
            self.named.dead = "let go of"


@dataclass(slots=True)
class Lanes:
    """Of one ledger, folded from plain records.

    Attributes:
        files: By name.
        lanes: Id -> kind and ranges `(file, start, stop)`.
        written: Rows that replays have put into the table.
        again: Rows that replays have put into dirty files.
    """

    ledger: str = ""
    files: dict[str, DirtyFile] = field(default_factory=dict)
    lanes: dict[str, tuple[str, list[tuple[str, int, int]]]] = field(default_factory=dict)
    written: Counter[Row] = field(default_factory=Counter)
    again: Counter[Row] = field(default_factory=Counter)

    def add_file(
        self, seq: int, final: str, rows: list[Row], named: Named, kind: str = "dirty"
    ) -> None:
        """A record commits a dirty file, or one of late rows."""
        name, where = final.rpartition("/")[2], [OPEN] * len(rows)
        self.files[name] = DirtyFile(seq, rows, where, named, kind)

    def let_go(self) -> Counter[Row]:
        """Rows of the dirty files that need not be there any more."""
        dirty = (file for file in self.files.values() if file.kind == "dirty")
        gone = (file.rows for file in dirty if file.named.dead)
        return Counter(row for rows in gone for row in rows)

    def open_lane(self, body: dict[str, Any], seq: int, require: Require) -> None:
        """LANE: its rows are there, and in no other lane."""
        require(body["lane"] not in self.lanes, "rule 14", f"slot {seq}: a lane is opened again")
        ranges = []
        for each in body["ranges"]:
            name, start, stop = self._place(each, seq, "stop", require)
            kind = self.files[name].kind
            fits = kind == "late" if body["kind"] == "late" else kind == "dirty"
            require(fits, "rule 14", f"slot {seq}: a {body['kind']} of {each['source']}")
            where = self.files[name].where
            free = all(place == OPEN for place in where[start:stop])
            require(free, "rule 14", f"slot {seq} takes rows that are taken: {each}, {where}")
            where[start:stop] = [body["lane"]] * (stop - start)
            ranges.append((name, start, stop))
        self.lanes[body["lane"]] = (body["kind"], ranges)

    def _place(
        self, each: dict[str, Any], seq: int, last: str, require: Require
    ) -> tuple[str, int, int]:
        kind, _, source = each["source"].partition(":")
        ledger, slot, name = source.split("/")
        file = self.files.get(name)
        start, stop = int(each["start"]), int(each[last])
        known = (kind, ledger, int(slot))
        there = file is not None and known == (file.kind, self.ledger, file.seq)
        require(there, "rule 14", f"slot {seq} reads {each['source']}, which is none")
        whole = file is not None and 0 <= start < stop <= len(file.rows)
        require(whole, "rule 14", f"slot {seq} reads rows that are none: {each}")
        return name, start, stop

    def consume(self, body: dict[str, Any], seq: int, require: Require) -> dict[str, list[Row]]:
        """LANE_DATA: rows of its lane, in order, each once.

        Returns:
            The rows that have to be in its files, clean and dirty.
        """
        require(body["lane"] in self.lanes, "rule 14", f"slot {seq}: no such lane")
        kind, ranges = self.lanes[body["lane"]]
        found: dict[str, list[Row]] = {CLEAN: [], DIRTY: []}
        for span in body["ranges"]:
            name, start, end = self._place(span, seq, "end", require)
            file = self.files[name]
            own = all(place == body["lane"] for place in file.where[start:end])
            require(own, "I2", f"slot {seq} consumes rows that are not its own: {span}")
            inside = [(low, high) for of, low, high in ranges if of == name and low <= start < high]
            before = inside and body["lane"] not in file.where[inside[0][0] : start]
            require(before, "I2", f"slot {seq} leaves rows out: {span}")
            state = {"purge": PURGED, "late": BROUGHT_IN}.get(kind, REPLAYED)
            file.where[start:end] = [state] * (end - start)
            file.settle()
            if kind == "late":
                found[CLEAN] += file.rows[start:end]
            for row in file.rows[start:end] if kind == "replay" else ():
                found[repaired(*row)].append(row)
        self._check_counts(body, kind, found, seq, require)
        if kind == "late":
            # They were clean rows before, of the stream.
            return found
        self.written.update(found[CLEAN])
        self.again.update(found[DIRTY])
        return found

    @staticmethod
    def _check_counts(
        body: dict[str, Any], kind: str, found: dict[str, list[Row]], seq: int, require: Require
    ) -> None:
        counts = {name: int(value) for name, value in body["counts"].items()}
        read = sum(int(span["end"]) - int(span["start"]) for span in body["ranges"])
        # Where they may be is looked at file by file.
        late = counts.pop("late", 0)
        wanted = {"read": read, "written": len(found[CLEAN]) - late, "dirty": len(found[DIRTY])}
        wanted |= {"filtered": 0, "skipped": 0, "purged": read if kind == "purge" else 0}
        require(counts == wanted, "P6", f"slot {seq} counts {counts}, wanted {wanted}")

    def check_side_file(self, side: dict[str, Any], seq: int, require: Require) -> None:
        """A snapshot knows the very rows that lanes have taken, and every lane."""
        taken = {
            (each["source"].rpartition("/")[2], row)
            for each in side["lanes"]["taken"]
            for one in each["intervals"]
            for row in range(int(one["start"]), int(one["stop"]))
        }
        wanted = {
            (name, row)
            for name, file in self.files.items()
            for row, place in enumerate(file.where)
            if place != OPEN
        }
        known = {each["lane"] for each in side["lanes"]["lanes"]}
        same = (taken, known) == (wanted, set(self.lanes))
        require(same, "rule 19", f"slot {seq}: the side file has other lanes")

    def check_end(self, of_stream: Counter[Row], require: Require) -> None:
        """Every lane is done, and each dirty row of the stream is in exactly one place.

        Args:
            of_stream: Dirty rows, as often as passages of the stream have read them.
            require: Breaks off.
        """
        places: Counter[str] = Counter()
        rest: Counter[Row] = Counter(self.written)
        for file in self.files.values():
            for row, place in zip(file.rows, file.where, strict=True):
                known = (OPEN, REPLAYED, PURGED, BROUGHT_IN)
                places[place if place in known else "under way"] += 1
                if place != REPLAYED and file.kind == "dirty":
                    rest[row] += 1
        require(not places["under way"], "end", f"lanes are not finished: {dict(places)}")
        require(rest == of_stream, "end", "dirty rows are in no place, or in two")
