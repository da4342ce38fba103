"""What every sink provides: on the driver a table to fill, inside a task a writer of it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluiceway.errors import NotInThisVersionError, TableMismatchError
from sluiceway.sinks.files.contract import PARQUET_FILES, FileChoice
from sluiceway.types.evolution import Columns
from sluiceway.types.schema import Field, Schema

if TYPE_CHECKING:
    # Every command reads this module, few of them read a log.
    from sluiceway.ledger.follower import Follower
    from sluiceway.ledger.log import LedgerLog
    from sluiceway.observe.log import Log


@dataclass(frozen=True, slots=True)
class TableIdentity:
    """What makes a table this table and not another of the same name.

    Attributes:
        catalog: URI of the catalog that holds it.
        database: Its database.
        name: Its name.
        created_at_s: The catalog's creation time of the table, seconds since the epoch.
        location: Root folder, as an absolute path or URI.
        uuid: UUID of the table, where its format has one; empty elsewhere.
        ledger_place: Folder of the ledger and of committed files that are not in the table yet;
            empty is `location`.
    """

    catalog: str
    database: str
    name: str
    created_at_s: int
    location: str
    uuid: str = ""
    ledger_place: str = ""

    @property
    def home(self) -> str:
        """Folder below which the ledger lies, and final names of committed files."""
        return self.ledger_place or self.location

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"


@dataclass(frozen=True, slots=True)
class TableState:
    """The table as the catalog describes it now.

    Attributes:
        identity: Which table.
        schema: Data columns, without partition columns.
        partition_columns: Names, in path order.
        ledger: Value of the table property `sluiceway.ledger`; None when absent.
        files: How new files are written: as the table's own properties say, else the job file.
        warnings: What a person should know of the table, in words.
        columns: Data columns as the catalog has them.
        further: Columns that the job file does not declare, for a route that takes them up.
        lacking: What the table does not have yet, though `columns` says all else as if it had. The
            route has them added (`TableSink.add_columns`) before anything is read for it.
    """

    identity: TableIdentity
    schema: Schema
    partition_columns: tuple[str, ...]
    ledger: str | None
    files: FileChoice = PARQUET_FILES
    warnings: tuple[str, ...] = ()
    columns: Columns = ()
    further: tuple[Field, ...] = ()
    lacking: "tuple[ColumnToHave, ...]" = ()


@dataclass(frozen=True, slots=True)
class ColumnToHave:
    """A data column that a table shall have.

    Attributes:
        name: Name in lower case.
        type: Hive's type text; of a column that is there, with further fields in structs.
        key: Key in the payload.
        timezone: Zone of times in it that name none; empty where it has no such times.
    """

    name: str
    type: str
    key: str
    timezone: str = ""


@dataclass(frozen=True, slots=True)
class ColumnsRefused:
    """Columns that a table cannot get, and why; the table is as it was."""

    reason: str


@dataclass(frozen=True, slots=True)
class DesiredPartition:
    """How the fold of the ledger says that a partition must be.

    Attributes:
        values: Raw (not escaped) values in the order of the partition columns.
        location: Folder, absolute.
        first: Folder that it was at first; empty when it has never been elsewhere.
        moves: What the absolute names of all other folders begin with that this ledger may ever
            have given it.
        exists: Whether it must be there; else it must not be, with a folder of this ledger.
        announced: Whether it was announced as complete.
        swapped: Slot of the SWAP that has placed it last; -1 without one. Readers find all
            partitions of one SWAP in their new folders, or none.
    """

    values: tuple[str, ...]
    location: str
    first: str = ""
    moves: str = ""
    exists: bool = True
    announced: bool = False
    swapped: int = -1


@dataclass(frozen=True, slots=True)
class ParkedPartition:
    """A partition that the catalog holds in a way that we must not change, and why."""

    values: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class FollowedRoute:
    """What a route lends the followers of its table, from START until it is left.

    Attributes:
        name: Name of the route.
        ledger: The ledger's uuid.
        log: The route's log; its `storage` and `layout` are where staged and final files are.
        state: The table as START found it.
        events: Log for people.
        published_through: As the fold has it at START: where a sink that publishes goes on.
        effects_through: As the fold has it at START.
        note_effects: Called with the slot below which the catalog has what the records ask for;
            it is written into each record from then on. Any thread may call.
    """

    name: str
    ledger: str
    log: "LedgerLog"
    state: TableState
    events: "Log"
    published_through: int
    effects_through: int
    note_effects: Callable[[int], None]


class TableSink(ABC):
    """The driver's view of a table. Calls block at most the client's own time-out."""

    @abstractmethod
    def open(self) -> TableState:
        """Find the table, create it when the job file says so, check that it can be written.

        Called again when a route comes back. A table that this object has found before is never
        created: a user has dropped it.

        Raises:
            TableMismatchError: Missing, dropped, a view, transactional, bucketed, of another
                format, or its columns differ from the job file; says which.
            MetastoreUnavailableError: The catalog does not answer.
        """

    @abstractmethod
    def mark_ledger(self, state: TableState, ledger: str) -> None:
        """Set the property `sluiceway.ledger` where it is absent. Safe to repeat.

        Raises:
            LedgerMismatchError: It holds another value.
            MetastoreUnavailableError: The catalog does not answer.
        """

    def move_ledger(self, state: TableState, held: str, ledger: str) -> None:
        """Replace the property `sluiceway.ledger` by one of the same ledger. Safe to repeat.

        Called when a copy of the table is adopted whose catalog is a copy too.

        Args:
            state: The table.
            held: What the property is.
            ledger: What it shall be.

        Raises:
            NotInThisVersionError: This catalog does not change it, as here.
            LedgerMismatchError: It holds another value.
            MetastoreUnavailableError: The catalog does not answer.
        """
        del state, held, ledger
        raise _not_looked_at("move_ledger")

    def find(self) -> TableIdentity:
        """The table, when it exists. Called by commands that need its ledger; creates nothing.

        Raises:
            TableNotFoundError: It does not exist.
            NotInThisVersionError: This catalog is not asked without a driver, as here.
            MetastoreUnavailableError: The catalog does not answer.
        """
        raise _not_looked_at("find")

    def foresee(self) -> "PlannedTable":
        """What `open` would find or create, for `plan`, `preview`, `doctor`; changes nothing.

        Raises:
            TableMismatchError: As `open`.
            TableNotFoundError: It is missing, and the job file does not have it created.
            NotInThisVersionError: This catalog is not asked without a driver, as here.
            MetastoreUnavailableError: The catalog does not answer.
        """
        raise _not_looked_at("foresee")

    def inspect(self) -> "InspectedTable":
        """The table, when it exists, for `verify` and `offsets`; changes nothing.

        Raises:
            TableNotFoundError: It does not exist.
            NotInThisVersionError: This catalog is not asked without a driver, as here.
            MetastoreUnavailableError: The catalog does not answer.
        """
        raise _not_looked_at("inspect")

    def followers(self, route: FollowedRoute) -> "tuple[Follower, ...]":
        """What makes the table equal to the log, as followers of their own.

        Called once at each START of the route, when its ledger is held and before anything is
        recovered; they are closed before the sink is. They may use the sink's own client.

        Returns:
            None of them: the driver itself links staged files to their final names below the
            table's location, and shows partitions by `apply`. Else, where none of them `publishes`,
            the driver puts one named `files` before them. It links staged files to their final
            names below `TableIdentity.home`.
        """
        del route
        return ()

    @abstractmethod
    def apply(self, partitions: Sequence[DesiredPartition]) -> tuple[ParkedPartition, ...]:
        """Make the catalog equal to the desired partitions; idempotent, in batches.

        A partition at another folder that this ledger has given it is put right; one at a foreign
        folder is left alone. No file is touched.

        Returns:
            Partitions that were left alone: a foreign location, another format.

        Raises:
            MetastoreUnavailableError: The catalog does not answer; call again later.
            TableMismatchError: The table was dropped or created again.
        """

    def shown(self, partitions: Sequence[DesiredPartition]) -> dict[tuple[str, ...], str] | None:
        """Read back where readers find these partitions now, as locations by their values.

        Asked before a folder is removed that a partition has left.

        Returns:
            None when the catalog cannot say: no such folder is ever removed then.

        Raises:
            MetastoreUnavailableError: The catalog does not answer.
            TableMismatchError: The table was dropped or created again.
        """
        del partitions
        return None

    def observed_columns(self) -> Columns | None:
        """Data columns when the table was last read. No call to the catalog; any thread may call.

        None where changes of columns are not watched, as here. It is never older than
        what `add_columns` has returned.
        """
        return None

    def observed_state(self) -> TableState:
        """The table when it was last read, as `open` describes it. No call to the catalog.

        Called when `observed_columns` has changed.

        Raises:
            TableMismatchError: It is not what the job file says any more.
        """
        raise TableMismatchError("this catalog does not watch columns")

    def add_columns(self, columns: Sequence[ColumnToHave]) -> TableState | ColumnsRefused:
        """Add data columns, and fields to structs, in the table and in all its partitions.

        Safe to repeat; a column that is there already stays. Called by the thread of a commit,
        perhaps while another one applies partitions.

        Returns:
            The table with them; or why the catalog or the table's format takes none of them.

        Raises:
            TableMismatchError: The table is gone, or another one.
            MetastoreUnavailableError: The catalog does not answer; the columns may be there or not.
        """
        del columns
        return ColumnsRefused("this catalog does not add columns")

    def mark_complete(self, until_us: int) -> None:  # noqa: B027 - a catalog may have no place
        """Let the table say that all its partitions that end by then are complete.

        Called after they are in the catalog, again after a crash. What a table says never falls.

        Args:
            until_us: Microseconds since the epoch, UTC.

        Raises:
            MetastoreUnavailableError: The catalog does not answer; call again later.
            TableMismatchError: The table was dropped or created again.
        """

    @abstractmethod
    def close(self) -> None:
        """Release connections. Safe to repeat."""


def _not_looked_at(method: str) -> NotInThisVersionError:
    return NotInThisVersionError(
        "the plug-in of this table's catalog cannot be asked without a driver",
        hint=f"`run` works; its sink has to give `{method}` (docs/contributors/plugins.md)",
    )


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A table as it is, or as it would be made.

    Attributes:
        name: `database.table`.
        home: Folder of the ledger, a guess while the table is missing; empty where only its
            catalog knows, once it is created.
        state: What the route would make of it.
        exists: Whether it is there.
        statement: Statement that would make the table, or the columns that it lacks; empty when it
            is whole.
        home_to_be: `home` for people, where a part of its name is known only once the
            table is created, as `/wh/_sluiceway/orders-<uuid>`; empty where `home` is true.
    """

    name: str
    home: str
    state: TableState
    exists: bool
    statement: str
    home_to_be: str = ""


