"""What a person needs who has to act: what, where, evidence, and the commands that resolve it."""

from dataclasses import dataclass

from sluiceway.errors import (
    FencedError,
    FileLostError,
    InvariantError,
    JobFileError,
    LeaseHeldError,
    LedgerCorruptError,
    LedgerMismatchError,
    OffsetsLostError,
    SluicewayError,
    TableMismatchError,
    TopicNotFoundError,
    UnhealthyEnvironmentError,
)

RUN_AGAIN = "sluiceway run JOB"
"""What starts a halted route where no driver of its job lives."""
_VERIFY = "sluiceway verify JOB --route {route}"
_LEDGER = "sluiceway ledger show JOB --route {route}"
_STATUS = "sluiceway status JOB"
_OFFSETS = "sluiceway offsets show JOB --route {route}"

_COMMANDS: dict[type[SluicewayError], tuple[str, ...]] = {
    FencedError: (_STATUS, _LEDGER),
    LeaseHeldError: (_STATUS,),
    LedgerCorruptError: (_LEDGER, _VERIFY),
    LedgerMismatchError: (_STATUS, _LEDGER),
    OffsetsLostError: (_OFFSETS,),
    FileLostError: (_VERIFY, RUN_AGAIN),
    InvariantError: (_VERIFY, _LEDGER),
    TableMismatchError: ("sluiceway validate JOB", RUN_AGAIN),
    JobFileError: ("sluiceway validate JOB", RUN_AGAIN),
    TopicNotFoundError: (_OFFSETS, RUN_AGAIN),
    UnhealthyEnvironmentError: (_STATUS, RUN_AGAIN),
}


@dataclass(frozen=True, slots=True)
class HaltReport:
    """Why a route stands still, for a person.

    Attributes:
        what: What was expected and what came.
        where: Path, table or source partition; empty when it is the route.
        hint: What to do, in words.
        evidence: What was found, name -> value.
        commands: Commands that show the state and that resolve it; `JOB` is the job file.
    """

    what: str
    where: str
    hint: str
    evidence: dict[str, str]
    commands: tuple[str, ...]


def halt_report(error: SluicewayError, route: str) -> HaltReport:
    """The report of a route's halt. An error that brings its own commands keeps them."""
    commands = error.commands or next(
        (_COMMANDS[kind] for kind in type(error).__mro__ if kind in _COMMANDS), (_VERIFY, RUN_AGAIN)
    )
    return HaltReport(
        what=error.message,
        where=error.where,
        hint=error.hint,
        evidence=dict(error.evidence),
        commands=tuple(command.replace("{route}", route) for command in commands),
    )
