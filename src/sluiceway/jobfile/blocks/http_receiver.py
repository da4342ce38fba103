"""A receiver of POSTs from a driver: URL, headers, time limit, and the template of a body."""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from sluiceway.host.http_receiver import HttpReceiver
from sluiceway.jobfile.blocks.block import Block
from sluiceway.jobfile.blocks.values import Option, Secret, duration, revealed, wrong
from sluiceway.jobfile.problems import quoted

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")


def url_host(url: str) -> str:
    """Host of a URL, in lower case; empty when the URL is not allowed."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or parts.username is not None or port == 0:
        return ""
    return host.lower() if url.isascii() and url.isprintable() and " " not in url else ""


def _check_url(url: str | Secret) -> str | Secret:
    if not url_host(revealed(url)):
        todo = "write a user or token as a header, with ${env:NAME}"
        raise wrong("an http or https URL without a user", todo)
    return url


def _check_headers(headers: Mapping[str, str | Secret]) -> Mapping[str, str | Secret]:
    for name, value in headers.items():
        text = revealed(value)
        if not _HEADER.fullmatch(name) or not text.isprintable() or not text.isascii():
            raise wrong("headers of printable ASCII text", f"correct {quoted(name)}")
    return headers


class HttpReceiverSpec(Block):
    """A URL that receives events.

    Attributes:
        url: HTTP address that gets the POST requests.
        headers: HTTP headers of each request.
        timeout_ms: Longest time of one request.
    """

    url: Annotated[Option, AfterValidator(_check_url)]
    headers: Annotated[Mapping[str, Option], AfterValidator(_check_headers)] = Field(
        default_factory=dict
    )
    timeout_ms: Annotated[int, *duration("1s", "60s")] = Field(default=10_000, alias="timeout")


def http_receiver(spec: HttpReceiverSpec, accept: tuple[int, ...] = ()) -> HttpReceiver:
    """The receiver as a value. Called when a route is compiled."""
    url = revealed(spec.url)
    return HttpReceiver(
        url=url,
        host=url_host(url),
        headers=tuple(sorted((name, revealed(value)) for name, value in spec.headers.items())),
        timeout_s=spec.timeout_ms / 1000,
        accept=accept,
    )


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


def fill_body(template: str, default_body: bytes) -> bytes:
    """The body of one announcement.

    A text that is only one name becomes the value with its own type; elsewhere names become text.

    Args:
        template: A template that `check_body` accepts.
        default_body: The body without a template.
    """
    values: dict[str, Any] = json.loads(default_body)
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
