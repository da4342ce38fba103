"""Looks at every change of the store and says which promise it breaks.

Written against the protocol's pages, not against the product: records are read as plain JSON and
folded again here, files are compared row by row with what the brokers had.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sim.broker import CLEAN, DIRTY, Broker, hour, outcome

Row = tuple[int, int]


class ViolationError(Exception):
    """A promise was broken."""


@dataclass(slots=True)
class NamedFile:
    """A file that a DATA record names."""

    seq: int
    staged: str
    final: str
    content: bytes
    visible: bool = False


@dataclass(slots=True)
class Source:
    """A source partition in the monitor's fold."""

    topic_id: str
    start: int
    end: int
    how: str
    had_rows: bool = False


@dataclass(slots=True)
class Folded:
    """What the records add up to."""

    records: list[bytes] = field(default_factory=list)
    term: int = 0
    epoch: int = -1
    published_through: int = 0
    sources: dict[int, Source] = field(default_factory=dict)
    files: dict[str, NamedFile] = field(default_factory=dict)
    staged: dict[str, NamedFile] = field(default_factory=dict)
    hours: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Look:
    """How the monitor looks at the store, without a call.

    Attributes:
        content: Bytes of a file as processes see it; None without one.
        durable: Bytes that a power cut would leave for sure.
    """

    content: Callable[[str], bytes | None]
    durable: Callable[[str], bytes | None]


def file_rows(content: bytes) -> list[Row]:
    """Rows of a simulated data file."""
    return [(int(p), int(o)) for p, o in (line.split(":") for line in content.decode().split())]


def _require(holds: object, rule: str, what: str) -> None:
    if not holds:
        raise ViolationError(f"{rule}: {what}")


