"""A receiver of POSTs from a driver: a URL, its headers, and a time limit."""

import re
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from sluiceway.host.http import HttpReceiver
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
