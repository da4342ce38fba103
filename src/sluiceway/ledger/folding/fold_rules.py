"""How a fold refuses a record: the rule that does not hold, and what to do next."""

from sluiceway.errors import InvariantError


def is_contained(relative: str) -> bool:
    """Whether a name stays inside the folder that it is relative to."""
    parts = relative.split("/")
    return not any(part in ("", ".", "..") for part in parts) and "\0" not in relative


def require(holds: bool, rule: str, message: str) -> None:  # noqa: FBT001
    """Refuse unless the rule holds.

    Raises:
        InvariantError: It does not; names the rule.
    """
    if not holds:
        raise violation(rule, message)


def violation(rule: str, message: str) -> InvariantError:
    """The error for a rule that does not hold."""
    return InvariantError(
        f"{rule} does not hold: {message}",
        hint="keep the table and its _sluiceway folder as they are and run `sluiceway verify JOB`",
    )
