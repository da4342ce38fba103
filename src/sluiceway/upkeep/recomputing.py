"""Computes units of a table from those of another one, while its driver lives.

A thread of its own reads what the upstream table has published, finds the due units, has Spark run
the SQL of each over exactly the files of that moment, and replaces the unit's rows at once
(`upkeep.swapping`). Then it closes and announces the unit. A driver that dies at any step leaves
nothing to clean up: the next one finds the same units due, or the announcement that is missing.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from sluiceway.chains.open_units import UnitUpstream, open_unit_table
from sluiceway.chains.options import missing_yet
from sluiceway.chains.unit_tables import UnitFiles, UnitTable, partition_values
from sluiceway.chains.units import (
    ComputedUnit,
    DueUnit,
    UnitRule,
    UnitState,
    complete_unit,
    computed_by,
    due_units,
)
from sluiceway.errors import (
    Fatal,
    FencedError,
    FileLostError,
    InvariantError,
    ReaderNameTakenError,
    SluicewayError,
    SourceUnavailableError,
    TableNotFoundError,
    TaskFailedError,
)
from sluiceway.jobfile.compile.sql_rule import SqlRule
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.partition_records import (
    ReadyCause,
    SwapCounts,
    SwapInput,
    SwapRecord,
)
from sluiceway.observe.failpoints import reach
from sluiceway.observe.log import Log
from sluiceway.schedule.planner import check_identities
from sluiceway.schedule.sql_engine import JoinedTable
from sluiceway.schedule.unit_sql import UnitQuery, UnitResult, UnitSql
from sluiceway.sources.contract import DiscoveredPartition, SourcePartition
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.partition_bodies import ready_body
from sluiceway.upkeep.record_queue import RecordQueue
from sluiceway.upkeep.swapping import SwapContent, SwapOrder, Swapped, SwapStaging, Write, swap
from sluiceway.worker.plan import RoutePlan
from sluiceway.worker.unit_files import UnitPlan

AT_ONCE = 8
"""Units of a route whose records are asked for at the same time: each waits for several turns of
the driver's thread. Spark bounds how many queries run."""

_RECOMPUTE = "recompute"
_MOST_RUNS = 3
_FIRST_PAUSE_S = 5.0
_LONGEST_PAUSE_S = 300.0
_LAST_WAIT_S = 5.0


def unit_counts(read: int, written: int) -> SwapCounts:
    """Where the rows of a unit went, by how many were read and written."""
    return SwapCounts(
        read=BigInt(read),
        written=BigInt(written),
        expanded=BigInt(max(written - read, 0)),
        merged=BigInt(max(read - written, 0)),
    )


@dataclass(frozen=True, slots=True)
class UnitWork:
    """What a route computes, and what with.

    Attributes:
        rule: Which units, and when.
        query: The SQL.
        upstream: How the table is reached that is read.
        reader: Name of the route among readers of that table.
        sql: What runs the SQL.
        plan: Gives what tasks of the route share now.
        interval_s: Seconds between two readings of the upstream ledger.
        tables: Reads the small tables that the SQL joins.
        on_request: Whether due units are left to another driver, and only those are computed that
            an operator asks for.
    """

    rule: UnitRule
    query: SqlRule
    upstream: UnitUpstream
    reader: str
    sql: UnitSql
    plan: Callable[[], RoutePlan]
    interval_s: float
    tables: Callable[[], tuple[JoinedTable, ...]] = tuple
    on_request: bool = False


