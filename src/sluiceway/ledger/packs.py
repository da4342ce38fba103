"""Packs: log folders that a SNAPSHOT covers, each as one file (commit-protocol, Layout).

A pack holds the stored bytes of all records of a folder, a line each, so that the chain can be
tested as before. It is whole, and was read back, before the first of its slots is emptied. From
then on what stands in such a slot is nothing. An old driver's put may still land there, and that
driver reads the pack after its put (`LedgerWriter`).
"""

import gzip
import zlib
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO
from uuid import uuid4

from sluiceway.errors import FileLostError, LedgerCorruptError, StorageUnavailableError
from sluiceway.ledger.layout import LedgerLayout, is_number
from sluiceway.ledger.records import MAX_RECORD_BYTES, decode_record, record_hash
from sluiceway.storage.contract import Storage

_COMPRESSION = 6


class Packs:
    """The packs of one route. Remembers each one it has seen: a pack never goes."""

    def __init__(self, storage: Storage, layout: LedgerLayout) -> None:
        self._storage = storage
        self._layout = layout
        self._known: set[int] = set()

    def covers(self, seq: int) -> bool:
        """Whether a pack holds slot `seq`.

        Raises:
            StorageUnavailableError: The store failed.
        """
        folder = self._layout.folder_of(seq)
        if folder not in self._known and self._exists(folder):
            self._known.add(folder)
        return folder in self._known

    def knows(self, seq: int) -> bool:
        """Whether a pack is known to hold slot `seq`. Reads nothing from the store."""
        return self._layout.folder_of(seq) in self._known

    def lines(self, start: int) -> Iterator[bytes]:
        """Stored bytes of the records from slot `start` to the end of its pack.

        Raises:
            LedgerCorruptError: The pack is damaged.
            StorageUnavailableError: The store failed.
        """
        folder = self._layout.folder_of(start)
        slots = self._layout.slots_of(folder)
        path = self._layout.pack(folder)
        with self._storage.open_read(path) as stream:
            lines = _unpacked(stream, path)
            count = start - slots.start
            for _ in islice(lines, count):
                pass
            for raw in lines:
                count += 1
                if count > len(slots):
                    break
                yield raw
        if count != len(slots):
            held = f"{count} of" if count < len(slots) else "more than its"
            raise LedgerCorruptError(f"the pack holds {held} {len(slots)} records", where=path)

    def pack_next(self, through: int) -> int | None:
        """Pack or finish packing the oldest folder of the log, if a SNAPSHOT covers it.

        Called between epochs by the driver that holds the fence; a call that was cut short is
        finished by the next one. Two drivers may do it at once: both write the same bytes.

        Args:
            through: A SNAPSHOT of all slots below it is in the log.

        Returns:
            The folder's number, or None when there was nothing to do.

        Raises:
            LedgerCorruptError: The records do not follow from each other; nothing was removed.
            StorageUnavailableError: The store failed; the next call goes on.
        """
        logs = self._layout.logs
        names = [each.path.rpartition("/")[2] for log in logs for each in self._storage.list(log)]
        folders = sorted(int(name) for name in names if is_number(name))
        if not folders or self._layout.slots_of(folders[0]).stop > through:
            return None
        folder = folders[0]
        if not self._exists(folder):
            try:
                self._write(folder)
            except LedgerCorruptError:
                # Another driver may have packed and emptied the folder meanwhile.
                if not self._exists(folder):
                    raise
        self._check(folder)
        # A pack that is seen may not be durable: whoever linked it may have died before its sync.
        self._storage.sync_folder(self._layout.packs_of(folder))
        self._storage.sync_folder(self._layout.root)
        for generation in range(len(logs)):
            self._storage.remove(self._layout.log_folder(folder, generation))
        self._drop_staged(folder)
        return folder

    def _exists(self, folder: int) -> bool:
        return self._storage.has_file(self._layout.pack(folder))

    def _write(self, folder: int) -> None:
        staged = f"{self._layout.stage}/pack-{folder:016d}-{uuid4().hex}"
        writer = self._storage.create_staged(staged)
        try:
            with gzip.GzipFile("", "wb", _COMPRESSION, writer.handle(), mtime=0) as packed:
                for seq in self._layout.slots_of(folder):
                    packed.write(self._slot(seq))
            seal = writer.seal()
        except BaseException:
            writer.abort()
            raise
        try:
            self._storage.publish(
                staged,
                self._layout.pack(folder),
                size_bytes=seal.size_bytes,
                crc32c=seal.crc32c,
            )
        except FileLostError:
            # Another driver was here, with another compressor perhaps; what it left is checked.
            self._storage.remove(staged)

    def _drop_staged(self, folder: int) -> None:
        """Remove what attempts at this pack have left: the pack is whole, no second is needed."""
        for status in self._storage.list(self._layout.stage):
            if status.path.rpartition("/")[2].startswith(f"pack-{folder:016d}-"):
                self._storage.remove(status.path)

    def _slot(self, seq: int) -> bytes:
        path = self._layout.record(seq)
        raw = self._storage.read(path)
        if raw is None or not raw.endswith(b"\n") or b"\n" in raw[:-1]:
            raise LedgerCorruptError(
                f"slot {seq} cannot be packed",
                where=path,
                hint="run `sluiceway verify JOB`; nothing was removed",
            )
        return raw

    def _check(self, folder: int) -> None:
        """Read the pack through a fresh handle: every record, chained to its neighbours."""
        slots = self._layout.slots_of(folder)
        path = self._layout.pack(folder)
        before = None if folder == 0 else record_hash(self._raw(slots.start - 1) or b"")
        for seq, raw in zip(slots, self.lines(slots.start), strict=True):
            record = decode_record(raw, path)
            if record.seq != seq or before not in (None, record.prev):
                raise LedgerCorruptError(f"the pack breaks the chain at slot {seq}", where=path)
            before = record_hash(raw)
        after = self._raw(slots.stop)
        if after is None or decode_record(after, path).prev != before:
            raise LedgerCorruptError(f"slot {slots.stop} does not follow the pack", where=path)

    def _raw(self, seq: int) -> bytes | None:
        raw = self._storage.read(self._layout.record(seq))
        # Asked after the read, as ever: another driver may pack and empty that folder meanwhile.
        return next(self.lines(seq)) if self.covers(seq) else raw


def _unpacked(stream: BinaryIO, path: str) -> Iterator[bytes]:
    try:
        with gzip.GzipFile(fileobj=stream, mode="rb") as packed:
            while raw := packed.readline(MAX_RECORD_BYTES + 1):
                yield raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise LedgerCorruptError(f"the pack is damaged: {error}", where=path) from error
    except OSError as error:
        raise StorageUnavailableError(f"cannot read {path}: {error}") from error
