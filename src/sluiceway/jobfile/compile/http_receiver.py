"""Who gets POSTs from a driver, as a value."""

from dataclasses import dataclass

from sluiceway.jobfile.blocks.http_receiver import HttpReceiverSpec, url_host
from sluiceway.jobfile.blocks.values import revealed


@dataclass(frozen=True, slots=True)
class HttpReceiver:
    """A URL that is told something.

    Attributes:
        url: May hold a secret; never shown. `host` is what may be.
        headers: As they are sent; values may be secrets.
        accept: Answers beside 2xx that say that it knows.
    """

    url: str
    host: str
    headers: tuple[tuple[str, str], ...] = ()
    timeout_s: float = 10.0
    accept: tuple[int, ...] = ()


def http_receiver(spec: HttpReceiverSpec, accept: tuple[int, ...] = ()) -> HttpReceiver:
    """What a job file says of it. Called when a route is compiled."""
    url = revealed(spec.url)
    return HttpReceiver(
        url=url,
        host=url_host(url),
        headers=tuple(sorted((name, revealed(value)) for name, value in spec.headers.items())),
        timeout_s=spec.timeout_ms / 1000,
        accept=accept,
    )
