"""Where events go by HTTP: what a job file says, without the client that sends them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HttpReceiver:
    """A URL that receives events by POST.

    Attributes:
        url: May hold a secret; never shown. `host` may be shown.
        headers: Headers to send; values may be secrets.
        timeout_s: Longest time of a whole call, in seconds.
        accept: Status codes other than 2xx that confirm the event.
    """

    url: str
    host: str
    headers: tuple[tuple[str, str], ...] = ()
    timeout_s: float = 10.0
    accept: tuple[int, ...] = ()
