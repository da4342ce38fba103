"""What a column does with values that its type cannot hold unchanged; values only."""

import decimal
import re
from dataclasses import dataclass, fields
from typing import Literal

ROUNDING_MODES = {
    "half_up": decimal.ROUND_HALF_UP,
    "half_down": decimal.ROUND_HALF_DOWN,
    "half_even": decimal.ROUND_HALF_EVEN,
    "up": decimal.ROUND_UP,
    "down": decimal.ROUND_DOWN,
    "ceiling": decimal.ROUND_CEILING,
    "floor": decimal.ROUND_FLOOR,
}
_ROUND = re.compile(r"round\(([a-z_]+)\)")


@dataclass(frozen=True, slots=True)
class Policy:
    """A column's policy. The default changes nothing: what does not fit makes the row dirty.

    It holds for the column and for all values inside of it.

    Attributes:
        on_overflow: For a number beyond the type: `dirty`, `null`, or `clamp` to the nearest end.
        on_lossy: For digits or characters that the type has no room for: `dirty`, `null`,
            `truncate`, `round(mode)`; or `text`, with which a text column takes any JSON value.
        non_finite: For NaN and infinities in a float column: `dirty`, `null` or `keep`.
        on_impossible_time: For a time that no calendar has (a month or day 00, 30 February,
            infinity, a year outside of 0001 to 9999): `dirty` or `null`.
        on_bad_text: For what no text holds (bad UTF-8, half a surrogate pair, NUL): `dirty`, or
            `replace` by U+FFFD.
        trim: Blanks around the text of a number or time are no fault.
        format: How a time, a boolean or a binary value is written as text.
        timezone: IANA name of the zone of times that name no offset, and of days of instants.
        redact: Messages about the column show no value.
    """

    on_overflow: Literal["dirty", "null", "clamp"] = "dirty"
    on_lossy: str = "dirty"
    non_finite: Literal["dirty", "null", "keep"] = "dirty"
    on_impossible_time: Literal["dirty", "null"] = "dirty"
    on_bad_text: Literal["dirty", "replace"] = "dirty"
    trim: bool = False
    format: str | None = None
    timezone: str | None = None
    redact: bool = False

    @property
    def rounding(self) -> str | None:
        """The `decimal` module's mode for digits without room; None when they are a fault."""
        if self.on_lossy == "truncate":
            return decimal.ROUND_DOWN
        found = _ROUND.fullmatch(self.on_lossy)
        return ROUNDING_MODES.get(found[1]) if found else None

    def settings(self) -> tuple[tuple[str, str], ...]:
        """What differs from the default, as job-file keys and values in order."""
        return tuple(
            (field.name, str(value).lower() if isinstance(value, bool) else str(value))
            for field in fields(self)
            if (value := getattr(self, field.name)) != field.default
        )


NO_POLICY = Policy()
"""What does not fit makes the row dirty."""
