"""The one ordered writer of a route's log."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from uuid import uuid4

from sluiceway import __version__
from sluiceway.errors import (
    FencedError,
    InvariantError,
    LedgerCorruptError,
    StorageFullError,
    StorageUnavailableError,
)
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.generations import TERMS
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.record_formats import needed_format
from sluiceway.ledger.records import (
    FORMAT,
    Body,
    FenceRecord,
    Record,
    decode_record,
    encode_record,
    record_hash,
)
from sluiceway.storage.contract import PutResult, Storage

SIZE_BYTES = 128 << 10
"""More than nearly all records; a thousand routes hold 128 MiB."""


class SlotReserve:
    """One route's reserve. Owned by its writer."""

    def __init__(self, storage: Storage, layout: LedgerLayout) -> None:
        self._storage = storage
        self._path = layout.reserve
        self._held = False

    def hold(self) -> None:
        """Make it, unless it is there. Called after each commit; never fails."""
        if self._held:
            return
        try:
            status = self._storage.status(self._path)
            if status is None or status.size_bytes != SIZE_BYTES:
                # Bytes that no file system can make smaller.
                self._storage.overwrite(self._path, os.urandom(SIZE_BYTES))
            self._held = True
        except StorageUnavailableError:
            # A disk that is full already has no room to set aside; the next commit tries again.
            return

    def give_up(self) -> bool:
        """Make room for a record; whether there was any to make.

        Raises:
            StorageUnavailableError: The store failed.
        """
        # Also a record that an earlier driver has laid aside.
        if self._storage.status(self._path) is None:
            return False
        self._storage.remove(self._path)
        self._held = False
        return True


_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Committed:
    """Where a record landed."""

    seq: int
    attempts: int


OnWait = Callable[[int, StorageUnavailableError], None]
"""Called before each pause with the number of failed tries; may raise to give up."""


