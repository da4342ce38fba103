"""Resume positions by origin headers: a standby reads copies along, and keeps where each begins.

The place of a source partition is the first offset of the copy whose row is not in the table. It
is a lower bound at any time: committed ends only rise, and the driver drops the copies after it
that the table has.
"""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from sluiceway.errors import OffsetsLostError, SluicewayError
from sluiceway.jobfile.compile.room_rule import MirrorRule
from sluiceway.ledger.operator_records import ORIGIN_HEADER, ORIGIN_LOG, OriginLog
from sluiceway.rooms.followed_copy import FollowedCopy
from sluiceway.rooms.positions import (
    BEGINNINGS,
    CopiedLog,
    PositionMethod,
    ResumePosition,
    refused_position,
)
from sluiceway.sources.contract import SourceBatch, SourcePartition, Split, SplitReader
from sluiceway.sources.registry import SourceAccess, open_reader
from sluiceway.types.strict_json import BigInt

_READ_S: Final = 0.5
_AGAIN_S: Final = 5.0
_FIRST_ROWS_S: Final = 10.0
_IDLE_S: Final = 120.0

OpenReader = Callable[[list[Split]], SplitReader]


class OriginFollower:
    """Reads the copies of a route along, in a thread of its own. Lives as long as its standby.

    The thread ends when no position was asked for in two minutes, and begins again.

    Args:
        open_reader: Opens a reader of this room's logs.
        to_end: Whether `copied` is needed for all rows.
    """

    def __init__(self, open_reader: OpenReader, *, to_end: bool = False) -> None:
        self._open_reader = open_reader
        self._to_end = to_end
        self._copies: dict[SourcePartition, FollowedCopy] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._used_at = 0.0
        self._closing = False

    def find(self, rule: MirrorRule, log: CopiedLog) -> ResumePosition | None:
        """The position of a copy. Called every 30 s by a standby, and around its fence.

        Args:
            rule: What copies the log.
            log: The source partition.

        Returns:
            None where the mirror adds no header.
        """
        if rule.origin is None:
            return None
        known = log.known
        name = rule.origin_name(known.cluster_id, log.partition.topic, log.partition.partition)
        origin = OriginLog(rule.origin, name, known.topic_id, BigInt(known.end))
        left = known.origin
        if left is not None and left.topic_id == log.identity.topic_id:
            return refused_position(
                log,
                "this room's topic was read before the last switch, so its rows are in the table",
                "create the topic again, and have the other room's rows copied to it",
            )
        evidence = {ORIGIN_HEADER: origin.header, ORIGIN_LOG: origin.name}
        if log.bounds is None:
            return ResumePosition(log, 0, PositionMethod.HEADER, evidence=evidence)
        with self._changed:
            self._begin()
            self._changed.wait_for(
                lambda: _is_judged(self._followed(log, origin), log), _FIRST_ROWS_S
            )
            return _position(log, self._followed(log, origin), evidence)

    def _followed(self, log: CopiedLog, origin: OriginLog) -> FollowedCopy:
        """What is known of a copy; nothing when it is another log, or its beginning is gone."""
        first = 0 if log.bounds is None else log.bounds.start_offset
        copy = self._copies.get(log.partition)
        log_of = (origin.header, origin.name, origin.topic_id)
        if (
            copy is None
            or copy.topic_id != log.identity.topic_id
            or (copy.origin.header, copy.origin.name, copy.origin.topic_id) != log_of
            or copy.next < first
        ):
            whole = True if first == 0 else None
            copy = FollowedCopy(
                origin, log.identity.topic_id, first, first, whole, to_end=self._to_end
            )
            self._copies[log.partition] = copy
        copy.origin = origin
        copy.commit(int(origin.end))
        return copy

    def copied(self) -> dict[SourcePartition, int]:
        """How far each log of the other room is copied, as an offset of that log."""
        with self._changed:
            return {one: each.copied for one, each in self._copies.items() if each.copied}

    def close(self) -> None:
        """End the thread; it is not waited for, as the queue may hang. Safe to repeat."""
        with self._changed:
            self._closing = True
            self._copies.clear()

    # The thread

    def _begin(self) -> None:
        self._used_at, self._closing = time.monotonic(), False
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="origins", daemon=True)
            self._thread.start()

    def _is_over(self) -> bool:
        """Whether the thread is to end; from then on another one may begin."""
        with self._changed:
            if not self._closing and time.monotonic() - self._used_at < _IDLE_S:
                return False
            self._thread = None
            return True

    def _run(self) -> None:
        try:
            while not self._is_over():
                self._read_or_wait(self._open_copies())
        finally:
            with self._changed:
                if self._thread is threading.current_thread():
                    self._thread = None

    def _read_or_wait(self, followed: dict[SourcePartition, FollowedCopy]) -> None:
        try:
            self._read(followed)
        except OffsetsLostError:
            # Retention has overtaken the reading, or the copy was cut: it begins again.
            self._forget(followed)
        except SluicewayError:
            # Its leader may come back; the standby reports what the queue says.
            time.sleep(_AGAIN_S)

    def _forget(self, followed: dict[SourcePartition, FollowedCopy]) -> None:
        with self._changed:
            for one, each in followed.items():
                if self._copies.get(one) is each:
                    del self._copies[one]
            self._changed.notify_all()

    def _open_copies(self) -> dict[SourcePartition, FollowedCopy]:
        with self._changed:
            return {one: each for one, each in self._copies.items() if not each.blocked}

    def _read(self, followed: dict[SourcePartition, FollowedCopy]) -> None:
        """Read until other copies are to be read."""
        if not followed:
            time.sleep(_READ_S)
            return
        splits = [Split(one, each.next) for one, each in followed.items()]
        reader = self._open_reader(splits)
        try:
            while not self._is_done(followed):
                batches = reader.read(_READ_S)
                ends = [end.end_offset for end in reader.ends()]
                self._take_in(list(followed.values()), batches, ends)
        finally:
            reader.close(reusable=False)

    def _is_done(self, followed: dict[SourcePartition, FollowedCopy]) -> bool:
        over = self._closing or time.monotonic() - self._used_at >= _IDLE_S
        return over or self._open_copies() != followed

    def _take_in(
        self, copies: list[FollowedCopy], batches: Iterable[SourceBatch], ends: list[int]
    ) -> None:
        with self._changed:
            for batch in batches:
                copies[batch.split_index].add_batch(batch)
            for copy, end in zip(copies, ends, strict=True):
                copy.next = max(copy.next, end)
            self._changed.notify_all()


