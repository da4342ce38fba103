"""Problems of a job file, as values, and the error that carries them."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from sluiceway.errors import Fatal, JobFileError, NotInThisVersionError, PlacedProblem

MAX_SHOWN = 100
_MAX_QUOTED = 60


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place in the file; both count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class JobFileProblem:
    """One problem.

    Attributes:
        mark: Place of the problem.
        text: What was expected and what came. Holds no secret.
        todo: What to do.
        not_yet: True when the design has it and this version does not.
    """

    mark: Mark
    text: str
    todo: str
    not_yet: bool = False


def quoted(text: str) -> str:
    """Text for a message: between backquotes, on one line, cut when long.

    Characters that a terminal would not show (controls, marks that turn the direction of writing)
    are escaped. So a message cannot pretend to say something else.
    """
    line = " ".join(text.split())
    if not line.isprintable():
        shown = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
        line = "".join(shown)
    return f"`{line if len(line) <= _MAX_QUOTED else line[: _MAX_QUOTED - 3] + '...'}`"


def undeclared(name: str, known: Iterable[str], called: str = "it") -> str:
    """What to do about a column that is not declared: the probable name, or the choices.

    Args:
        name: The name as it is written.
        known: Names of the declared columns, in lower case.
        called: What the message calls the column.
    """
    close = get_close_matches(name[:_MAX_QUOTED].lower(), list(known), n=1)
    todo = f"declare {called} under table.columns"
    return f"did you mean {quoted(close[0])}? Else {todo}" if close else todo


def job_file_error(source: str, problems: Iterable[JobFileProblem]) -> Fatal:
    """Make the error that names every problem, in file order.

    Called by the loader, and by later checks that know the job file's positions.

    Args:
        source: The path as the user gave it.
        problems: At least one.

    Returns:
        NotInThisVersionError when all of them are of that kind, else JobFileError. Each line of its
        message after the first is `file:line:column: expected, got; what to do`.
    """
    ordered = sorted(set(problems))
    lines = [
        f"{source}:{problem.mark.line}:{problem.mark.column}: {problem.text}; {problem.todo}"
        for problem in ordered[:MAX_SHOWN]
    ]
    if len(ordered) > MAX_SHOWN:
        lines.append(f"and {len(ordered) - MAX_SHOWN} more")
    count = "1 problem" if len(ordered) == 1 else f"{len(ordered)} problems"
    message = "\n  ".join([count, *lines])
    not_yet = all(problem.not_yet for problem in ordered)
    kind = NotInThisVersionError if not_yet else JobFileError
    placed = (PlacedProblem(p.mark.line, p.mark.column, p.text, p.todo) for p in ordered)
    return kind(message, where=source).with_problems(placed)
