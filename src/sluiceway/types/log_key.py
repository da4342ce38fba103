"""Keys of source partitions: how the logs of one topic differ."""

import re

LogKey = int | str
"""A number where the source numbers its partitions, else a text of the source's own making.

All keys of a topic are of one kind. A key is stable: the source gives it to the same log for ever,
and never to another one.
"""

SourceKey = tuple[str, LogKey]
"""Topic, and key of the source partition in it."""

_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")
_MAX_NUMBER = 2**31 - 1
MAX_KEY_CHARACTERS = 255


def read_log_key(text: str) -> LogKey | None:
    """A key that a person has written: `3`, `broker-a/3`; None when it is none.

    Plain digits are a number: no source makes texts of digits alone.
    """
    if _NUMBER.fullmatch(text):
        return int(text) if int(text) <= _MAX_NUMBER else None
    return text if is_key_text(text) else None


def is_key_text(text: str) -> bool:
    """Whether a text can be a source's key: printable, without white space, no number."""
    whole = 0 < len(text) <= MAX_KEY_CHARACTERS and text.isprintable()
    return whole and " " not in text and not text.isdigit()