def origin_follower(
    rule: MirrorRule | None, access: SourceAccess, reader: str
) -> OriginFollower | None:
    """What reads a room's copies along; None where they have no header.

    Args:
        rule: What copies the logs.
        access: Access to this room's queue.
        reader: Who reads; its connections are its own.
    """
    if rule is None or rule.origin is None:
        return None
    return OriginFollower(
        lambda splits: open_reader(access, splits, owner=f"origins-{reader}"), to_end=rule.first
    )


def _is_judged(copy: FollowedCopy, log: CopiedLog) -> bool:
    """Whether it is known if rows of the copy name their log."""
    return copy.first_origin is not None or bool(copy.broken) or _unread(copy, log) == 0


def _unread(copy: FollowedCopy, log: CopiedLog) -> int:
    end = 0 if log.bounds is None else log.bounds.end_offset
    return 0 if copy.blocked else max(0, end - copy.next)


def _position(log: CopiedLog, copy: FollowedCopy, evidence: dict[str, str]) -> ResumePosition:
    first = 0 if log.bounds is None else log.bounds.start_offset
    if copy.broken:
        helps = "find out what has written this header"
        return replace(refused_position(log, copy.broken, helps, evidence), halts=True)
    if copy.first_origin is None and log.known.has_data:
        if _unread(copy, log):
            return refused_position(
                log, f"its copy is read up to {copy.next} only", "wait", evidence
            )
        return refused_position(
            log,
            f"no row of its copy has the header `{copy.origin.header}` of {copy.origin.name}",
            "see that the mirror has the transform, with that cluster's id",
            evidence,
        )
    if copy.own_first and copy.first_origin is not None and copy.first_origin > log.known.start:
        return refused_position(
            log,
            f"rows without a header come before the first copy, which is of {copy.first_origin}: "
            "the mirror may have copied them before it had the transform",
            "have the topic copied again, from its beginning",
            evidence,
        )
    begins = not log.known.has_data and log.known.how in BEGINNINGS
    if not begins and (not copy.whole or copy.place < first):
        return refused_position(
            log,
            f"its copy begins at {first}, and rows before that may be missing in the table",
            evidence=evidence,
        )
    found = {
        **evidence,
        "read_from": str(copy.begun),
        "read_to": str(copy.next),
        "log_end": str(0 if log.bounds is None else log.bounds.end_offset),
    }
    unread = _unread(copy, log)
    return ResumePosition(log, copy.place, PositionMethod.HEADER, evidence=found, unread=unread)
