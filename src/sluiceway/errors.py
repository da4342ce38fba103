"""One tree of errors; the class says how the caller reacts.

Retriable
    Nothing changed outside; the same call may be made again after a pause.
UnknownOutcome
    The call may have landed. Read the slot or the file to find out; delete nothing.
PoisonRow
    One row cannot be converted. It becomes a dirty row; the epoch goes on.
Fatal
    An operator has to act. The route stops with a report.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple, Self


class PlacedProblem(NamedTuple):
    """One of several problems of a job file; line and column count from 1."""

    line: int
    column: int
    text: str
    todo: str


class SluicewayError(Exception):
    """Root of the tree: a stable code, what happened, where, and what to do next.

    Args:
        message: What was expected and what came, in one sentence. Holds no secret.
        where: Place in the user's terms: `file:line:column`, topic/partition/offset, table.
        hint: What the user does next, if anything.

    Attributes:
        code: Stable name, `SWnnn`.
        exit_code: Exit code of a process that ends with this error.
        mendable: Whether an operator can remove its cause, so that a new START can succeed. A route
            that halts with such an error is started again from time to time. Never so a route that
            another driver fenced, or whose ledger and source contradict each other.
        evidence: What was found, name -> value; kept with a halt.
        commands: Commands that resolve it, ready to run; `JOB` stands for the job file.
        problems: The problems of a job file, one by one; the message holds them too.
    """

    code: ClassVar[str] = "SW000"
    exit_code: ClassVar[int] = 1
    mendable: ClassVar[bool] = False

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint
        self.evidence: dict[str, str] = {}
        self.commands: tuple[str, ...] = ()
        self.problems: tuple[PlacedProblem, ...] = ()

    def with_report(self, evidence: Mapping[str, object], commands: Sequence[str] = ()) -> Self:
        """The error, with evidence and commands for the operator."""
        self.evidence = {name: str(value) for name, value in evidence.items()}
        self.commands = tuple(commands)
        return self

    def with_problems(self, problems: Iterable[PlacedProblem]) -> Self:
        """The error, with the places of its problems."""
        self.problems = tuple(problems)
        return self

    def __reduce__(self) -> tuple[object, ...]:
        given = {"where": self.where, "hint": self.hint}
        more = (self.evidence, self.commands, self.problems)
        return (_rebuild, (type(self), self.message, given, *more))

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}{self.message}{hint}"


def _rebuild(
    kind: type[SluicewayError],
    message: str,
    given: Mapping[str, str],
    evidence: dict[str, str],
    commands: tuple[str, ...],
    problems: tuple[PlacedProblem, ...],
) -> SluicewayError:
    return kind(message, **given).with_report(evidence, commands).with_problems(problems)


class Retriable(SluicewayError):
    """Nothing changed outside; repeat the same call after a pause."""

    code = "SW100"
    mendable = True


class SourceUnavailableError(Retriable):
    """The broker does not answer; offsets and rows are untouched."""

    code = "SW101"


class MetastoreUnavailableError(Retriable):
    """The metastore does not answer; its effects wait, commits go on."""

    code = "SW102"


class TaskFailedError(Retriable):
    """A task of an epoch failed; the epoch is discarded and planned again."""

    code = "SW103"


class TaskDiedError(Retriable):
    """The process of a task ended; it is not known which of the task's routes is the cause.

    Its routes then run apart; the error of a route that dies alone is a `TaskFailedError`.
    """

    code = "SW104"


class SchemaRegistryUnavailableError(Retriable):
    """The schema registry does not answer; rows are read again, and none is dirty for that."""

    code = "SW105"


class UnpublishedError(Retriable):
    """Too much is committed and not published; nothing more is committed until some of it is."""

    code = "SW106"


class KerberosUnavailableError(Retriable):
    """No KDC gives a ticket now; calls that need one wait."""

    code = "SW107"
    exit_code = 5


class KeyNotToldError(Retriable):
    """A table takes its key from its topic, which has no record yet; the route waits for one."""

    code = "SW504"


class UnknownOutcome(SluicewayError):
    """The call may or may not have landed; only reading shows it."""

    code = "SW200"
    mendable = True


class StorageUnavailableError(UnknownOutcome):
    """The store did not answer or failed half-way; read before the next step."""

    code = "SW201"


class StorageFullError(StorageUnavailableError):
    """No room is left, or a quota is used up; waited for like an outage."""

    code = "SW203"
    exit_code = 5


class StorageRefusedError(StorageUnavailableError):
    """The store answers and refuses: no permission, read-only, a file where a folder has to be.

    Waited for like an outage once a route runs; at its START the place is unfit.
    """

    code = "SW202"
    exit_code = 5


class PoisonRow(SluicewayError):
    """One row cannot be converted as the table demands."""

    code = "SW300"


class Fatal(SluicewayError):
    """An operator has to act; the route stops."""

    code = "SW400"


class JobFileError(Fatal):
    """The job file is not valid."""

    code = "SW401"
    exit_code = 3


class NotInThisVersionError(Fatal):
    """The job file or command asks for something that this version does not have."""

    code = "SW402"
    exit_code = 3


class UnhealthyEnvironmentError(Fatal):
    """Something outside the product is missing or unfit: Java, a jar, a store."""

    code = "SW403"
    exit_code = 5
    mendable = True


class TableMismatchError(Fatal):
    """The table is not what the job file says, or cannot be written faithfully."""

    code = "SW404"
    mendable = True


class TableNotFoundError(TableMismatchError):
    """The catalog answers, but does not have the table."""

    code = "SW407"
    exit_code = 5


class TopicNotFoundError(Fatal):
    """The broker answers, but does not have the topic."""

    code = "SW405"
    mendable = True


class RunnerLostError(Fatal):
    """Spark, which runs the tasks, is gone; a new process goes on from the ledger."""

    code = "SW406"


class SchemaRegistryRefusedError(Fatal):
    """The schema registry answers and refuses, or is none."""

    code = "SW408"
    exit_code = 5
    mendable = True


class KerberosRefusedError(UnhealthyEnvironmentError):
    """The realm refuses the login, or there is nothing here to log in with."""

    code = "SW409"


class DirtyLimitError(Fatal):
    """More rows are dirty than the job file allows; nothing of the epoch was committed."""

    code = "SW420"
    exit_code = 6


class AllRowsDirtyError(Fatal):
    """A run of limited length has read rows, and all of them are dirty."""

    code = "SW422"
    exit_code = 6


class SqlFailedError(Fatal):
    """The SQL of a route fails at values, and the rows that hold them cannot be found."""

    code = "SW423"
    exit_code = 6


class SchemaChangedError(Fatal):
    """The table's columns changed under a running route in a way that the route cannot follow."""

    code = "SW421"


