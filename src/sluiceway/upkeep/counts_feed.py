"""Reads audited counts from a topic into the ledger, beside the epochs (`ready.counts`).

A thread reads the topic and decides nothing: counts become COUNTS records, put by the driver, and
what closes a prefix is decided from those. A topic that is down holds up what waits for a count,
and nothing else.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from sluiceway.config.config import RouteConfig
from sluiceway.config.ready_rule import CountsRule
from sluiceway.errors import FencedError, SluicewayError
from sluiceway.eventtime.prefix_periods import Period, PrefixPeriods
from sluiceway.ledger.counts_records import CountsRecord
from sluiceway.ledger.fold import Fold
from sluiceway.observe.log import Log
from sluiceway.sources.side_registry import open_topic_tail
from sluiceway.sources.side_topics import TailMessage, TopicTail
from sluiceway.spec.values import instant_us
from sluiceway.types.strict_json import StrictJsonError, loads
from sluiceway.upkeep.desk import BackgroundWork, RouteDesk
from sluiceway.upkeep.partition_bodies import CountsLog, counts_body

_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
_LAST_WAIT_S: Final = 5.0
_TIMEOUT_S: Final = 30.0
_WAIT_S: Final = 0.5
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
        periods: Of its leading time columns.

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


class CountsFeed(BackgroundWork):
    """Of one route, from its START to its end, in a thread of its own.

    Args:
        desk: Of the route.
        rule: Which prefixes need a count; where counts come from.
        table: `database.table`.
        periods: Of the table; not shared.
        topic: Closed here.
        log: Bound to the route.
    """

    def __init__(
        self,
        desk: RouteDesk,
        rule: CountsRule,
        *,
        table: str,
        periods: PrefixPeriods,
        topic: TopicTail,
        log: Log,
    ) -> None:
        self._desk = desk
        self._rule = rule
        self._table = table
        self._periods = periods
        self._topic = topic
        self._log = log
        self._kept = 0
        self._told: float | None = None
        self._untold = 0
        self._looked = threading.Event()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="counts", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; the next driver goes on from the ledger. Safe to repeat."""
        self._end.set()
        self._thread.join(_LAST_WAIT_S)

    @property
    def pressing(self) -> bool:
        """Whether the topic was not read to its end once, and nothing has kept it from that."""
        return not self._looked.is_set()

    def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        try:
            while not self._end.is_set():
                failure = self._try(self._go_on)
                self._looked.set()
                if isinstance(failure, FencedError):
                    # The route was left; whoever drives it next goes on.
                    return
                if failure is None:
                    pause_s = _FIRST_PAUSE_S
                    continue
                self._log.warning(
                    "counts_wait",
                    topic=self._rule.topic.topic,
                    error=str(failure),
                    retry_in_s=pause_s,
                )
                self._end.wait(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        finally:
            self._topic.close()

    def _try(self, act: Callable[[], None]) -> Exception | None:
        try:
            act()
        except SluicewayError as error:
            return error
        except Exception as error:  # noqa: BLE001 - the thread's boundary: never end silently
            # A library's own words may hold an address with a secret.
            return RuntimeError(f"{type(error).__name__} while counts were read")
        return None

    def _go_on(self) -> None:
        """Read until the topic is another one, or has another number of partitions."""
        described = identity, partitions = self._topic.describe()
        known: dict[int, int] = {}
        log = (self._rule.topic.topic, identity.cluster_id, identity.topic_id)

        def look(fold: Fold) -> None:
            known.update(fold.counted.ends if fold.counted.log == log else {})

        self._desk.ask(look).result()
        self._topic.open({number: known.get(number) for number in partitions})
        due = time.monotonic() + _DESCRIBE_EVERY_S
        counts: dict[str, int] = {}
        self._kept = 0
        since = time.monotonic()
        while not self._end.is_set():
            messages = self._topic.take(_MOST_AT_ONCE, _WAIT_S)
            counts |= self._counts(messages)
            self._kept += len(messages)
            # Before the end a count may be one that was corrected since, and would close an hour.
            # A topic that others write without a pause has no end.
            over = self._topic.at_end or time.monotonic() - since >= _LONGEST_UNKEPT_S
            if over or not counts or len(counts) >= _MOST_WAITING:
                self._keep(log, counts)
                counts = {}
            if over:
                since = time.monotonic()
                if self._topic.at_end or len(messages) < _MOST_AT_ONCE:
                    self._looked.set()
            if time.monotonic() >= due:
                if self._topic.describe() != described:
                    return
                due = time.monotonic() + _DESCRIBE_EVERY_S

    def _keep(self, log: CountsLog, counts: Mapping[str, int]) -> None:
        """Put counts; of others' only now and then how far they were read."""
        if not counts and self._kept < _KEEP_EVERY:
            return
        ends = dict(self._topic.ends)
        put: list[CountsRecord | None] = []

        def build(fold: Fold) -> CountsRecord | None:
            put[:] = [counts_body(fold, self._desk.closed(), log, ends, counts)]
            return put[0]

        while (slot := self._desk.ask(build).result()) is None:
            if self._end.wait(_WAIT_S):
                return
        self._kept = 0
        kept = sum(len(body.counts) for body in put if body is not None)
        self._log.info("counts_read", seq=slot, counts=kept, too_late=len(counts) - kept)

    def _counts(self, messages: Sequence[TailMessage]) -> dict[str, int]:
        """Prefix -> rows, as the last message on each says."""
        found: dict[str, int] = {}
        for each in messages:
            try:
                count = read_count(each.value, self._table, self._periods)
            except ValueError as error:
                self._tell_unreadable(each, error)
                continue
            if count is not None and self._rule.decide.needs_count(count.period):
                found[count.period.prefix] = count.rows
        return found

    def _tell_unreadable(self, message: TailMessage, error: ValueError) -> None:
        """Tell of one a minute: a topic may hold a million of them, read at each start."""
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


def begin(config: RouteConfig, desk: RouteDesk, eyes: Log) -> CountsFeed | None:
    """Begin to read a route's counts. Called once the route has recovered.

    Returns:
        The feed; None when the job file waits for no counts.
    """
    ready = config.ready
    if ready is None or ready.counts is None:
        return None
    topic = open_topic_tail(ready.counts.topic, _TIMEOUT_S)
    table = f"{config.hive.database}.{config.hive.table}"
    return CountsFeed(
        desk, ready.counts, table=table, periods=ready.periods(), topic=topic, log=eyes
    )
