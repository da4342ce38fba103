"""Judges every change of the store; one file because all promises read one state.

Written against the protocol's pages, not against the product: records are read as plain JSON and
folded again here, files are compared row by row with what the brokers had.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sim.broker import CLEAN, DIRTY, Broker, Log, outcome
from sim.catalog import Shown
from sim.folded import Folded, NamedFile, Source
from sim.held import Held, Look, lines_of
from sim.outside import Outside
from sim.places import Place, ViolationError
from sim.places import require as _require
from sim.read_rows import Row, compare_rows, file_rows
from sim.readiness import Seen

if TYPE_CHECKING:
    from sim.scheduler import Process


def _number(topic_id: str) -> int:
    return int(topic_id.rpartition("#")[2])


class Monitor:
    """Of one table."""

    def __init__(
        self,
        root: str,
        topic: str,
        held: Held,
        broker: Broker,
        shown: Shown,
        outside: Outside,
    ) -> None:
        self.root = root
        self.topic = topic
        self.held = held
        self._system = held.log.removesuffix("/log/")
        self._log = held.log
        self.stage = f"{self._system}/stage/"
        self._broker = broker
        self.seen = Seen(broker)
        self._shown = shown
        self.fold = Folded()
        self.acknowledged = 0
        self.reset_into_nothing = False
        # Of any fence that ever stood, also where a power cut took it again.
        self.greatest_term = 0
        # Staged files that their writer has not sealed -> the process that writes them.
        self._unsealed: dict[str, object] = {}
        self.acting: Callable[[], Process | None] = lambda: None
        self.ever_cut: Callable[[], bool] = lambda: False
        self.rows_of_record: Callable[[Row], int] = lambda _: 1
        self.joined: Callable[[dict[str, Any]], str] = lambda _: ""
        self.outside = outside
        self.max_unpublished = 100
        self._with_files: list[int] = []
        self.snapshots = self.packs = self.sealings = self.aside = 0
        self.broken = ""
        self._seen: set[str] = set()

    @property
    def look(self) -> Look:
        """At the store."""
        return self.held.look

    # Changes. The first promise that is broken is kept: what makes a change is the product, which
    # must not be able to catch it.

    def named(self, path: str, content: bytes) -> None:
        """A name stands for a file now."""
        self._keep(lambda: self._named(path, content))

    def _named(self, path: str, content: bytes) -> None:
        self._from_outside(path, "is put")
        if path.startswith(self._log):
            self._record(path, content)
        elif self.held.is_pack(path):
            self._packed(path, content)
        elif path.startswith(self.root) and not path.startswith(self.stage):
            relative = path[len(self.root) + 1 :]
            # Names that begin with a dot or lie directly in the ledger's folder are advice.
            if relative.endswith(".parquet"):
                self._visible(path, content)

    def _packed(self, path: str, content: bytes) -> None:
        slots = self.held.slots_of(path)
        records = self.fold.records[slots.start : slots.stop]
        _require(lines_of(content) == records, "I1", f"{path} is not the records of its slots")
        _require(slots.stop < len(self.fold.records), "I1", f"{path}: nothing follows it")
        through = self.fold.snapshot_through
        _require(slots.stop <= through, "rule 19", f"{path}: the snapshot ends at {through}")
        self.packs += 1

    def unnamed(self, path: str) -> None:
        """A name is gone."""
        self._keep(lambda: self._unnamed(path))

    def _from_outside(self, path: str, what: str) -> None:
        if self.outside.is_outside(path):
            self.outside.changed(self.acting(), f"{path} {what}")

    def _is_answer_taken(self, path: str) -> bool:
        """Whether a command takes the answer it got; it may have been a driver for a while."""
        actor = self.acting()
        is_command = actor is not None and not actor.name.startswith("driver")
        return is_command and path.endswith(".answer.json")

    def told_metastore(self, old: str, new: str) -> None:
        """The metastore sends readers from one folder to another; empty is none."""
        self.outside.moved(self.acting(), old, new)
        what = f"readers go to {new or 'nothing'}"
        self._keep(lambda: self.outside.changed(self.acting(), what))
        self._keep(lambda: self._published_where(new))

    def _published_where(self, folder: str) -> None:
        """Readers are sent to a partition behind its files, not before them."""
        for place in self.fold.places.by_name.values():
            if f"{self.root}/{place.folder}" != folder:
                continue
            for path in place.live:
                file = self.fold.files[path]
                there = file.seq != place.since or file.visible or file.dead
                _require(there, "F5", f"{folder} is shown before {path} has its name")

    def _unnamed(self, path: str) -> None:
        if not self._is_answer_taken(path):
            self._from_outside(path, "is removed")
        if path.startswith(self._log) and (seq := self._slot(path)) < len(self.fold.records):
            # In a pack, what stood in the slot is nothing.
            packed = self.held.packed(seq)
            _require(packed == self.fold.records[seq], "I1", f"record {path} was removed")
        if self.held.is_pack(path):
            _require(False, "I1", f"{path} was removed")  # noqa: FBT003
        if path in self.fold.files:
            _require(self.fold.files[path].dead, "I8", f"published file {path} was removed")
            seen = self._shown.now(path.rpartition("/")[0])
            _require(not seen, "rule 16", f"{path} was removed, readers are sent there")
            self.fold.files[path].gone = True
            self.outside.removed(self.acting(), path.rpartition("/")[0])
        if path.startswith(self.stage) and path.endswith(".parquet"):
            over = self._is_over(path[len(self.stage) :]) or self._is_taken_back(path)
            _require(over, "garbage", f"{path} is gone, a record may still name it")
        file = self.fold.staged.get(path)
        if file is not None and not file.dead:
            kept = self.look.durable(file.final)
            _require(kept == file.content, "I8", f"{path} removed before {file.final} is durable")

    def _is_over(self, name: str) -> bool:
        """Whether no record can name this staged file any more."""
        if name.startswith("i"):
            return int(name[1:].partition("-")[0]) in self.fold.places.ended
        term, epoch = map(int, name.split("-")[:2])
        return term < self.fold.term or (term == self.fold.term and epoch <= self.fold.epoch)

    def writes(self, path: str) -> None:
        """A staged file is begun. Only a sealed one is ever reported, and so named."""
        self._unsealed[path] = self.acting()

    def sealed(self, path: str) -> None:
        """Its writer has heard that it is closed."""
        self._unsealed.pop(path, None)

    def _is_taken_back(self, path: str) -> bool:
        """Whether its own writer, who could not finish it, removes it; perhaps as its last act."""
        if path not in self._unsealed:
            return False
        acting = self.acting()
        return acting is None or acting is self._unsealed[path]

    def acknowledge(self, path: str) -> None:
        """The store has promised a record to its writer."""
        self._keep(lambda: self._acknowledge(path))

    def _acknowledge(self, path: str) -> None:
        if not path.startswith(self._log):
            return
        seq = self._slot(path)
        packed = self.held.packed(seq)
        if packed is not None and packed == self.fold.records[seq]:
            # Decided long ago; whoever put it looks for the pack next.
            return
        _require(seq < len(self.fold.records), "I1", f"record {seq} was promised and is not there")
        for below in range(max(self.acknowledged - 1, 0), seq + 1):
            kept = self.held.durable(below)
            _require(kept == self.fold.records[below], "I1", f"record {below} is not durable")
        self.acknowledged = max(self.acknowledged, seq + 1)

    def told(self, seq: int, kind: str, term: int) -> None:
        """A driver says that its record is in the log."""
        records = self.fold.records
        found = json.loads(records[seq]) if seq < len(records) else {}
        is_so = (found.get("type"), found.get("term")) == (kind, term)
        self._keep(lambda: _require(is_so, "I1", f"slot {seq} is said to be {kind} of {term}"))

    def _keep(self, look: Callable[[], None]) -> None:
        try:
            look()
        except ViolationError as error:
            self.broken = self.broken or str(error)

    def after_power_cut(self) -> None:
        """All that was promised is still there; an unpromised last record may be gone."""
        records = self.fold.records
        before = list(records)
        while records and self.held.seen(len(records) - 1) != records[-1]:
            _require(len(records) > self.acknowledged, "I1", f"record {len(records) - 1} is lost")
            records.pop()
        for seq, raw in enumerate(records):
            _require(self.held.seen(seq) == raw, "I1", f"record {seq} is lost, the next is not")
        if len(records) < len(before):
            visible = {final for final, file in self.fold.files.items() if file.visible}
            self._fold_again(records)
            for final, file in self.fold.files.items():
                file.visible = final in visible
        for file in self.fold.files.values():
            found = self.look.content(file.final)
            if file.dead:
                file.gone = found is None
                continue
            file.visible = found is not None
            whole = file.content in (found, self.look.content(file.staged))
            _require(whole, "I8", f"{file.final} of slot {file.seq} is lost")
            _require(found in (None, file.content), "I8", f"{file.final} is torn")

    def _fold_again(self, records: list[bytes]) -> None:
        contents = {final: file.content for final, file in self.fold.files.items()}
        self._seen = {final for final, file in self.fold.files.items() if file.visible}
        self.fold = Folded()
        for raw in records:
            self._take(json.loads(raw), raw, contents)

    # Records

    def _slot(self, path: str) -> int:
        return self.held.slot_of(path)

    def _record(self, path: str, raw: bytes) -> None:
        seq, known = self._slot(path), self.fold.records
        if seq < len(known):
            # What comes into a slot that was emptied belongs to no record.
            nobodys = self.held.packed(seq) == known[seq]
            _require(known[seq] == raw or nobodys, "I1", f"slot {seq} was written twice")
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
            self.greatest_term = max(self.greatest_term, fold.term)
            self.outside.note_fence(fold.term)
            fold.lanes.ledger = body["ledger"]
        _require(plain["term"] == fold.term, "I3", f"slot {seq} is of term {plain['term']}")
        if kept is None:
            self._claims(plain, seq)
            self._bound(kind, plain["published_through"], seq)
        fold.published_through = max(fold.published_through, plain["published_through"])
        if kind == "SOURCES":
            self._sources(body, seq)
        elif kind == "DATA":
            self._data(plain, seq, kept)
        elif kind == "LANE":
            fold.lanes.open_lane(body, seq, _require)
        elif kind == "LANE_DATA":
            self._lane_data(plain, seq, kept)
        elif kind == "SNAPSHOT":
            self._snapshot(body, seq, again=kept is not None)
        elif kind == "RESET":
            self._reset(body, seq, again=kept is not None)
        elif kind == "SOURCE_CHANGE":
            self._source_change(body, seq, again=kept is not None)
        else:
            self._partitions(kind, body, seq, kept)
        fold.after_fence = kind == "FENCE"
        fold.records.append(raw)

    def _bound(self, kind: str, through: int, seq: int) -> None:
        """Not more is committed behind what is published than the job file allows."""
        if kind in ("DATA", "LANE_DATA"):
            self._with_files = [each for each in self._with_files if each >= through] + [seq]
            some = len(self._with_files) <= self.max_unpublished
            _require(some, "F4", f"slot {seq}: {len(self._with_files)} records are unpublished")

    def _claims(self, plain: dict[str, Any], seq: int) -> None:
        """Published and applied through there: is it so?"""
        through = plain["published_through"]
        if through > self.fold.published_through:
            for file in self.fold.files.values():
                done = file.seq >= through or file.visible or file.dead
                _require(done, "I5", f"slot {seq} calls {file.final} published")
        for place in self.fold.places.by_name.values():
            folder = f"{self.root}/{place.folder}"
            owed = place.expired or place.since >= plain["effects_through"]
            is_new = self._is_hidden(place) or place.announced >= plain["effects_through"]
            owed = owed or (self.seen.timed is not None and is_new)
            there = owed or self._shown.ever(place.value, folder)
            _require(there, "rule 16", f"slot {seq} calls partition {place.value} applied")

    def _is_hidden(self, place: Place) -> bool:
        """Whether readers may not see it yet, or need not."""
        timed, closed = self.seen.timed, self.fold.places.closed
        # It may have been announced while it had no row.
        announced = place.announced >= 0 or closed.get(f"hr={place.value}", 0) > 0
        return timed is not None and timed.on_ready and not announced

    def _partitions(
        self, kind: str, body: dict[str, Any], seq: int, kept: dict[str, bytes] | None
    ) -> None:
        if kind == "REPLACE":
            own = self.fold.places.staged(body["intent"])
            added = [self._file(file, seq, own, kept)[0] for file in body["added"]]
            self.fold.places.replace(body, added, seq, self.root)
        elif kind == "SWAP":
            own = self.fold.places.staged(body["intent"])
            for each in body["partitions"]:
                new, carried = (
                    [self._file(file, seq, own, kept)[0] for file in each.get(part, ())]
                    for part in ("added", "carried")
                )
                self.fold.places.swap(body, each, (new, carried), seq, self.root)
            self.fold.places.end(body["intent"], seq)
        else:
            self.fold.take(kind, body, seq)

    def _sources(self, body: dict[str, Any], seq: int) -> None:
        for pin in body["partitions"]:
            number, start = pin["partition"], int(pin["start"])
            where = f"slot {seq}: {pin['topic']}[{number}]"
            if pin["retired"] or pin["how"] == "resumed":
                self._retire(pin, body, where)
                continue
            _require(number not in self.fold.sources, "rule 5", f"{where} is pinned again")
            log = self._broker.by_id[pin["topic_id"]][number]
            if pin["how"] in ("earliest", "discovered"):
                _require(start <= log.first, "rule 5", f"{where} skips what can be read: {start}")
            _require(0 <= start <= len(log.known_rows), "rule 5", f"{where} starts at {start}")
            self.fold.sources[number] = Source(pin["topic_id"], start, start, pin["how"])

    def _retire(self, pin: dict[str, Any], body: dict[str, Any], where: str) -> None:
        """An operator gives a source partition up, or a driver finds it again."""
        known = self.fold.sources.get(pin["partition"])
        if known is None:
            raise ViolationError(f"rule 5: {where} was never pinned")
        _require(known.retired is not pin["retired"], "rule 5", f"{where} is so already")
        _require(int(pin["start"]) == known.end, "rule 5", f"{where} goes on at {pin['start']}")
        by_operator = bool(body.get("operator")) and self.fold.after_fence
        _require(by_operator or not pin["retired"], "rule 22", f"{where} is given up by nobody")
        known.retired = pin["retired"]
        self.fold.marks.idle.discard(pin["partition"])

    def _snapshot(self, body: dict[str, Any], seq: int, *, again: bool) -> None:
        fold, through = self.fold, body["through"]
        _require(fold.snapshot_through < through <= seq, "rule 19", f"slot {seq} goes back")
        _require(fold.published_through >= through, "rule 19", f"slot {seq}: not all is published")
        fold.snapshot_through = through
        fold.places.seal(body.get("sealed", ()), seq, self.seen.timed is not None)
        self.sealings += 0 if again else len(body.get("sealed", ()))
        self.snapshots += not again
        raw = self.look.content(f"{self.stage}snapshots/{body['side']}")
        if again or raw is None or hashlib.sha256(raw).hexdigest() != body["sha256"]:
            # Side files may vanish, or be altered; whoever reads them has to see it.
            return
        side = json.loads(raw)
        ends = {each["partition"]: int(each["end"]) for each in side["sources"]}
        head = hashlib.sha256(fold.records[through - 1]).hexdigest()
        _require(
            (side["next_seq"], side["head"]) == (through, head), "rule 19", f"slot {seq}: head"
        )
        if through == seq:
            now = {number: known.end for number, known in fold.sources.items()}
            _require(ends == now, "rule 19", f"slot {seq}: the side file has other ends")
            fold.lanes.check_side_file(side, seq, _require)

    def _reset(self, body: dict[str, Any], seq: int, *, again: bool) -> None:
        for each in body["partitions"]:
            known = self.fold.sources[each["partition"]]
            new_end = int(each["new_end"])
            accepted = "gap" if new_end >= known.end else "twice"
            _require(new_end != known.end or known.end_epoch is not None, "rule 22", "no move")
            where = f"slot {seq}: [{each['partition']}]"
            _require(each["accepted"] == accepted, "rule 22", f"{where} is no {each['accepted']}")
            self._next_generation(each, known.topic_id, seq, again=again)

    def _source_change(self, body: dict[str, Any], seq: int, *, again: bool) -> None:
        for each in body["partitions"]:
            known = self.fold.sources[each["partition"]]
            where, new = f"slot {seq}: [{each['partition']}]", each["new_topic_id"]
            _require(each["old_topic_id"] == known.topic_id, "rule 22", f"{where} read another log")
            # Ids are the topic's name and which one of that name it is.
            is_later = new in self._broker.by_id and _number(new) > _number(known.topic_id)
            _require(is_later, "rule 22", f"{where} goes on in {new}")
            self._next_generation(each, new, seq, again=again)

    def _next_generation(
        self, each: dict[str, Any], topic_id: str, seq: int, *, again: bool
    ) -> None:
        _require(self.fold.after_fence, "rule 22", f"slot {seq} has no fence of its own")
        known = self.fold.sources[each["partition"]]
        where, end = f"slot {seq}: [{each['partition']}]", int(each["new_end"])
        _require(int(each["old_end"]) == known.end, "rule 22", f"{where} left {each['old_end']}")
        known.generation += 1
        _require(each["generation"] == known.generation, "rule 22", f"{where} generation")
        log = self._broker.by_id[topic_id][each["partition"]]
        _require(0 <= end <= len(log.known_rows), "rule 22", f"{where} goes to {end}")
        if not again and end < log.first:
            # The record was under way while retention went on.
            self.reset_into_nothing = True
        known.passages.append((known.topic_id, known.start, known.end))
        known.topic_id, known.start, known.end = topic_id, end, end
        known.how, known.had_rows, known.end_epoch = "reset", False, None
        self.fold.marks.idle.discard(each["partition"])

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
                    wanted[kind] += [row] * (self.rows_of_record(row) if kind == CLEAN else 1)
        counts = {name: int(value) for name, value in body["counts"].items()}
        outcomes = sum(v for name, v in counts.items() if name not in ("read", "expanded"))
        outcomes -= counts.get("expanded", 0)
        _require(counts["read"] == outcomes == sum(int(s["rows"]) for s in body["ranges"]), "P6",
                 f"slot {seq} does not balance")  # fmt: skip
        own = f"{plain['term']}-{body['epoch']}-"
        clean = [self._file(file, seq, own, kept) for file in body["files"]]
        dirty = self._dirty_files(body, seq, own, kept)
        late = self._late_files(body, seq, own, kept)
        fold.mark(body, seq, self.seen)
        reached = fold.places.data(body, clean, seq, self.root)
        fold.places.late(late, seq)
        told = body.get("late_rows", {})
        if kept is not None:
            return
        self._joined(body, seq)
        # Never silent: whatever reaches a closed partition, or goes aside, is counted.
        counted = [int(told.get(name, 0)) for name in ("reopen", "side")]
        _require(counted == [reached, counts["late"]], "P6", f"slot {seq}: {reached} late, {told}")
        self.seen.fit([*clean, *late], wanted[CLEAN], f"slot {seq}: rows do not fit", optional)
        self._note_aside(late)
        self.seen.fit(dirty, wanted[DIRTY], f"slot {seq}: dirty do not fit", optional)
        fits = read - optional <= counts["read"] <= read
        _require(fits, "P6", f"slot {seq} read {counts['read']}, the log had {read}")

    def _joined(self, body: dict[str, Any], seq: int) -> None:
        problem = self.joined(body)
        _require(not problem, "C22", f"slot {seq}: {problem}")

    def _note_aside(self, late: list[tuple[NamedFile, str]]) -> None:
        self.aside += sum(f"hr={value}" in self.fold.places.sealed for _, value in late)

    def _dirty_files(
        self, body: dict[str, Any], seq: int, own: str, kept: dict[str, bytes] | None
    ) -> list[tuple[NamedFile, str]]:
        found = [self._file(file, seq, own, kept) for file in body["dirty_files"]]
        for file, _ in found:
            self.fold.lanes.add_file(seq, file.final, file_rows(file.content), file)
        return found

    def _late_files(
        self, body: dict[str, Any], seq: int, own: str, kept: dict[str, bytes] | None
    ) -> list[tuple[NamedFile, str]]:
        found = [self._file(file, seq, own, kept) for file in body.get("late_files", ())]
        for file, _ in found:
            self.fold.lanes.add_file(seq, file.final, file_rows(file.content), file, "late")
        return found

    def _lane_data(self, plain: dict[str, Any], seq: int, kept: dict[str, bytes] | None) -> None:
        fold, body = self.fold, plain["body"]
        _require(body["epoch"] > fold.epoch, "I9", f"slot {seq} has epoch {body['epoch']}")
        fold.epoch = body["epoch"]
        wanted = fold.lanes.consume(body, seq, _require)
        own = f"{plain['term']}-{body['epoch']}-"
        clean = [self._file(file, seq, own, kept) for file in body["files"]]
        dirty = self._dirty_files(body, seq, own, kept)
        late = self._late_files(body, seq, own, kept)
        fold.places.data({**body, "closed": []}, clean, seq, self.root)
        fold.places.late(late, seq)
        if kept is None:
            self._joined(body, seq)
            self.seen.fit([*clean, *late], wanted[CLEAN], f"slot {seq}: rows of a lane")
            self._note_aside(late)
            self.seen.fit(dirty, wanted[DIRTY], f"slot {seq}: rows of a lane")

    def _range(self, span: dict[str, Any], seq: int) -> tuple[list[Row], int]:
        """Rows of the range; how many of them retention may have taken before they were read."""
        number, start, end = span["partition"], int(span["start"]), int(span["end"])
        known = self.fold.sources.get(number)
        where = f"slot {seq}: {span['topic']}[{number}]"
        if known is None or known.retired:
            raise ViolationError(f"rule 5: {where} is not pinned")
        _require(start == known.end, "I2", f"{where} starts at {start}, end is {known.end}")
        _require(end >= start, "I2", f"{where} goes back to {end}")
        _require(span["topic_id"] == known.topic_id, "P7", f"{where} is another topic")
        covered = end - start == int(span["rows"]) + int(span["gaps"])
        _require(covered, "P6", f"{where} has {span['rows']} rows and {span['gaps']} gaps")
        known.end = end
        log = self._broker.by_id[known.topic_id][number]
        there = log.known_rows
        _require(end <= max(log.stable_end, len(there) if log.lost else 0), "P7",
                 f"{where} was read past the log's end")  # fmt: skip
        self._end_epoch(known, span, log, where)
        rows = [(number, offset) for offset in range(start, end) if there[offset]]
        deleted = 0
        if not known.had_rows and known.how in ("earliest", "discovered"):
            deleted = sum(offset < log.first for _, offset in rows)
        known.had_rows = known.had_rows or int(span["rows"]) > 0
        return rows, deleted

    def _end_epoch(self, known: Source, span: dict[str, Any], log: Log, where: str) -> None:
        """The epoch of an end is one of which all below it was, at most."""
        if known.end > int(span["start"]):
            known.end_epoch = span.get("end_epoch")
        whole = known.end <= len(log.rows) and not self.ever_cut()
        if not whole or known.end == int(span["start"]):
            return
        newest = log.epochs[known.end - 1]
        told = known.end_epoch
        _require(told is not None or not log.rows[known.end - 1], "P7",
                 f"{where} ends behind a row and has no leader epoch")  # fmt: skip
        fits = told is None or newest <= told <= log.leader_epoch
        _require(fits, "P7", f"{where} has leader epoch {told}, its end {newest}")

    def _file(
        self, plain: dict[str, Any], seq: int, own: str, kept: dict[str, bytes] | None
    ) -> tuple[NamedFile, str]:
        staged, final = f"{self.stage}{plain['staged']}", f"{self.root}/{plain['final']}"
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
        file.visible = kept is not None and final in self._seen
        self.fold.files[final] = self.fold.staged[staged] = file
        return file, plain["values"][0] if plain["values"] else ""

    # Files

    def _visible(self, path: str, content: bytes) -> None:
        file = self.fold.files.get(path)
        if file is None:
            raise ViolationError(f"I4: readers see {path}, which no record names")
        _require(content == file.content, "I4", f"{path} is not the file of slot {file.seq}")
        if file.dead and file.gone:
            # A request that was under way may still arrive, where no reader looks.
            own = self._shown.by_owner() or self._shown.now(path.rpartition("/")[0])
            _require(not own, "I5", f"{path} comes back, it was {file.dead}")
        file.visible, file.gone = True, False

    # The end

    def check_end(self, all_files: list[str], partitions: dict[tuple[str, ...], str]) -> None:
        """Row by row against the brokers, as a reader finds them through the metastore."""
        logs = self._broker.topics[self.topic]
        wanted: dict[str, list[Row]] = {CLEAN: [], DIRTY: []}
        _require(len(self.fold.sources) == len(logs), "end", "a source partition is not read")
        for number, log in enumerate(logs):
            known = self.fold.sources[number]
            _require(known.end == log.stable_end, "end", f"[{number}] read up to {known.end}")
            for topic_id, start, end in (
                *known.passages,
                (known.topic_id, known.start, known.end),
            ):
                there = self._broker.by_id[topic_id][number].known_rows
                for offset in range(start, end):
                    kind = outcome(number, offset)
                    if there[offset] and kind in wanted:
                        row = (number, offset)
                        times = self.rows_of_record(row) if kind == CLEAN else 1
                        wanted[kind] += [row] * times
        self.fold.lanes.check_end(Counter(wanted[DIRTY]), _require)
        wanted[CLEAN] += self.fold.lanes.written.elements()
        wanted[DIRTY] += self.fold.lanes.again.elements()
        self.fold.places.check_shown(partitions, self.root, self._is_hidden)
        self.fold.check_end(self.seen.timed)
        places = self.fold.places.by_name.values()
        hidden = {f"{self.root}/{each.folder}" for each in places if self._is_hidden(each)}
        folders = {location: values for values, location in partitions.items()}
        found: dict[str, list[Row]] = {CLEAN: [], DIRTY: []}
        for path in all_files:
            if not path.endswith(".parquet") or path.startswith(self.stage):
                continue
            content = self.look.content(path) or b""
            if path in self.fold.files and self.fold.files[path].dead:
                continue
            is_dirty = path.startswith(f"{self._system}/dirty/")
            is_late = path.startswith(f"{self._system}/late/")
            seen = is_dirty or is_late or path.rpartition("/")[0] in {*folders, *hidden}
            _require(seen, "end", f"no partition shows {path}")
            found[DIRTY if is_dirty else CLEAN] += file_rows(content)
        expired = {CLEAN: self.fold.places.expired_rows, DIRTY: self.fold.lanes.let_go()}
        for kind, rows in found.items():
            compare_rows(kind, Counter(rows), Counter(wanted[kind]) - expired[kind])