Values = tuple[str, ...]
"""Values of a partition, as the catalog writes them."""


@dataclass(frozen=True, slots=True)
class ShownPartition:
    """A partition as readers find it.

    Attributes:
        location: Folder, as the catalog writes it.
        differences: From how the table says that rows are read, in words.
    """

    location: str
    differences: tuple[str, ...] = ()


class InspectedTable(ABC):
    """A table that exists, as it was when it was asked for. Used until its sink is closed.

    Attributes:
        identity: Which table, and where its ledger lies.
        ledger: Value of its property `sluiceway.ledger`; None when absent.
    """

    identity: TableIdentity
    ledger: str | None

    @abstractmethod
    def state(self) -> TableState:
        """The table as a driver's start would take it.

        Raises:
            TableMismatchError: It would not: the table is not what the job file says.
        """

    def files(self) -> FileChoice:
        """How its files are written; also of a table that a start would refuse."""
        return PARQUET_FILES

    @abstractmethod
    def partitions(self, wanted: Sequence[Values]) -> dict[Values, ShownPartition]:
        """The wanted partitions that the catalog has; it is asked at each call.

        Raises:
            MetastoreUnavailableError: The catalog does not answer.
        """

    @abstractmethod
    def other_partitions(self, wanted: Sequence[Values]) -> dict[Values, ShownPartition]:
        """All partitions that the catalog has in addition to these; as `partitions`."""
