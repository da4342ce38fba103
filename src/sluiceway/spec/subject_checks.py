"""What has to fit around `table.columns: from_registry`."""

from collections.abc import Iterator, Mapping
from typing import Any

from sluiceway.spec.models import FROM_REGISTRY
from sluiceway.spec.positions import Positions
from sluiceway.spec.problems import Problem, quoted

_SUBJECT = ("table", "subject")
_COLUMNS = ("table", "columns")


def check_subject(data: Mapping[str, Any], positions: Positions) -> Iterator[Problem]:
    """Check where columns come from a registry's schema. Called once per load.

    Args:
        data: The file as plain data; looks away from parts of the wrong shape.
        positions: Where things stand.
    """
    table, formats = _mapping(data.get("table")), _mapping(data.get("format"))
    subject = _mapping(table.get("subject"))
    if table.get("columns") != FROM_REGISTRY:
        if "subject" in table:
            text = f"expected `subject` beside `columns: {FROM_REGISTRY}` only"
            yield Problem(positions.key(_SUBJECT), text, "remove it, or take the columns from it")
        return
    if formats and not any("registry" in _mapping(block) for block in formats.values()):
        text = f"expected a format with a `registry` beside {quoted(FROM_REGISTRY)}"
        todo = "name one, or list the columns: `sluiceway infer` prints them"
        yield Problem(positions.value(_COLUMNS), text, todo)
    topics = _mapping(data.get("source")).get("topics")
    if "name" not in subject and not (isinstance(topics, tuple) and len(topics) == 1):
        text = f"expected the subject's name: {quoted(FROM_REGISTRY)} has no single topic to go by"
        yield Problem(
            positions.value(_COLUMNS), text, "write `subject: {name: NAME}` below `table`"
        )
    if "message" in subject and formats and "protobuf" not in formats:
        text = "expected `message` with the format protobuf only"
        yield Problem(positions.key((*_SUBJECT, "message")), text, "remove it")


def _mapping(found: object) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}
