"""The body of a webhook in the job file: JSON, in whose texts names stand for values.

Checked with the job file, filled for each announcement.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from sluiceway.jobfile.blocks.values import wrong
from sluiceway.jobfile.problems import quoted

FIELDS = (
    *("job", "route", "table", "prefix", "version", "rows", "files", "whole", "partitions"),
    *("ledger", "ready_seq", "as_of_seq", "idempotency_key", "run_id", "announcement"),
)
"""Names between braces.

They are the fields of an announcement; `run_id`, its key in plain letters; and `announcement`, the
body that is sent without a template."""

_MAX_CHARS = 16_384
_NAME = re.compile(r"\{(\w+)\}")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.:-]")


def check_body(text: str) -> str:
    """Refuse a template that gives no JSON, or uses a name that announcements do not have.

    Raises:
        PydanticCustomError: The template is not valid.
    """
    try:
        made = json.loads(text[:_MAX_CHARS])
    except ValueError as error:
        todo = 'write it in single quotes: \'{"conf": {"hour": "{prefix}"}}\''
        raise wrong(
            f"JSON of at most {_MAX_CHARS:,} characters, with names as {{prefix}}", todo
        ) from error
    unknown = sorted(set(_NAME.findall(json.dumps(made))) - set(FIELDS))
    if unknown:
        raise wrong(f"names that an announcement has, not {quoted(unknown[0])}", _known())
    return text


def _known() -> str:
    return f"write one of {', '.join(f'{{{name}}}' for name in FIELDS)}"


def fill_body(template: str, told: bytes) -> bytes:
    """The body of one announcement.

    A text that is only one name becomes the value with its own type; elsewhere names become text.

    Args:
        template: A template that `check_body` accepts.
        told: The body without a template.
    """
    values: dict[str, Any] = json.loads(told)
    values["announcement"] = dict(values)
    values["run_id"] = _NOT_PLAIN.sub("-", str(values.get("idempotency_key", "")))
    return json.dumps(_filled(json.loads(template), values)).encode()


def _filled(part: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(part, dict):
        return {_text(name, values): _filled(each, values) for name, each in part.items()}
    if isinstance(part, list):
        return [_filled(each, values) for each in part]
    if not isinstance(part, str):
        return part
    alone = _NAME.fullmatch(part)
    return values.get(alone[1]) if alone else _text(part, values)


def _text(text: str, values: Mapping[str, Any]) -> str:
    return _NAME.sub(lambda found: _shown(values.get(found[1])), text)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
