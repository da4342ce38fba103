"""Reads audited counts from a topic into the ledger, outside of the epochs (`ready.counts`).

It has turns of the process's pool, reads the topic and decides nothing. The driver puts the counts
as COUNTS records, and a prefix is closed by those records. A topic that is down holds up what waits
for a count, and nothing else.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from sluiceway.errors import FencedError, SluicewayError
from sluiceway.eventtime.prefix_periods import Period, PrefixPeriods
from sluiceway.host.work_pool import process_pool
from sluiceway.jobfile.blocks.values import instant_us
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.ready_rule import CountsRule
from sluiceway.ledger.counts_records import CountsRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.observe.log import Log
from sluiceway.sources.contract import SourceIdentity
from sluiceway.sources.registry import open_topic_tail
from sluiceway.sources.side_topics import TailMessage, TopicTail
from sluiceway.types.strict_json import StrictJsonError, loads
from sluiceway.upkeep.partition_bodies import CountsLog, counts_body
from sluiceway.upkeep.record_queue import BackgroundWork, Build, RecordQueue

if TYPE_CHECKING:
    from concurrent.futures import Future

_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
_LAST_WAIT_S: Final = 5.0
_TIMEOUT_S: Final = 30.0
_WAIT_S: Final = 0.5
_TAKE_S: Final = 0.05
_MOST_AT_ONCE: Final = 200
_MOST_WAITING: Final = 10_000
_LONGEST_UNKEPT_S: Final = 30.0
_KEEP_EVERY: Final = 10_000
_TELL_EVERY_S: Final = 60.0
_DESCRIBE_EVERY_S: Final = 300.0
_MOST_BYTES: Final = 1 << 20
_MOST_ROWS: Final = 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Count:
    """What a message says of one time of a table."""

    period: Period
    rows: int


def read_count(value: bytes | None, table: str, periods: PrefixPeriods) -> Count | None:
    """A message of the topic; None when it is about another table.

    Args:
        value: `{"table": "ods.orders", "time": "2026-11-20T08:00:00Z", "rows": 24912}`; other keys
            are passed over.
        table: `database.table` of the route, in any case.
        periods: Periods of the table's leading time columns.

    Raises:
        ValueError: It is no count; says what was expected.
    """
    if len(value or b"") > _MOST_BYTES:
        # Its parts would take a hundred times as much memory.
        raise ValueError(f"expected at most {_MOST_BYTES:,} bytes")
    try:
        found = None if value is None else loads(value)
    except StrictJsonError as error:
        raise ValueError("expected JSON, got something else") from error
    told = found if isinstance(found, dict) else {}
    named, rows = told.get("table"), told.get("rows")
    if not isinstance(named, str):
        raise ValueError("expected an object with the key `table`")  # noqa: TRY004 - of a message
    if named.lower() != table.lower():
        return None
    if not isinstance(rows, int) or isinstance(rows, bool) or not 0 <= rows <= _MOST_ROWS:
        raise ValueError("expected a whole number as `rows`")
    at_us = instant_us(told.get("time"))
    try:
        period = None if at_us is None else periods.at(at_us)
    except (OverflowError, ValueError):
        period = None
    if period is None:
        raise ValueError("expected date, time and zone as `time`")
    if period.begin_us != at_us:
        begins = (_EPOCH + timedelta(microseconds=period.begin_us)).isoformat()
        raise ValueError(f"expected the begin of a time of the table as `time`, as {begins}")
    return Count(period, rows)


@dataclass(slots=True)
class _Reading:
    """A topic that is read: which one it is, and what was found since the last record.

    Attributes:
        log: As COUNTS records name it.
        described: Identity and partitions; once they are others it is opened again.
        describe_due: When it is described again, in monotonic seconds.
        since: When the first of `counts` may have come.
        counts: Prefix -> rows, not put yet.
        messages: Read since the last record, messages of other tables too.
        owes: Whether `counts` are to be put before more is read.
        ended: Whether nothing stood after them.
    """

    log: CountsLog
    described: tuple[SourceIdentity, tuple[int, ...]]
    describe_due: float
    since: float
    counts: dict[str, int] = field(default_factory=dict)
    messages: int = 0
    owes: bool = False
    ended: bool = False


class CountsFeed(BackgroundWork):
    """The counts of one route, from its START to its end.

    Args:
        record_queue: The route's record queue.
        rule: Which prefixes need a count; where counts come from.
        table: `database.table`.
        periods: Periods of the table; not shared.
        topic: Closed here.
        log: Bound to the route.
    """

    def __init__(
        self,
        record_queue: RecordQueue,
        rule: CountsRule,
        *,
        table: str,
        periods: PrefixPeriods,
        topic: TopicTail,
        log: Log,
    ) -> None:
        self._record_queue = record_queue
        self._rule = rule
        self._table = table
        self._periods = periods
        self._topic = topic
        self._log = log
        self._reading: _Reading | None = None
        self._requested: Future[int | None] | None = None
        self._observed: tuple[CountsLog | None, dict[int, int]] | None = None
        self._body: CountsRecord | None = None
        self._pause_s = _FIRST_PAUSE_S
        self._told: float | None = None
        self._untold = 0
        self._looked = threading.Event()
        self._end = threading.Event()
        # Not in the pool of upkeep: while a cluster is away, compaction and expiry of its routes
        # hold all threads of that pool.
        self._work = process_pool().add(self._turn, f"counts {rule.topic}")
        self._work.wake()

    def close(self) -> None:
        """Stop; the next driver goes on from the ledger. Safe to repeat."""
        self._end.set()
        if self._work.end(_LAST_WAIT_S):
            self._topic.close()

    @property
    def pressing(self) -> bool:
        """Whether the topic was not read to its end once, and nothing has kept it from that."""
        return not self._looked.is_set()

    def _turn(self) -> float | None:
        """Read some messages, and put what is to be put; the seconds until the next turn."""
        try:
            if self._end.is_set():
                return None
            return self._go_on()
        except FencedError:
            # The route was left; whoever drives it next goes on.
            self._looked.set()
            return None
        except SluicewayError as error:
            return self._wait_for(str(error))
        except Exception as error:  # noqa: BLE001 - the turn's boundary: never end silently
            # A library's own words may hold an address with a secret.
            return self._wait_for(f"{type(error).__name__} while counts were read")
        finally:
            if self._end.is_set():
                # Its owner may have given up waiting for this turn.
                self._topic.close()

    def _wait_for(self, why: str) -> float:
        """Start over after a pause."""
        self._looked.set()
        self._reading = self._requested = None
        pause_s = self._pause_s
        self._pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        self._log.warning(
            "counts_wait", topic=self._rule.topic.topic, error=why, retry_in_s=pause_s
        )
        return pause_s

    def _go_on(self) -> float | None:
        """A turn of an open topic; it is opened again when it is another one by now."""
        if self._requested is not None and not self._requested.done():
            # The route's thread wakes this when it answers: a turn never waits for it.
            return None
        now = time.monotonic()
        reading = self._reading
        if reading is None:
            return self._opened()
        if not reading.owes and now >= reading.describe_due:
            if self._topic.describe() != reading.described:
                self._looked.set()
                self._reading = None
                return 0.0
            reading.describe_due = now + _DESCRIBE_EVERY_S
        if reading.owes:
            return self._keep(reading)
        messages = self._topic.read(_MOST_AT_ONCE, _TAKE_S)
        reading.counts |= self._counts(messages)
        reading.messages += len(messages)
        # Before the end a count may have been corrected since, and would close an hour.
        # A topic that others write without a pause has no end.
        over = self._topic.at_end or time.monotonic() - reading.since >= _LONGEST_UNKEPT_S
        reading.owes = over or not reading.counts or len(reading.counts) >= _MOST_WAITING
        if over:
            reading.since = time.monotonic()
        reading.ended = over and (self._topic.at_end or len(messages) < _MOST_AT_ONCE)
        if reading.owes and (pause_s := self._keep(reading)) != 0.0:
            return pause_s
        return 0.0 if messages or not self._topic.at_end else _WAIT_S

    def _opened(self) -> float | None:
        """Begin to read where the ledger's counts end."""
        if self._requested is None:
            self._observed = None
            self._ask(self._read_ends)
            return None
        self._answer()
        if self._observed is None:
            return 0.0
        log, ends = self._observed
        described = identity, partitions = self._topic.describe()
        place = (self._rule.topic.topic, identity.cluster_id, identity.topic_id)
        known = ends if log == place else {}
        self._topic.open({number: known.get(number) for number in partitions})
        now = time.monotonic()
        self._reading = _Reading(place, described, now + _DESCRIBE_EVERY_S, now)
        return 0.0

    def _read_ends(self, fold: Fold) -> None:
        self._observed = fold.counted.log, dict(fold.counted.ends)

    def _ask(self, build: Build) -> None:
        """Have something done in the route's thread, which then gives this another turn."""
        self._requested = self._record_queue.ask(build)
        self._requested.add_done_callback(lambda _: self._work.wake())

    def _answer(self) -> int | None:
        """What the route's thread has answered; raises what has ended the route."""
        asked, self._requested = self._requested, None
        return None if asked is None else asked.result()

    def _keep(self, reading: _Reading) -> float | None:
        """Put what is to be put.

        Returns:
            Seconds until it is tried again: there may be no place for it yet. None until the
            route's thread answers; 0.0 when it is done.
        """
        if reading.counts or reading.messages >= _KEEP_EVERY:
            if self._requested is None:
                self._put(reading)
                return None
            if (slot := self._answer()) is None:
                return _WAIT_S
            kept = 0 if self._body is None else len(self._body.counts)
            too_late = len(reading.counts) - kept
            self._log.info("counts_read", seq=slot, counts=kept, too_late=too_late)
            reading.counts, reading.messages = {}, 0
        reading.owes = False
        self._pause_s = _FIRST_PAUSE_S
        if reading.ended:
            self._looked.set()
        return 0.0

    def _put(self, reading: _Reading) -> None:
        """Ask for a record of the counts, or of how far others' were read."""
        ends, counts = dict(self._topic.ends), dict(reading.counts)

        def build(fold: Fold) -> CountsRecord | None:
            self._body = counts_body(fold, self._record_queue.closed(), reading.log, ends, counts)
            return self._body

        self._ask(build)

    def _counts(self, messages: Sequence[TailMessage]) -> dict[str, int]:
        """Prefix -> rows, as the last message on each says."""
        found: dict[str, int] = {}
        for each in messages:
            try:
                count = read_count(each.value, self._table, self._periods)
            except ValueError as error:
                self._log_unreadable(each, error)
                continue
            if count is not None and self._rule.decide.needs_count(count.period):
                found[count.period.prefix] = count.rows
        return found

    def _log_unreadable(self, message: TailMessage, error: ValueError) -> None:
        """Log one a minute: a topic may hold a million of them, read at each start."""
        now = time.monotonic()
        if self._told is not None and now - self._told < _TELL_EVERY_S:
            self._untold += 1
            return
        self._log.warning(
            "count_unreadable",
            topic=self._rule.topic.topic,
            partition=message.partition,
            offset=message.offset,
            error=str(error),
            others=self._untold,
        )
        self._told, self._untold = now, 0


def begin(config: RouteConfig, record_queue: RecordQueue, log: Log) -> CountsFeed | None:
    """Begin to read a route's counts. Called once the route has recovered.

    Returns:
        The feed; None when the job file waits for no counts.
    """
    ready = config.ready
    if ready is None or ready.counts is None:
        return None
    topic = open_topic_tail(ready.counts.topic, _TIMEOUT_S)
    table = f"{config.table.database}.{config.table.table}"
    return CountsFeed(
        record_queue, ready.counts, table=table, periods=ready.periods(), topic=topic, log=log
    )
