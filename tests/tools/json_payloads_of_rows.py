"""Rows as the JSON that a correct producer writes."""

import json
from decimal import Decimal

from sluiceway.conformance.formats import Row


def json_payload(row: Row) -> bytes:
    """A row as JSON; decimals as numbers with all their digits."""
    parts = (
        f"{json.dumps(name)}: {value if isinstance(value, Decimal) else json.dumps(value)}"
        for name, value in row.items()
    )
    return f"{{{', '.join(parts)}}}".encode()