class Recomputer:
    """Of one route, from its START until it is left. Any thread may read its attributes.

    Args:
        record_queue: The route's record queue.
        work: What the route computes, and what with.
        log: Bound to the route.

    Attributes:
        waits_for: Why the last round has failed; empty when it has not.
        failure: Why the route has to halt; None while it goes on.
    """

    def __init__(self, record_queue: RecordQueue, work: UnitWork, log: Log) -> None:
        self.waits_for = ""
        self.failure: SluicewayError | None = None
        self._record_queue = record_queue
        self._work = work
        self._log = log
        self._table: UnitTable | None = None
        self._computed: dict[str, ComputedUnit] = {}
        self._causes: dict[str, ReadyCause | None] = {}
        self._next_seq = 0
        self._pause_s = _FIRST_PAUSE_S
        self._found_nothing = False
        self._reading = threading.Lock()
        self._closing = threading.Event()
        self._wake = threading.Event()
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="units")
        self._thread = threading.Thread(target=self._run, name="recompute", daemon=True)
        self._thread.start()

    @property
    def idle(self) -> bool:
        """Whether the last round has found nothing due and nothing to announce."""
        return self._found_nothing and not self._wake.is_set()

    def look_again(self) -> None:
        """Begin another round now; not idle before its end. Called by the driver's thread."""
        self._wake.set()

    def refuse_if_failed(self) -> None:
        """Called by the driver's thread before it goes on.

        Raises:
            SluicewayError: Why the route has to halt.
        """
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        """See `BackgroundWork.close`."""
        self._closing.set()
        self._wake.set()
        self._thread.join(_LAST_WAIT_S)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        while not self._closing.is_set():
            pause_s = self._turn()
            if pause_s is None:
                break
            if self._wake.wait(pause_s):
                self._found_nothing = False
                self._wake.clear()
        if self._table is not None:
            self._table.close()

    def _turn(self) -> float | None:
        """One round; seconds until the next one, None when there is none."""
        try:
            done = self._round()
        except FencedError:
            return None
        except Fatal as error:
            self._give_up(error)
            return None
        except SluicewayError as error:
            self.waits_for = str(error)
            self._log.warning(
                "units_wait", code=error.code, error=str(error), retry_in_s=self._pause_s
            )
            pause_s, self._pause_s = self._pause_s, min(self._pause_s * 2, _LONGEST_PAUSE_S)
            return pause_s
        except Exception as error:  # noqa: BLE001 - the thread's boundary: the route halts with it
            self._give_up(
                InvariantError(
                    f"{type(error).__name__}: {str(error)[:300]}",
                    hint="a bug; no unit was changed by this step. Please report it with the log",
                )
            )
            return None
        self.waits_for, self._pause_s = "", _FIRST_PAUSE_S
        return 0.0 if done else self._work.interval_s

    def _give_up(self, error: SluicewayError) -> None:
        self.waits_for = str(error)
        self.failure = error

    def _round(self) -> bool:
        """Compute and announce what is due; whether there was anything.

        Raises:
            FencedError: The route is left, or another driver has taken over.
            SluicewayError: What has failed; units that are done stay done.
        """
        rule, now_ms = self._work.rule, time.time_ns() // 1_000_000
        with self._reading:
            table = self._read_upstream()
            self._read_own()
            ledger = table.identity.topic_id
            states = [] if self._work.on_request else table.states()
            due = due_units(states, self._computed, ledger, rule, now_ms)
            files = {each.prefix: table.files(each.prefix) for each in due}
        unannounced = self._unannounced()
        if due or unannounced:
            self._found_nothing = False
        for start in range(0, len(due), AT_ONCE):
            self._compute_all(table, due[start : start + AT_ONCE], files)
            self._announce(self._unannounced())
        if unannounced and not due:
            self._announce(unannounced)
        self._found_nothing = not (due or unannounced)
        return not self._found_nothing

    def _read_upstream(self) -> UnitTable:
        table = self._table
        if table is None:
            table = self._opened()
            found = DiscoveredPartition(
                SourcePartition(self._work.upstream.topic, 0), table.identity, None
            )
            self._record_queue.see(lambda fold: check_identities(fold, [found]))
            # From before the first reading on, nothing goes that it finds.
            self._keep(table)
            self._table = table
        table.read_on()
        self._keep(table)
        return table

    def _keep(self, table: UnitTable) -> None:
        try:
            table.keep(self._work.reader)
        except ReaderNameTakenError as error:
            # A driver that was fenced and lives on has it until it ends, or this is that driver.
            raise SourceUnavailableError(
                error.message, where=error.where, hint=error.hint
            ) from error

    def _opened(self) -> UnitTable:
        upstream = self._work.upstream
        try:
            return open_unit_table(upstream, self._work.rule)
        except TableNotFoundError as error:
            # Whether it was dropped, which halts the route, is for the client to find.
            raise missing_yet(upstream.topic) from error

    def _read_own(self) -> None:
        """Find what the last SWAP of each unit was computed from."""
        for record, _ in self._record_queue.log.records(self._next_seq):
            self._next_seq = record.seq + 1
            body = record.body
            if isinstance(body, SwapRecord):
                self._note(body)

    def _note(self, body: SwapRecord) -> None:
        self._computed[body.prefix] = computed_by(body)
        self._causes[body.prefix] = next(
            (
                ReadyCause(each.ledger, each.prefix, each.version)
                for each in body.inputs
                if each.version
            ),
            None,
        )

    # One unit

    def _compute_all(
        self, table: UnitTable, due: Sequence[DueUnit], files: Mapping[str, UnitFiles]
    ) -> None:
        """Compute several units; the first error, when all are over.

        Raises:
            SluicewayError: Why one was not computed.
        """
        tables = self._work.tables()
        works = [
            self._threads.submit(self._compute, each, files[each.prefix], table, tables)
            for each in due
        ]
        failures = [work.exception() for work in works]
        self._read_own()
        fatal = (each for each in failures if isinstance(each, Fatal))
        first = next(fatal, None) or next((each for each in failures if each is not None), None)
        if first is not None:
            raise first

    def _compute(
        self,
        due: DueUnit,
        files: UnitFiles,
        table: UnitTable,
        tables: tuple[JoinedTable, ...],
    ) -> Swapped:
        started = time.monotonic()
        state = due.state
        write = self._writing(state, files, table, tables)
        reason = f"{due.reason}: slot {state.slot}, version {state.version}"
        done = swap(self._record_queue, SwapOrder(due.prefix, _RECOMPUTE, reason=reason), write)
        self._log.info(
            "unit_computed",
            unit=due.prefix,
            because=due.reason.value,
            slot=done.slot,
            rows_read=int(done.record.counts.read),
            rows_written=int(done.record.counts.written),
            wall_s=round(time.monotonic() - started, 2),
        )
        return done

    def _writing(
        self,
        state: UnitState,
        files: UnitFiles,
        table: UnitTable,
        tables: tuple[JoinedTable, ...],
    ) -> Write:
        """What computes a unit, as it is now, and writes its rows."""
        read = SwapInput(table.identity.topic_id, state.prefix, state.version, state.slot)
        query = partial(UnitQuery, self._work.query, table.table, files, tables=tables)

        def write(staging: SwapStaging) -> SwapContent:
            plan = UnitPlan(
                self._work.plan(), staging.folder.rpartition("/")[2], partition_values(state.prefix)
            )
            result = self._run_sql(state.prefix, query(output=plan))
            written = sum(int(file.rows) for file in result.files)
            return SwapContent(
                files=result.files,
                counts=unit_counts(result.read if files.rows is None else files.rows, written),
                inputs=[read],
                pins={each.name: each.pin for each in tables},
                sql=self._work.rule.fingerprint,
            )

        return write

    def computation(self, prefix: str) -> Write:
        """What computes a unit again that an operator asks for, due or not. Any thread may call.

        Raises:
            RequestRefusedError: The unit is not there, not complete yet, or no longer whole.
            SluicewayError: The table that is read cannot be read now.
        """
        with self._reading:
            table = self._read_upstream()
            now_ms = time.time_ns() // 1_000_000
            state = complete_unit(table.states(), prefix, self._work.rule, now_ms)
            files = table.files(prefix)
        return self._writing(state, files, table, self._work.tables())

    def _run_sql(self, prefix: str, query: UnitQuery) -> UnitResult:
        """The result of a run that has read each row once.

        Raises:
            FileLostError: Spark finds fewer rows than are committed.
            TaskFailedError: It has read rows twice in each run.
        """
        files = query.files
        for _ in range(_MOST_RUNS):
            reach("unit.started", prefix)
            result = self._work.sql.run(query, self._check)
            reach("unit.done", prefix)
            if files.rows is None or result.read == files.rows:
                return result
            if result.read < files.rows:
                raise FileLostError(
                    f"Spark has read {result.read} rows of the unit, its ledger has {files.rows}",
                    where=f"{self._work.upstream.topic}/{prefix}",
                    hint="`sluiceway verify JOB` of the job that fills it says what is lost",
                )
            self._log.warning("unit_again", unit=prefix, rows_read=result.read, rows=files.rows)
        raise TaskFailedError(
            f"each of {_MOST_RUNS} runs of the SQL has read rows twice", where=prefix
        )

    def _check(self) -> None:
        if self._closing.is_set():
            raise FencedError("the route is left")

    # Announcements

    def _unannounced(self) -> list[str]:
        """Units whose rows were computed after their last announcement."""

        def look(fold: Fold) -> list[str]:
            return [
                prefix
                for prefix, slot in sorted(fold.swaps.items())
                if prefix not in fold.closed or fold.closed[prefix].ready_seq < slot
            ]

        return self._record_queue.see(look)

    def _announce(self, prefixes: Iterable[str]) -> None:
        """Close and announce units; what is closed is in the ledger one turn later."""
        left = list(prefixes)
        for prefix in left:
            self._record_queue.close_prefix(prefix)
        while left:
            reach("unit.announcing", left[0])
            at_us = time.time_ns() // 1000
            asked = [
                self._record_queue.ask(
                    partial(ready_body, prefix=each, at_us=at_us, because=self._causes.get(each))
                )
                for each in left
            ]
            slots = [each.result() for each in asked]
            left = [each for each, slot in zip(left, slots, strict=True) if slot is None]
            if left and set(left).isdisjoint(self._unannounced()):
                return
