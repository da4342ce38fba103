"""On which nodes pods may go, and how they are labelled: what an operator writes in one word."""

import re
from collections.abc import Sequence
from typing import Any

from sluiceway.errors import WrongUsageError

_PAIR = re.compile(r"([A-Za-z0-9][\w./-]*)=([A-Za-z0-9][\w.-]*|)")
_TOLERATION = re.compile(r"([A-Za-z0-9][\w./-]*)(?:=([\w.-]*))?(?::(\w+))?")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Labels, each written as `key=value`.

    Args:
        option: Named by the error.
        texts: As they were given.

    Raises:
        WrongUsageError: One is none.
    """
    found = {}
    for text in texts:
        match = _PAIR.fullmatch(text)
        if match is None:
            raise WrongUsageError(
                f"{option} {text!r} is no label", hint=f"write {option} key=value"
            )
        found[match[1]] = match[2]
    return found


def toleration(text: str) -> dict[str, Any]:
    """What `kubectl taint` would write: `key=value:effect`, `key:effect`, `key=value` or `key`.

    Without an effect all of them are tolerated.

    Raises:
        WrongUsageError: It is none.
    """
    match = _TOLERATION.fullmatch(text)
    if match is None or match[3] not in (None, *_EFFECTS):
        raise WrongUsageError(
            f"--toleration {text!r} is none",
            hint=f"write key=value:effect; effects: {', '.join(_EFFECTS)}",
        )
    key, value, effect = match[1], match[2], match[3]
    made: dict[str, Any] = {"key": key, "operator": "Exists" if value is None else "Equal"}
    if value is not None:
        made["value"] = value
    if effect is not None:
        made["effect"] = effect
    return made