class SubmissionError(UnhealthyEnvironmentError):
    """A cluster did not take a job, or does not answer about one."""

    code = "SW491"


class WrongUsageError(Fatal):
    """The command line asks for something that the job does not have."""

    code = "SW480"
    exit_code = 2


class StateConflictError(Fatal):
    """The ledger, the table and the source do not agree; nothing is guessed."""

    code = "SW450"
    exit_code = 7


class FencedError(StateConflictError):
    """Another driver owns the ledger's next slot. Stop; touch nothing."""

    code = "SW451"


class LeaseHeldError(StateConflictError):
    """Another live driver runs this route."""

    code = "SW452"


class NeedsConfirmationError(LeaseHeldError):
    """Another room's driver is silent, and an operator has to confirm that this room takes over."""

    code = "SW465"


class RoomNotReadyError(LeaseHeldError):
    """This room would take over, but could not work now; it waits until it can."""

    code = "SW466"


class LedgerCorruptError(StateConflictError):
    """A record is missing, altered, forged or of an unknown kind."""

    code = "SW453"


class LedgerMismatchError(StateConflictError):
    """The ledger found belongs to another table, job or route, or is gone."""

    code = "SW454"


class OffsetsLostError(StateConflictError):
    """The source no longer has what the ledger needs, or is another one."""

    code = "SW455"


class FileLostError(StateConflictError):
    """A committed file is neither staged nor at its final name."""

    code = "SW456"


class TableHistoryError(StateConflictError):
    """A lake table lost rows or history: rolled back, replaced, or older than its ledger."""

    code = "SW459"
    mendable = True


class SourceEmptiedError(StateConflictError):
    """The source reports a change of all rows of a keyed table without their keys."""

    code = "SW460"


class SourceOrderError(StateConflictError):
    """The source cannot keep the changes of one key in order, which a keyed table needs."""

    code = "SW461"


class SourceAgainError(StateConflictError):
    """The source of a keyed table sends all of its rows from the start again."""

    code = "SW462"


class RowsLetGoError(StateConflictError):
    """Rows that a reader has not read yet are no longer in the table."""

    code = "SW463"


class ReaderNameTakenError(StateConflictError):
    """Another live query reads the table under the same name."""

    code = "SW464"


class ResetRefusedError(StateConflictError):
    """Committed ends cannot be moved as asked; nothing was changed."""

    code = "SW458"


class RequestRefusedError(StateConflictError):
    """The ledger's state does not allow the request; nothing was changed."""

    code = "SW470"


class RowsDifferError(StateConflictError):
    """Rows that are to replace others are more or fewer than these; nothing was changed."""

    code = "SW471"


class InvariantError(StateConflictError):
    """An invariant of the protocol does not hold: a bug, caught before it did harm."""

    code = "SW457"
