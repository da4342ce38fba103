"""Times, spans and counts as people read them. Times are microseconds since the epoch, UTC."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US_PER_S = 1_000_000
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400


def moment(us: int) -> str:
    """`2026-11-20T09:00:00Z`; far outside of the calendar the bare number."""
    try:
        at = _EPOCH + timedelta(microseconds=us)
    except OverflowError:
        return f"{us} us"
    return f"{at.replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def span(us: int) -> str:
    """`45s`, `3m`, `2.5h`, `4.0d`."""
    seconds = us / _US_PER_S
    if abs(seconds) < _MINUTE_S:
        return f"{seconds:.0f}s"
    if abs(seconds) < _HOUR_S:
        return f"{seconds / _MINUTE_S:.0f}m"
    return f"{seconds / _HOUR_S:.1f}h" if abs(seconds) < _DAY_S else f"{seconds / _DAY_S:.1f}d"


def ago(us: int) -> str:
    """`3m ago`; a clock that was set back counts as now."""
    return f"{span(max(0, us))} ago"


def counted(number: int, one: str) -> str:
    """`1 file`, `2,000 files`.

    Args:
        number: How many there are.
        one: The word for one of them, which takes an s for several.
    """
    return f"1 {one}" if number == 1 else f"{number:,} {one}s"
