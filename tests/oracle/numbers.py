"""Exact numbers of the oracle: a whole number times a power of ten, in integers only."""

import math
import re
from dataclasses import dataclass
from fractions import Fraction

GRAMMAR = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?", re.ASCII)
# Farther than any type of a table reaches; what is beyond is told by its magnitude alone.
FAR = 450
_FORMATS = {64: (53, -1074, 1023), 32: (24, -149, 127)}


@dataclass(frozen=True, slots=True)
class Exact:
    """`sign * digits * 10**power`; without zeros at the end of `digits`.

    Attributes:
        negative: Also of nought.
        digits: Not negative.
        power: Of ten; 0 for nought.
    """

    negative: bool
    digits: int
    power: int

    @property
    def magnitude(self) -> int:
        """How many digits are before the point; negative for zeros behind it."""
        return len(str(self.digits)) + self.power if self.digits else 0

    @property
    def is_whole(self) -> bool:
        """No digit behind the point."""
        return self.power >= 0


def read_number(text: str) -> Exact | None:
    """The number that a text is, or None."""
    found = GRAMMAR.fullmatch(text)
    if found is None:
        return None
    whole, _, places = found[2].partition(".")
    digits = (whole + places).lstrip("0").rstrip("0")
    if not digits:
        return Exact(found[1] == "-", 0, 0)
    trailing = len(whole + places) - len((whole + places).rstrip("0"))
    return Exact(found[1] == "-", int(digits), int(found[3] or 0) - len(places) + trailing)


def round_to(number: Exact, places: int, mode: str) -> int | None:
    """The number times `10**places`, whole; None when it is farther than any type reaches."""
    shift = number.power + places
    if not number.digits:
        return 0
    if shift >= 0:
        if number.magnitude + places > FAR:
            return None
        power: int = 10**shift
        magnitude, rest, half = number.digits * power, 0, 1
    elif number.magnitude + places < -2:
        magnitude, rest, half = 0, 1, 2
    else:
        unit = 10**-shift
        magnitude, left = divmod(number.digits, unit)
        rest, half = 2 * left, unit
    if rest and _goes_up(number.negative, magnitude, (rest > half) - (rest < half), mode):
        magnitude += 1
    return -magnitude if number.negative else magnitude


def _goes_up(negative: bool, magnitude: int, against_half: int, mode: str) -> bool:  # noqa: FBT001
    """Whether the magnitude grows."""
    ties = {"half_up": True, "half_down": False, "half_even": magnitude % 2 == 1}
    if mode in ties:
        return against_half > 0 or (against_half == 0 and ties[mode])
    return {"up": True, "down": False, "ceiling": not negative, "floor": negative}[mode]


def nearest_float(number: Exact, bits: int) -> float:
    """The nearest float, ties to even: by integers, since a double's rounding would come twice."""
    precision, least, most = _FORMATS[bits]
    sign = -1.0 if number.negative else 1.0
    if number.magnitude > FAR:
        return sign * math.inf
    if not number.digits or number.magnitude < -FAR:
        return sign * 0.0
    value = Fraction(number.digits) * Fraction(10) ** number.power
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if value < Fraction(2) ** exponent:
        exponent -= 1
    step = max(exponent - precision + 1, least)
    mantissa = round(value / Fraction(2) ** step)
    if mantissa * Fraction(2) ** step >= Fraction(2) ** (most + 1):
        return sign * math.inf
    return sign * math.ldexp(mantissa, step)


def greatest(bits: int) -> float:
    """The greatest finite float."""
    precision, _, most = _FORMATS[bits]
    return math.ldexp(2**precision - 1, most - precision + 1)
