"""Payloads of the small lake job."""

import json

START_MS = 1_795_161_600_000


def order(number: int, *, city: str | None = "Berlin", ts_ms: int = START_MS) -> bytes:
    """A convertible payload."""
    body = {
        "id": number,
        "ts": ts_ms,
        "city": city,
        "amount": f"{number}.25",
        "tags": ["a", None],
        "geo": {"lat": 0.5, "small": number},
    }
    return json.dumps(body).encode()