class Monitor:
    """Of one table."""

    def __init__(
        self, root: str, route: str, topic: str, broker: Broker, registered: Callable[[str], bool]
    ) -> None:
        self.root = root
        self.topic = topic
        self._system = f"{root}/_sluiceway/{route}"
        self._log = f"{self._system}/log/"
        self._stage = f"{self._system}/stage/"
        self._broker = broker
        self._registered = registered
        self.look = Look(lambda _: None, lambda _: None)
        self.fold = Folded()
        self.acknowledged = 0
        self.early_deleted: dict[int, int] = {}
        self.broken = ""

    # Changes. The first promise that is broken is kept: what makes a change is the product, which
    # must not be able to catch it.

    def named(self, path: str, content: bytes) -> None:
        """A name stands for a file now."""
        self._keep(lambda: self._named(path, content))

    def _named(self, path: str, content: bytes) -> None:
        if path.startswith(self._log):
            self._record(path, content)
        elif path.startswith(self.root) and not path.startswith(self._stage):
            relative = path[len(self.root) + 1 :]
            # Names that begin with a dot or lie directly in the ledger's folder are advice.
            if relative.endswith(".parquet"):
                self._visible(path, content)

    def unnamed(self, path: str) -> None:
        """A name is gone."""
        self._keep(lambda: self._unnamed(path))

    def _unnamed(self, path: str) -> None:
        if path.startswith(self._log) and self._slot(path) < len(self.fold.records):
            _require(False, "I1", f"record {path} was removed")  # noqa: FBT003
        if path in self.fold.files:
            _require(False, "I8", f"published file {path} was removed")  # noqa: FBT003
        file = self.fold.staged.get(path)
        if file is not None:
            kept = self.look.durable(file.final)
            _require(kept == file.content, "I8", f"{path} removed before {file.final} is durable")

    def acknowledge(self, path: str) -> None:
        """The store has promised a record to its writer."""
        self._keep(lambda: self._acknowledge(path))

    def _acknowledge(self, path: str) -> None:
        if not path.startswith(self._log):
            return
        seq = self._slot(path)
        kept = self.look.durable(path)
        _require(seq < len(self.fold.records), "I1", f"record {seq} was promised and is not there")
        _require(kept == self.fold.records[seq], "I1", f"record {seq} was promised, not durable")
        self.acknowledged = max(self.acknowledged, seq + 1)

    def _keep(self, look: Callable[[], None]) -> None:
        try:
            look()
        except ViolationError as error:
            self.broken = self.broken or str(error)

    def after_power_cut(self) -> None:
        """All that was promised is still there; an unpromised last record may be gone."""
        records = self.fold.records
        before = list(records)
        while records and self._slot_content(len(records) - 1) != records[-1]:
            _require(len(records) > self.acknowledged, "I1", f"record {len(records) - 1} is lost")
            records.pop()
        if len(records) < len(before):
            visible = {final for final, file in self.fold.files.items() if file.visible}
            self._fold_again(records)
            for final, file in self.fold.files.items():
                file.visible = final in visible
        for file in self.fold.files.values():
            found = self.look.content(file.final)
            file.visible = found is not None
            whole = file.content in (found, self.look.content(file.staged))
            _require(whole, "I8", f"{file.final} of slot {file.seq} is lost")
            _require(found in (None, file.content), "I8", f"{file.final} is torn")

    def _fold_again(self, records: list[bytes]) -> None:
        contents = {final: file.content for final, file in self.fold.files.items()}
        self.fold = Folded()
        for raw in records:
            self._take(json.loads(raw), raw, contents)

    # Records

    def _slot(self, path: str) -> int:
        name = path.rpartition("/")[2].removesuffix(".json")
        return int(name) if name.isdigit() else 1 << 60

    def _slot_content(self, seq: int) -> bytes | None:
        return self.look.content(f"{self._log}{seq // 10_000:016d}/{seq:020d}.json")

    def _record(self, path: str, raw: bytes) -> None:
        seq, known = self._slot(path), self.fold.records
        if seq < len(known):
            _require(known[seq] == raw, "I1", f"slot {seq} was written twice")
            return
        _require(seq == len(known), "I1", f"slot {seq} filled, slot {len(known)} is empty")
        plain = json.loads(raw)
        self._take(plain, raw, None)

    def _take(self, plain: dict[str, Any], raw: bytes, kept: dict[str, bytes] | None) -> None:
        fold, seq = self.fold, len(self.fold.records)
        prev = hashlib.sha256(fold.records[-1]).hexdigest() if seq else "0" * 64
        _require((plain["seq"], plain["prev"]) == (seq, prev), "I1", f"slot {seq} is not chained")
        kind, body = plain["type"], plain["body"]
        if kind == "FENCE":
            _require(plain["term"] == fold.term + 1, "I3", f"slot {seq} fences {plain['term']}")
            fold.term, fold.epoch = plain["term"], -1
        _require(plain["term"] == fold.term, "I3", f"slot {seq} is of term {plain['term']}")
        if kept is None:
            self._claims(plain, seq)
        if kind == "SOURCES":
            self._sources(body, seq)
        elif kind == "DATA":
            self._data(plain, seq, kept)
        fold.records.append(raw)

    def _claims(self, plain: dict[str, Any], seq: int) -> None:
        """Published and applied through there: is it so?"""
        through = plain["published_through"]
        if through > self.fold.published_through:
            for file in self.fold.files.values():
                done = file.seq >= through or file.visible
                _require(done, "I5", f"slot {seq} calls {file.final} published")
            self.fold.published_through = through
        for value, first in self.fold.hours.items():
            there = first >= plain["effects_through"] or self._registered(value)
            _require(there, "rule 16", f"slot {seq} calls partition {value} applied")

    def _sources(self, body: dict[str, Any], seq: int) -> None:
        for pin in body["partitions"]:
            number, start = pin["partition"], int(pin["start"])
            where = f"slot {seq}: {pin['topic']}[{number}]"
            _require(number not in self.fold.sources, "rule 5", f"{where} is pinned again")
            log = self._broker.by_id[pin["topic_id"]][number]
            if pin["how"] in ("earliest", "discovered"):
                _require(start <= log.first, "rule 5", f"{where} skips what can be read: {start}")
            _require(0 <= start <= len(log.rows), "rule 5", f"{where} starts at {start}")
            self.fold.sources[number] = Source(pin["topic_id"], start, start, pin["how"])

    def _data(self, plain: dict[str, Any], seq: int, kept: dict[str, bytes] | None) -> None:
        fold, body = self.fold, plain["body"]
        _require(body["epoch"] > fold.epoch, "I9", f"slot {seq} has epoch {body['epoch']}")
        fold.epoch = body["epoch"]
        wanted: dict[str, list[Row]] = {CLEAN: [], DIRTY: []}
        read = optional = 0
        for span in body["ranges"]:
            rows, deleted = self._range(span, seq)
            read += len(rows)
            optional += deleted
            for row in rows:
                kind = outcome(*row)
                if kind in wanted:
                    wanted[kind].append(row)
        counts = {name: int(value) for name, value in body["counts"].items()}
        outcomes = sum(v for name, v in counts.items() if name != "read")
        _require(counts["read"] == outcomes == sum(int(s["rows"]) for s in body["ranges"]), "P6",
                 f"slot {seq} does not balance")  # fmt: skip
        own = f"{plain['term']}-{body['epoch']}-"
        clean = [self._file(file, seq, own, kept) for file in body["files"]]
        dirty = [self._file(file, seq, own, kept) for file in body["dirty_files"]]
        if kept is not None:
            return
        _require(self._fits(clean, wanted[CLEAN], optional), "P6", f"slot {seq}: rows do not fit")
        _require(self._fits(dirty, wanted[DIRTY], optional), "P6", f"slot {seq}: dirty do not fit")
        fits = read - optional <= counts["read"] <= read
        _require(fits, "P6", f"slot {seq} read {counts['read']}, the log had {read}")

    def _range(self, span: dict[str, Any], seq: int) -> tuple[list[Row], int]:
        """Rows of the range; how many of them retention may have taken before they were read."""
        number, start, end = span["partition"], int(span["start"]), int(span["end"])
        known = self.fold.sources.get(number)
        where = f"slot {seq}: {span['topic']}[{number}]"
        if known is None:
            raise ViolationError(f"rule 5: {where} is not pinned")
        _require(start == known.end, "I2", f"{where} starts at {start}, end is {known.end}")
        _require(end >= start, "I2", f"{where} goes back to {end}")
        _require(span["topic_id"] == known.topic_id, "P7", f"{where} is another topic")
        covered = end - start == int(span["rows"]) + int(span["gaps"])
        _require(covered, "P6", f"{where} has {span['rows']} rows and {span['gaps']} gaps")
        known.end = end
        log = self._broker.by_id[known.topic_id][number]
        _require(end <= log.stable_end, "P7", f"{where} was read past the log's end")
        rows = [(number, offset) for offset in range(start, end) if log.rows[offset]]
        deleted = 0
        if not known.had_rows and known.how in ("earliest", "discovered"):
            deleted = sum(offset < log.first for _, offset in rows)
        known.had_rows = known.had_rows or int(span["rows"]) > 0
        return rows, deleted

    def _file(
        self, plain: dict[str, Any], seq: int, own: str, kept: dict[str, bytes] | None
    ) -> tuple[NamedFile, str]:
        staged, final = f"{self._stage}{plain['staged']}", f"{self.root}/{plain['final']}"
        _require(plain["staged"].startswith(own), "I9", f"slot {seq} names {plain['staged']}")
        _require(final not in self.fold.files, "I4", f"{final} is named twice")
        content = kept.get(final) if kept is not None else self.look.durable(staged)
        content = content if content is not None else self.look.durable(final)
        if content is None:
            raise ViolationError(f"I8: {staged} of slot {seq} is not durable")
        _require(len(content) == int(plain["size_bytes"]), "I8", f"{staged} is of another size")
        file = NamedFile(seq, staged, final, content)
        seen = self.look.content(final)
        _require(seen is None or kept is not None, "I4", f"{final} is visible before its commit")
        self.fold.files[final] = self.fold.staged[staged] = file
        value = plain["values"][0] if plain["values"] else ""
        if value:
            self.fold.hours.setdefault(value, seq)
        return file, value

    @staticmethod
    def _fits(files: list[tuple[NamedFile, str]], wanted: list[Row], optional: int) -> bool:
        rows = [row for file, _ in files for row in file_rows(file.content)]
        apart = all(
            hour(*row) == value for file, value in files if value for row in file_rows(file.content)
        )
        exact = sorted(rows) == sorted(wanted)
        subset = optional and len(set(rows)) == len(rows) and set(rows) <= set(wanted)
        return apart and bool(exact or subset)

    # Files

    def _visible(self, path: str, content: bytes) -> None:
        file = self.fold.files.get(path)
        if file is None:
            raise ViolationError(f"I4: readers see {path}, which no record names")
        _require(content == file.content, "I4", f"{path} is not the file of slot {file.seq}")
        file.visible = True

    # The end

    def check_end(self, all_files: list[str], partitions: dict[tuple[str, ...], str]) -> None:
        """Row by row against the brokers, as a reader finds them through the metastore."""
        logs = self._broker.topics[self.topic]
        wanted: dict[str, list[Row]] = {CLEAN: [], DIRTY: []}
        _require(len(self.fold.sources) == len(logs), "end", "a source partition is not read")
        for number, log in enumerate(logs):
            known = self.fold.sources[number]
            _require(known.end == log.stable_end, "end", f"[{number}] read up to {known.end}")
            for offset in range(known.start, known.end):
                kind = outcome(number, offset)
                if log.rows[offset] and kind in wanted:
                    wanted[kind].append((number, offset))
        folders = {location: values for values, location in partitions.items()}
        found: dict[str, list[Row]] = {CLEAN: [], DIRTY: []}
        for path in all_files:
            if not path.endswith(".parquet") or path.startswith(self._stage):
                continue
            content = self.look.content(path) or b""
            is_dirty = path.startswith(f"{self._system}/dirty/")
            seen = is_dirty or path.rpartition("/")[0] in folders
            _require(seen, "end", f"no partition shows {path}")
            found[DIRTY if is_dirty else CLEAN] += file_rows(content)
        for kind, rows in found.items():
            self._compare(kind, sorted(rows), sorted(wanted[kind]))

    def _compare(self, kind: str, found: list[Row], wanted: list[Row]) -> None:
        _require(len(found) == len(set(found)), "end", f"{kind} rows are doubled")
        foreign, lost = set(found) - set(wanted), set(wanted) - set(found)
        _require(not foreign, "end", f"{kind} rows that nobody wrote: {sorted(foreign)[:3]}")
        lost = {
            (number, offset) for number, offset in lost if not self._may_be_deleted(number, offset)
        }
        _require(not lost, "end", f"{kind} rows are lost: {sorted(lost)[:3]}")

    def _may_be_deleted(self, number: int, offset: int) -> bool:
        """Retention took it before the first row of its partition was read."""
        return offset < self.early_deleted.get(number, 0)
