"""What a follower is: it makes one thing outside equal to a route's log, after the commits.

It stands here because sinks give followers of their own (`TableSink.followers`) and the driver's
rooms have others; both know the ledger. `followers/runner.py` runs all of them, and alone has
threads, pauses and deadlines.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sluiceway.errors import LedgerCorruptError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import Record

PIECE_S = 2.0
"""How long a piece of work takes, as a rule: for so long others of the process may wait for it."""


@dataclass(frozen=True, slots=True)
class LogView:
    """The log as a follower may see it now. Reading it never blocks the route.

    Attributes:
        log: The log, to read; `log.check_held` is asked before anything outside is changed that has
            no fencing of its own.
        through: First slot that is not to be followed yet: all below it is committed, and all
            followers of `after` are through it.
        hasty: What is put off otherwise is done now.
        last: The route comes to its end in order.
        over: Whether the piece should end as soon as it can, with what it has. Calls no server. For
            a follower without slots it is also true once the route ends.
    """

    log: LedgerLog
    through: int
    hasty: bool = False
    last: bool = False
    over: Callable[[], bool] = lambda: False

    @property
    def layout(self) -> LedgerLayout:
        """Names of the ledger's and the table's files."""
        return self.log.layout

    def records(self, start: int) -> Iterator[Record]:
        """Records of the slots from `start` up to `through`, in order, each once.

        Raises:
            LedgerCorruptError: One of them is damaged, or gone: it was committed.
            StorageUnavailableError: The store failed.
        """
        seq = start
        if seq >= self.through:
            return
        for record, _ in self.log.records(start):
            if record.seq >= self.through:
                return
            yield record
            seq = record.seq + 1
            if seq >= self.through:
                return
        # The log reads as if it ended here: later slots would never be followed.
        raise LedgerCorruptError(
            f"slot {seq} is missing below slot {self.through}",
            where=self.log.layout.record(seq),
            hint="restore the record from a backup; never renumber the log",
        )


class Follower(ABC):
    """Makes one thing outside equal to a route's log.

    One call of `follow` at a time, from any thread; it may be repeated after any error or crash.
    A follower has no thread, no pause and no loop for ever: the runner has.

    Attributes:
        name: Name as status, metrics and logs show it.
        after: Names of followers that have to pass a slot first. Names that the route does not have
            are ignored; the route's composition refuses a circle.
        owns_table: Whether a Fatal of it halts the route: it makes the table itself.
        follows_slots: Whether its place says anything. Neither announcements nor a stop wait for a
            follower whose place says nothing.
        publishes: Whether rows are in the table only below its place. `published_through` of the
            records is the lowest place of such followers; in the end commits wait for it.
        connection: What its calls go to, for example `metastore thrift://...`. At most four pieces
            of a process use one at once, so that a dead server blocks nothing else.
    """

    name: str
    after: tuple[str, ...] = ()
    owns_table: bool = False
    follows_slots: bool = True
    publishes: bool = False
    connection: str = ""

    @abstractmethod
    def place(self) -> int:
        """Slot below which the outside is known to be equal. No call; any thread may read it.

        It moves only after what is known to have worked. What it begins with comes from the
        ledger's own fields (`fold.published_through`, `fold.effects_through`), or the outside
        itself keeps it. A process may die after any call.
        """

    def update(self, fold: Fold, since: int, *, again: bool = False) -> None:  # noqa: B027 - streams
        """Take from the fold what `follow` will need of it; quick, no calls to the outside.

        The route's own thread calls it: with `again` once at START, when the route has recovered
        its fold, then after each turn that put records. The fold is the route's and goes on
        changing: keep values, never the fold. A follower that reads only records needs nothing.

        Args:
            fold: State at the tail.
            since: First slot that is new.
            again: True at START: a call of the previous driver may still have an effect after that.
        """

    @abstractmethod
    def follow(self, view: LogView) -> int:
        """Do a bounded piece of work towards `view.through`: some seconds at most.

        Called when the place is below `view.through`, or when `rest_s` is over.

        Returns:
            The new place. An unmoved place means that it waits for what `waits` names; the runner
            calls it again after `rest_s`, or after the usual pause.

        Raises:
            Retriable, UnknownOutcome: It is called again after a pause, which grows from 1 s to
                60 s.
            Fatal: Halts the route when `owns_table`; else shown as trouble, and tried again.
        """

    def rest_s(self) -> float | None:
        """Seconds until it wants to be called though nothing new is committed; None: never.

        Called after each piece, and after `update`.
        """
        return None

    def waits(self) -> str:
        """What it waits for though no call has failed, in words; empty when for nothing.

        Any thread may call.
        """
        return ""

    def holds_up(self) -> str:
        """Why nothing more may be committed for now, in words; empty when nothing is against it.

        The route's own thread calls it before an epoch is planned, so that the lag stays bounded.
        """
        return ""

    def close(self) -> None:  # noqa: B027 - many hold nothing
        """Release what it holds. Called once, when no piece runs any more and none ever will."""
