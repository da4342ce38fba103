"""Has a table of its own follow a route's late place, behind the commits (commit rule 16).

A thread reads the log and shows the partition of each late file that is published. Each step finds
what was done before, so all may be repeated; the place in the log only saves work. A metastore
that is down, or a table that is none of ours, stops this and nothing else.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from sluiceway.catalog.metastore import MetastoreClient
from sluiceway.errors import Fatal, LedgerCorruptError, SluicewayError, TableMismatchError
from sluiceway.job.config import RouteConfig
from sluiceway.job.desk import BackgroundWork
from sluiceway.job.ownership import ledger_property
from sluiceway.job.takeover import OwnedLedger
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import EpochRecord
from sluiceway.observe.log import Log
from sluiceway.sinks.contract import DesiredPartition
from sluiceway.sinks.hive.late_table import LateTable
from sluiceway.sinks.hive.partition_path import metastore_values
from sluiceway.types.strict_json import StrictJsonError, decode, encode

_LOOK_EVERY_S: Final = 1.0
# How long a column may take that the route's own table has got, while no row is late.
_COMPARE_EVERY_S: Final = 30.0
_PARKED_RETRY_S: Final = 60.0
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
_LAST_WAIT_S: Final = 5.0
_KEEP_EVERY: Final = 1_000
_MOST: Final = 1_000
_MOST_REMEMBERED: Final = 100_000

Wanted = dict[tuple[str, ...], DesiredPartition]


@dataclass(frozen=True, slots=True)
class LateShown:
    """How far a table shows what came late: kept beside the ledger.

    Attributes:
        table: `database.table`.
        created_at_s: Tells it from one of the same name that was dropped.
        through: Slot below which all late files are shown.
    """

    table: str
    created_at_s: int
    through: int


def begin(config: RouteConfig, owned: OwnedLedger, eyes: Log) -> "LateTableFollower | None":
    """Begin to follow. Called once the route has recovered; None where no table is asked for."""
    table = late_table_of(config, owned.layout, ledger_property(owned.owner))
    if table is None:
        return None
    return LateTableFollower(owned.log, lambda: owned.fold.published_through, table, eyes)


def late_table_of(config: RouteConfig, layout: LedgerLayout, ledger: str) -> LateTable | None:
    """The table over a route's late place, not yet found; None where no table is asked for.

    Args:
        config: The route.
        layout: Of its own table.
        ledger: What the property `sluiceway.ledger` of both says.
    """
    name, hive = config.late_table_name, config.hive
    if name is None:
        return None
    client = MetastoreClient(hive.metastore, hive.timeout_s)
    main = f"{hive.database}.{hive.table}"
    return LateTable(client, main, name, ledger=ledger, place=layout.late)


class LateTableFollower(BackgroundWork):
    """Of one route, from its START to its end, in a thread of its own.

    Args:
        log: Of the route.
        published: Slot below which all files are at their final names; any thread may call.
        table: What shows them; closed here.
        eyes: Told of waits and of what was left alone.
    """

    def __init__(
        self, log: LedgerLog, published: Callable[[], int], table: LateTable, eyes: Log
    ) -> None:
        self._log = log
        self._published = published
        self._table = table
        self._eyes = eyes
        self._made_at_s = 0
        self._through = 0
        self._kept = 0
        self._shown: set[tuple[str, ...]] = set()
        self._parked: Wanted = {}
        self._told: dict[tuple[str, ...], str] = {}
        self._compare_due = self._retry_due = 0.0
        self._pause_s = _FIRST_PAUSE_S
        self._state = threading.Condition()
        self._trouble: SluicewayError | None = None
        self._waits = ""
        self._left_alone = 0
        self._in_haste = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="late_table", daemon=True)
        self._thread.start()

    @property
    def troubles(self) -> tuple[str, ...]:
        """Why the table does not show all late rows; none when it does. Any thread may ask."""
        waits = self._waits
        found = [waits] if waits else []
        if self._left_alone:
            found.append(f"{self._left_alone} partitions were left alone, see the log")
        return tuple(f"table of late rows {self._table}: {each}" for each in found)

    def settle(self, timeout_s: float) -> bool:
        """Wait until the table shows all that is published. Called at the end of a run.

        Returns:
            False when the time is over first, or the table is one that cannot.
        """
        through = self._published()
        with self._state:
            self._in_haste = True
            self._state.notify_all()
            self._state.wait_for(
                lambda: self._through >= through or isinstance(self._trouble, Fatal), timeout_s
            )
            return self._through >= through

    def close(self) -> None:
        """Stop; the next driver goes on from what was kept. Safe to repeat."""
        with self._state:
            self._closed = True
            self._state.notify_all()
        self._thread.join(_LAST_WAIT_S)

    def _run(self) -> None:
        try:
            while not self._closed:
                try:
                    self._begin()
                    self._go_on()
                except SluicewayError as error:
                    self._note_trouble(error, error.code, str(error), self._pause_s)
                except Exception as error:  # noqa: BLE001 - the thread's boundary: never silent
                    text = f"{type(error).__name__}: {error}"
                    self._note_trouble(None, "", text, self._pause_s)
                self._rest(self._pause_s)
                self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)
        finally:
            self._table.close()

    def _begin(self) -> None:
        """Find the table, or make it, and where it was left."""
        path = self._log.layout.late_shown
        if not self._table.find():
            # A new one shows nothing yet, however far the one before it was.
            self._log.storage.remove(path)
            self._table.make()
            self._eyes.info("late_table_made", table=str(self._table))
        self._table.follow()
        self._made_at_s = self._table.created_at_s
        self._parked, self._shown = {}, set()
        self._kept = self._recalled()
        self._note_through(self._kept)
        self._compare_due = time.monotonic() + _COMPARE_EVERY_S

    def _recalled(self) -> int:
        """Slot below which the table shows all late files, as far as is known."""
        raw = self._log.storage.read(self._log.layout.late_shown)
        try:
            shown = None if raw is None else decode(raw, LateShown)
        except StrictJsonError as error:
            # Advice only: without it each partition is looked at again.
            self._eyes.info("late_table_from_the_start", error=str(error))
            shown = None
        now = (str(self._table), self._made_at_s)
        return shown.through if shown and (shown.table, shown.created_at_s) == now else 0

    def _go_on(self) -> None:
        """Show what there is, and what comes, until the end."""
        while not self._closed:
            through, now = self._published(), time.monotonic()
            if self._parked and now >= self._retry_due:
                self._show(dict(self._parked), self._through)
                self._keep(force=True)
                self._retry_due = now + _PARKED_RETRY_S
            for wanted, below in self._batches(through):
                if wanted:
                    self._show(wanted, below)
                self._note_through(below)
                self._keep(force=bool(wanted))
                self._pause_s = _FIRST_PAUSE_S
                if self._closed:
                    return
            if now >= self._compare_due:
                self._compare()
            # Not where the tables are found only: each try reads the log again.
            self._pause_s = _FIRST_PAUSE_S
            self._rest(_LOOK_EVERY_S)

    def _batches(self, through: int) -> Iterator[tuple[Wanted, int]]:
        """Partitions of the late files from the place on, and the slot behind each batch.

        Raises:
            LedgerCorruptError: A record is damaged or gone.
            StorageUnavailableError: The store failed.
        """
        if self._through >= through:
            return
        wanted: Wanted = {}
        next_seq = self._through
        for record, _ in self._log.records(next_seq):
            if record.seq >= through or self._closed:
                break
            next_seq = record.seq + 1
            if isinstance(record.body, EpochRecord):
                for file in record.body.late_files:
                    values = metastore_values(file.values)
                    if values not in self._shown:
                        folder = self._log.layout.final(file.final).rpartition("/")[0]
                        wanted[values] = DesiredPartition(values, folder)
            if len(wanted) >= _MOST:
                yield wanted, next_seq
                wanted = {}
        if self._closed:
            return
        if next_seq < through:
            # The log reads as if it ended here: what lies behind would never be shown.
            raise LedgerCorruptError(
                f"slot {next_seq} is missing below slot {through}",
                where=self._log.layout.record(next_seq),
                hint="restore the record from a backup; never renumber the log",
            )
        yield wanted, through

    def _show(self, wanted: Wanted, below: int) -> None:
        self._compare()
        left = {
            metastore_values(each.values): each.reason
            for each in self._table.show(list(wanted.values()))
        }
        if not self._parked:
            self._retry_due = time.monotonic() + _PARKED_RETRY_S
        for values, partition in wanted.items():
            if values in left:
                self._parked[values] = partition
                self._tell_parked(values, left[values])
            else:
                self._parked.pop(values, None)
                self._told.pop(values, None)
        self._left_alone = len(self._parked)
        if len(self._shown) > _MOST_REMEMBERED:
            self._shown.clear()
        self._shown |= wanted.keys() - left.keys()
        if len(wanted) > len(left):
            shown = len(wanted) - len(left)
            self._eyes.info("late_partitions_shown", partitions=shown, through=below)

    def _tell_parked(self, values: tuple[str, ...], reason: str) -> None:
        if self._told.get(values) != reason:
            self._told[values] = reason
            self._eyes.warning(
                "late_partition_parked",
                table=str(self._table),
                values="/".join(values),
                reason=reason,
            )

    def _compare(self) -> None:
        """Look at the tables again; the late one gets the columns that the other one has."""
        if not self._table.find() or self._table.created_at_s != self._made_at_s:
            raise TableMismatchError(
                "the table was dropped",
                where=str(self._table),
                hint="all that came late is shown anew; take `late_table` out of the job file to "
                "be rid of the table",
            )
        self._table.follow()
        self._compare_due = time.monotonic() + _COMPARE_EVERY_S

    def _keep(self, *, force: bool) -> None:
        """Keep the place, unless something before it is still to be shown."""
        if self._parked or not (force or self._through - self._kept >= _KEEP_EVERY):
            return
        shown = LateShown(str(self._table), self._made_at_s, self._through)
        self._log.storage.overwrite(self._log.layout.late_shown, encode(shown))
        self._kept = self._through

    def _note_through(self, through: int) -> None:
        with self._state:
            self._through = through
            self._trouble, self._waits = None, ""
            self._state.notify_all()

    def _note_trouble(
        self, error: SluicewayError | None, code: str, text: str, pause_s: float
    ) -> None:
        self._eyes.warning(
            "late_table_waits",
            table=str(self._table),
            code=code,
            error=text,
            retry_in_s=pause_s,
        )
        with self._state:
            self._trouble, self._waits = error, text
            self._state.notify_all()

    def _rest(self, pause_s: float) -> None:
        """Wait for what comes; at the end of a run not for long."""
        with self._state:
            if self._in_haste and self._through < self._published():
                pause_s = min(pause_s, _FIRST_PAUSE_S)
            hasty = self._in_haste
            self._state.wait_for(lambda: self._closed or self._in_haste != hasty, pause_s)
