"""A table over a route's late place, which follows the commits (commit rule 16).

It reads the log and shows the partition of each published late file. Each step finds what was done
before, so all may be repeated; the place in the log only saves work. A metastore that is down, or a
table that is not ours, stops only this follower.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sluiceway.errors import TableMismatchError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.driver_term import OwnedLedger, ledger_property
from sluiceway.ledger.follower import PIECE_S, Follower, LogView
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import EpochRecord
from sluiceway.observe.log import Log
from sluiceway.sinks.contract import DesiredPartition
from sluiceway.sinks.partition_path import catalog_values
from sluiceway.sinks.registry import open_late_table
from sluiceway.sinks.side_tables import LateRowsTable
from sluiceway.types.strict_json import StrictJsonError, decode, encode

# Longest delay of a column that the route's own table has got, while no row is late.
_COMPARE_EVERY_S: Final = 30.0
_PARKED_RETRY_S: Final = 60.0
_KEEP_EVERY: Final = 1_000
_MOST: Final = 1_000
_MOST_REMEMBERED: Final = 100_000

DesiredByValues = dict[tuple[str, ...], DesiredPartition]


@dataclass(frozen=True, slots=True)
class LateShown:
    """How far a table shows late files: kept next to the ledger.

    Attributes:
        table: `database.table`.
        created_at_s: Creation time of the table, seconds since 1970: a table of the same name that
            was dropped has another.
        through: Slot below which all late files are shown.
    """

    table: str
    created_at_s: int
    through: int


def late_follower(config: RouteConfig, owned: OwnedLedger, log: Log) -> "LateTableFollower | None":
    """The follower of a route; None without a table over late rows."""
    table = late_table_of(config, owned.layout, ledger_property(owned.owner))
    if table is None:
        return None
    made = LateTableFollower(owned.log, table, log)
    made.connection = f"catalog {config.table.metastore}"
    return made


def late_table_of(config: RouteConfig, layout: LedgerLayout, ledger: str) -> LateRowsTable | None:
    """The table over a route's late place, not yet found; None without one.

    Args:
        config: The route.
        layout: Layout of the route's own table.
        ledger: Value of the property `sluiceway.ledger` of both tables.
    """
    name = config.late_table_name
    if name is None:
        return None
    return open_late_table(
        config.table, name, ledger=ledger, place=layout.late, stores=config.stores
    )


class LateTableFollower(Follower):
    """Shows the late files of one route in its late table.

    Args:
        ledger: Log of the route.
        table: The table over late rows; closed here.
        log: Gets events about partitions that were left alone.
    """

    name = "late_table"
    after: tuple[str, ...] = ("files",)

    def __init__(self, ledger: LedgerLog, table: LateRowsTable, log: Log) -> None:
        self._log = ledger
        self._table = table
        self._events = log
        self._made_at_s = 0
        self._through = 0
        self._kept = 0
        self._shown: set[tuple[str, ...]] = set()
        self._parked: DesiredByValues = {}
        self._told: dict[tuple[str, ...], str] = {}
        self._compare_due = self._retry_due = 0.0
        self._begun = False
        self._left_alone = 0

    def place(self) -> int:
        """See `Follower.place`: a partition that was left alone does not hold it."""
        return self._through

    def waits(self) -> str:
        """See `Follower.waits`."""
        if not self._left_alone:
            return ""
        return f"{self._table}: {self._left_alone} partitions were left alone, see the log"

    def rest_s(self) -> float | None:
        """See `Follower.rest_s`: the tables are compared from time to time."""
        due = min(self._compare_due, self._retry_due) if self._parked else self._compare_due
        return max(0.0, due - time.monotonic())

    def close(self) -> None:
        """See `Follower.close`."""
        self._table.close()

    def follow(self, view: LogView) -> int:
        """See `Follower.follow`: show published files.

        Raises:
            TableMismatchError: The table is not suitable for late rows, or was dropped.
            SluicewayError: Store or metastore do not answer.
        """
        try:
            if not self._begun:
                self._begin()
            self._go_on(view)
        except BaseException:
            # After any error the table is opened again, and the work goes on from its place.
            self._begun = False
            raise
        return self._through

    def _begin(self) -> None:
        """Find or create the table, and the place where the work stopped."""
        path = self._log.layout.late_shown
        self._log.check_held()
        if not self._table.find():
            # A new table shows nothing yet, however far a dropped one was.
            self._log.storage.remove(path)
            self._table.make()
            self._events.info("late_table_made", table=str(self._table))
        self._table.follow()
        self._made_at_s = self._table.created_at_s
        self._parked, self._shown = {}, set()
        self._kept = self._through = self._recalled()
        self._begun = True
        self._compare_due = time.monotonic() + _COMPARE_EVERY_S

    def _recalled(self) -> int:
        """Slot below which the table shows all late files, as far as is known."""
        raw = self._log.storage.read(self._log.layout.late_shown)
        try:
            shown = None if raw is None else decode(raw, LateShown)
        except StrictJsonError as error:
            # Only a hint: without it each partition is checked again.
            self._events.info("late_table_from_the_start", error=str(error))
            shown = None
        now = (str(self._table), self._made_at_s)
        return shown.through if shown and (shown.table, shown.created_at_s) == now else 0

    def _go_on(self, view: LogView) -> None:
        """Show published files, for a short while."""
        now = time.monotonic()
        if self._parked and now >= self._retry_due:
            self._show(dict(self._parked), self._through)
            self._keep(force=True)
            self._retry_due = now + _PARKED_RETRY_S
        for wanted, below in self._batches(view):
            if wanted:
                self._show(wanted, below)
            self._through = below
            self._keep(force=bool(wanted))
            if view.over() or time.monotonic() >= now + PIECE_S:
                return
        if now >= self._compare_due:
            self._compare()

    def _batches(self, view: LogView) -> Iterator[tuple[DesiredByValues, int]]:
        """Partitions of the late files from the place on, and the slot after each batch.

        Raises:
            LedgerCorruptError: A record is damaged or gone.
            StorageUnavailableError: The store failed.
        """
        if self._through >= view.through:
            return
        wanted: DesiredByValues = {}
        for record in view.records(self._through):
            if isinstance(record.body, EpochRecord):
                for file in record.body.late_files:
                    values = catalog_values(file.values)
                    if values not in self._shown:
                        folder = self._log.layout.final(file.final).rpartition("/")[0]
                        wanted[values] = DesiredPartition(values, folder)
            if len(wanted) >= _MOST:
                yield wanted, record.seq + 1
                wanted = {}
        yield wanted, view.through

    def _show(self, wanted: DesiredByValues, below: int) -> None:
        self._compare()
        left = {
            catalog_values(each.values): each.reason
            for each in self._table.show(list(wanted.values()))
        }
        if not self._parked:
            self._retry_due = time.monotonic() + _PARKED_RETRY_S
        for values, partition in wanted.items():
            if values in left:
                self._parked[values] = partition
                self._log_conflict(values, left[values])
            else:
                self._parked.pop(values, None)
                self._told.pop(values, None)
        self._left_alone = len(self._parked)
        if len(self._shown) > _MOST_REMEMBERED:
            self._shown.clear()
        self._shown |= wanted.keys() - left.keys()
        if len(wanted) > len(left):
            shown = len(wanted) - len(left)
            self._events.info("late_partitions_shown", partitions=shown, through=below)

    def _log_conflict(self, values: tuple[str, ...], reason: str) -> None:
        if self._told.get(values) != reason:
            self._told[values] = reason
            self._events.warning(
                "late_partition_conflict",
                table=str(self._table),
                values="/".join(values),
                reason=reason,
            )

    def _compare(self) -> None:
        """Compare the tables; the late one gets the columns of the other one."""
        self._log.check_held()
        if not self._table.find() or self._table.created_at_s != self._made_at_s:
            raise TableMismatchError(
                "the table was dropped",
                where=str(self._table),
                hint="all that came late is shown again; take `late_table` out of the job file to "
                "be rid of the table",
            )
        self._table.follow()
        self._compare_due = time.monotonic() + _COMPARE_EVERY_S

    def _keep(self, *, force: bool) -> None:
        """Write the place, unless a file before it is still to be shown."""
        if self._parked or not (force or self._through - self._kept >= _KEEP_EVERY):
            return
        shown = LateShown(str(self._table), self._made_at_s, self._through)
        self._log.storage.overwrite(self._log.layout.late_shown, encode(shown))
        self._kept = self._through
