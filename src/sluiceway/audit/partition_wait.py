"""Waiting until a time of a table is announced, by reading what the ledger gets, slot by slot."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from sluiceway.audit.job_status import parse_status
from sluiceway.audit.open_table import OpenLedger, find_ledger, read_ledger
from sluiceway.audit.partition_states import TimeRule
from sluiceway.audit.partition_why import (
    BY_DRIVER,
    NEVER,
    Reason,
    WaitExplanation,
    explain,
    receiver_names,
    with_driver,
    with_receivers,
)
from sluiceway.audit.rooms import with_lost_room
from sluiceway.audit.upstream import with_upstream
from sluiceway.errors import (
    LedgerCorruptError,
    RequestRefusedError,
    Retriable,
    UnknownOutcome,
    WrongUsageError,
)
from sluiceway.followers.announcements import announced_through
from sluiceway.host.process import is_alive
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.lease import DEAD_AFTER_S, Lease, read_lease
from sluiceway.ledger.partition_records import ReadyRecord
from sluiceway.ledger.room_files import RoomReport, lost_room
from sluiceway.ledger.sealing import NEVER_CLOSED
from sluiceway.route.status import RouteState
from sluiceway.storage.contract import Storage


class LeaseWatch:
    """Watches the lease of one route. Polled; used by one thread.

    Args:
        storage: The store of the table.
        path: Path of the lease.
        clock: Monotonic seconds.
    """

    def __init__(
        self, storage: Storage, path: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._storage = storage
        self._path = path
        self._clock = clock
        self._observed: Lease | None = None
        self._since = clock()
        self._moves = False

    def check(self) -> bool | None:
        """Whether a driver has it; None until one on another host was watched for long enough.

        Raises:
            StorageUnavailableError: The store failed.
        """
        lease = read_lease(self._storage, self._path)
        if lease is None or lease.released:
            return False
        lives = is_alive(lease.process())
        if lives is not None:
            return lives
        if lease != self._observed:
            self._moves = self._observed is not None
            self._observed, self._since = lease, self._clock()
        elif self._clock() - self._since >= DEAD_AFTER_S:
            return False
        return True if self._moves else None


_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 5.0

_HINT = "`sluiceway partitions list JOB` shows which times there are"


@dataclass(frozen=True, slots=True)
class ReadyFacts:
    """What was announced.

    Attributes:
        seq: Slot of the READY record.
        at_us: When it was written, by its own time, us since the epoch.
        partitions: Name, version, rows and files of each partition.
    """

    prefix: str
    version: int
    seq: int
    at_us: int | None
    rows: int
    files: int
    whole: bool
    partitions: tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Waited:
    """How a wait ended.

    Attributes:
        why: The state now.
        facts: The announcement; None when the time ran out.
    """

    why: WaitExplanation
    facts: ReadyFacts | None


class PartitionWatch:
    """Polls one time of a route's table; the log is read once.

    Args:
        config: The route.
        asked: Folder of the time, or of a partition below it.
        clock_us: The wall clock.
    """

    def __init__(
        self,
        config: RouteConfig,
        asked: str,
        clock_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self._config = config
        self._rule = TimeRule.of(config)
        self._requested = asked
        self._clock_us = clock_us
        self._ledger: OpenLedger | None = None
        self._lease: LeaseWatch | None = None

    def check_until_known(self) -> WaitExplanation:
        """As `check`; a driver on another host is watched until its lease moves, at most 10 s.

        Raises:
            WrongUsageError: The folder is no time of the table.
            SluicewayError: The ledger cannot be read.
        """
        why = self.check()
        if why.reason is Reason.NO_TIME:
            raise _no_time(why)
        while why.driver_runs is None and why.reason in BY_DRIVER:
            time.sleep(_FIRST_PAUSE_S)
            why = self.check()
        return why

    def check(self) -> WaitExplanation:
        """Explain the state now.

        Raises:
            SluicewayError: The ledger cannot be read.
        """
        ledger = self._ledger
        if ledger is None:
            ledger = self._ledger = read_ledger(find_ledger(self._config))
        else:
            ledger.log.advance(ledger.fold)
        ready, through = self._config.ready, dict[str, int]()
        for name in receiver_names(self._config.announcements):
            through[name] = announced_through(ledger.log.storage, ledger.log.layout, name)
        why = explain(ledger.fold, ready, self._rule, self._requested, self._clock_us())
        if ledger.fold.sealed.get(why.prefix, NEVER_CLOSED) != NEVER_CLOSED:
            why = replace(why, version=_facts(ledger, why.prefix).version)
        why = with_upstream(self._config, ledger.fold, why)
        why = with_lost_room(why, self._lost_room(ledger))
        why = with_receivers(ledger.fold, why, through)
        if self._lease is None:
            self._lease = LeaseWatch(ledger.log.storage, ledger.log.layout.lease)
        runs = self._lease.check() if why.reason in BY_DRIVER else None
        return with_driver(why, runs=runs, halted=self._halted(ledger) if runs is False else "")

    def _halted(self, ledger: OpenLedger) -> str:
        """Code of the error that the last driver has halted with; empty when it has not."""
        raw = ledger.log.storage.read(ledger.log.layout.status)
        status = None if raw is None else parse_status(self._config.route, raw)
        if status is None or status.term != ledger.fold.term:
            return ""
        halted = status.state in (RouteState.HALTED, RouteState.STOPPED)
        return (status.code or "") if halted else ""

    def _lost_room(self, ledger: OpenLedger) -> RoomReport | None:
        rule, fence = self._config.rooms, ledger.fold.fence
        if rule is None or rule.mirror is None or not rule.mirror.holds or fence is None:
            return None
        return lost_room(ledger.log.storage, ledger.log.layout, fence.site or rule.home)

    def wait(self, version: int, timeout_s: float) -> Waited:
        """Wait for an announcement.

        Args:
            version: The least version to wait for.
            timeout_s: Longest wait, in seconds.

        Raises:
            WrongUsageError: Nothing of this name is ever announced.
            RequestRefusedError: By the state of the ledger it will never be announced.
            SluicewayError: The ledger could never be read. A ledger that was read before and does
                not answer for a while is waited for.
        """
        until, pause_s = time.monotonic() + timeout_s, _FIRST_PAUSE_S
        why = self.check()
        while True:
            if why.reason in NEVER:
                raise _refusal(why)
            if why.version >= version:
                return Waited(
                    why, None if self._ledger is None else _facts(self._ledger, why.prefix)
                )
            left_s = until - time.monotonic()
            if left_s <= 0:
                return Waited(why, None)
            time.sleep(min(pause_s, left_s))
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
            try:
                why = self.check()
            except (Retriable, UnknownOutcome):
                # The next poll shows; what was known holds until then.
                continue


def _facts(ledger: OpenLedger, prefix: str) -> ReadyFacts:
    closed = ledger.fold.closed.get(prefix)
    seq = ledger.fold.sealed[prefix] if closed is None else closed.ready_seq
    found = ledger.log.read_slot(seq)
    body = None if found is None else found[0].body
    if not isinstance(body, ReadyRecord):
        raise LedgerCorruptError(f"slot {seq} is not the announcement of {prefix} any more")
    return ReadyFacts(
        prefix=prefix,
        version=body.version,
        seq=seq,
        at_us=None if body.at_us is None else int(body.at_us),
        rows=int(body.rows),
        files=int(body.files),
        whole=body.whole,
        partitions=tuple(
            (each.partition, each.version, int(each.rows), int(each.files))
            for each in body.partitions
        ),
    )


def _refusal(why: WaitExplanation) -> WrongUsageError | RequestRefusedError:
    if why.reason is Reason.NO_TIME:
        return _no_time(why)
    kind = WrongUsageError if why.reason is Reason.NOT_ANNOUNCED else RequestRefusedError
    return kind(f"it will never be announced: {why.text}", where=why.prefix, hint=_HINT)


def _no_time(why: WaitExplanation) -> WrongUsageError:
    return WrongUsageError(why.text, hint=_HINT)