class LedgerWriter:
    """Puts records into the next slot, in order, one at a time. Owned by one driver.

    Attributes:
        ledger: What it writes to.
        fold: State up to the tail as this writer knows it.
        on_effects: Called with each `set_effects`, by the thread that sets it.
    """

    def __init__(self, ledger: LedgerLog, fold: Fold, on_wait: OnWait) -> None:
        self.log = ledger
        self._on_wait = on_wait
        self._reserve = SlotReserve(ledger.storage, ledger.layout)
        self._effects_through = fold.effects_through
        self._durable_through = 0
        self.on_effects: Callable[[int], None] | None = None
        self.fold = fold
        self.term = fold.term

    def fence(self, body: FenceRecord, on_lost: Callable[[], None]) -> Committed:
        """Take the ledger over. Called once, at start.

        Args:
            body: The fence.
            on_lost: Called when another record took the slot, before the next try at a later one;
                raises when a live driver holds the lease now.
        """
        adopted = body.adopted
        while True:
            term = self.fold.term + 1 if adopted is None else adopted.generation * TERMS
            # It never falls, and the log may have grown since the fence was made.
            body = replace(
                body,
                format=max(body.format, self.fold.format),
                min_reader=max(body.min_reader, self.fold.format),
            )
            committed = self._try_put(body, term)
            if committed is not None:
                self.term = self.fold.term
                return committed
            self.log.advance(self.fold)
            on_lost()

    def commit(self, body: Body | Callable[[Fold], Body]) -> Committed:
        """Land a record in the next slot: the commit point of what it describes.

        Called on the driver, in order, after everything that the record names is durable.

        Args:
            body: The record's body, or how it is made; see `commit_made`.

        Raises:
            SluicewayError: As in `commit_made`.
        """
        committed = self.commit_made(body if callable(body) else lambda _: body)
        if committed is None:
            raise InvariantError("a record that was there is gone")
        return committed

    def commit_made(self, build: Callable[[Fold], Body | None]) -> Committed | None:
        """Land a record that is made from the fold at its own slot, again after each lost slot.

        Called as `commit` is.

        Args:
            build: The record; None when there is nothing to put any more.

        Raises:
            FencedError: Another driver has taken the ledger over. Stop; touch nothing.
            InvariantError: The record does not follow from the log before it.
            LedgerCorruptError: The slot holds something that is no record.
        """
        while True:
            self._refuse_if_fenced()
            body = build(self.fold)
            if body is None:
                return None
            committed = self._try_put(body, self.term)
            if committed is not None:
                return committed
            try:
                self.log.advance(self.fold)
            except StorageUnavailableError:
                # What was read before that may hold another's fence.
                self._refuse_if_fenced()
                raise

    def read_new(self) -> None:
        """Read what others have put, if anything. Called when epochs fail before their commit.

        A driver that was fenced may find its staged files collected, epoch after epoch.

        Raises:
            FencedError: Another driver has taken the ledger over.
            StorageUnavailableError: The store failed.
        """
        self.log.advance(self.fold)
        self._refuse_if_fenced()

    def _refuse_if_fenced(self) -> None:
        # Asked of the fold, not of what was read now: a failed read may have come between.
        if self.fold.term != self.term and self.fold.fence is not None:
            fence = self.fold.fence
            raise fenced_by(self.fold.term, fence.host, fence.pid)

    def set_published(self, through: int | None = None) -> None:
        """All files of all records below `through` are at their final names; None: of all so far.

        Called by the thread that puts the records; each one says so from then on.
        """
        self.fold.set_published_through(self.fold.next_seq if through is None else through)

    def set_effects(self, through: int) -> None:
        """The catalog has what all records below `through` ask for."""
        self._effects_through = max(self._effects_through, through)
        if self.on_effects is not None:
            self.on_effects(through)

    def _try_put(self, body: Body, term: int) -> Committed | None:
        """Put into the next slot; None when another record stands there."""
        record = Record(
            engine=__version__,
            seq=self.fold.next_seq,
            term=term,
            prev=self.fold.head,
            id=uuid4().hex,
            published_through=self.fold.published_through,
            effects_through=self._effects_through,
            body=body,
            format=self._format_of(body),
        )
        self.fold.check(record)
        raw = encode_record(record)
        # What cannot be read back must not be written: it would end every later start.
        decode_record(raw, self.log.layout.record(record.seq))
        attempts = self._put_until_known(record, raw)
        if attempts is None:
            return None
        self._durable_through = record.seq + 1
        self.fold.apply(record, raw)
        self._reserve.hold()
        return Committed(record.seq, attempts)

    def _format_of(self, body: Body) -> int:
        declared = body.format if isinstance(body, FenceRecord) else FORMAT
        return max(self.fold.format, needed_format(body), declared)

    def _put_until_known(self, record: Record, raw: bytes) -> int | None:
        """Repeat the same bytes until the slot is known to hold them or another's."""
        path = self.log.layout.record(record.seq)
        pause_s = _FIRST_PAUSE_S
        attempts = 0
        while True:
            attempts += 1
            try:
                if not self._follows(record):
                    return None
                self._keep_record_before(record.seq)
                result = self.log.storage.put_if_absent(path, raw, tmp_folder=self.log.layout.stage)
                if result is PutResult.CREATED and self.log.packs.covers(record.seq):
                    # The slot was decided, packed and emptied long ago: others have gone on.
                    self.log.storage.remove(path)
                    return None
            except StorageUnavailableError as error:
                if isinstance(error, StorageFullError) and self._made_room():
                    continue
                self._on_wait(attempts, error)
                time.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            else:
                return attempts if result is PutResult.CREATED else None

    def _made_room(self) -> bool:
        try:
            return self._reserve.give_up()
        except StorageUnavailableError:
            return False

    def _keep_record_before(self, seq: int) -> None:
        """Make the record durable that this one follows, unless it is this writer's own.

        Whoever put it may have died before syncing its name. A power cut may then take it and
        leave a later one of the same folder, and the log has a hole.
        """
        if seq in (0, self._durable_through) or self.log.packs.knows(seq - 1):
            return
        self.log.storage.sync_folder(self.log.layout.record_folder(seq - 1))
        self._durable_through = seq

    def _follows(self, record: Record) -> bool:
        """Never put after a record that is gone, or into a log that was created again.

        Returns:
            False when the slot is in a pack, so that another record was there first.
        """
        if record.seq == 0:
            return True
        before = self.log.read_bytes(record.seq - 1)
        if self.log.packs.knows(record.seq):
            return False
        path = self.log.layout.record(record.seq - 1)
        if before is None:
            raise LedgerCorruptError(
                f"slot {record.seq - 1} was there and is gone: the ledger was removed or its "
                "store is not mounted",
                where=path,
                hint="bring it back, from a backup if need be; nothing was committed after it",
            )
        if record_hash(before) != record.prev:
            raise LedgerCorruptError(
                f"slot {record.seq - 1} holds another record than this driver read: the log was "
                "created again",
                where=path,
                hint="this driver has stopped; whoever made the new log goes on",
            )
        return True


def fenced_by_room(room: str, generation: int) -> FencedError:
    """The error for a driver of a log that another room has adopted a copy of."""
    error = FencedError(
        f"room {room} has adopted a copy of this table, as generation {generation}",
        hint="this log is an archive: the job goes on there; to come back, copy that table to a "
        "new location and adopt it here",
    )
    return error.with_report({"room": room, "generation": generation}, ("sluiceway status JOB",))


def fenced_by(term: int, host: str, pid: int) -> FencedError:
    """The error for a driver that met the fence of another, who has this term."""
    error = FencedError(
        f"term {term} was taken over by {host} pid {pid}",
        hint="this driver has stopped and wrote nothing after that; the other one goes on",
    )
    evidence = {"host": host, "pid": pid, "term": term}
    return error.with_report(evidence, ("sluiceway status JOB",))
