"""Patterns of topic names: regular expressions of Python with a bounded cost.

Other people choose the names of topics. So the ways in which a pattern can match one name are
bounded before it is used: no repeated groups, and few open ends.
"""

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod

from pydantic_core import PydanticCustomError

from sluiceway.jobfile.blocks.values import wrong

MAX_PATTERN = 500
MAX_TOPIC_NAME = 249
"""Kafka's own limit of a name, and so of the ways of a repeat."""
MAX_WAYS = 16_000_000
"""Most open ends; allows `(.*)_(.*)_(.*)`."""

_MAX_DEPTH = 20
_TOKEN = re.compile(
    r"(?P<escape>\\.)|(?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])"
    r"|(?P<open>\(\?P<\w+>|\(\?[:=!>]|\(\?<[=!]|\((?!\?))|(?P<close>\))|(?P<or>\|)"
    r"|(?P<repeat>(?:[*+?]|\{\d{1,9}\}|\{\d{0,9},\d{0,9}\})[?+]?)|(?P<other>\(\?)|(?P<char>.)",
    re.DOTALL,
)
_GROUP_IN_NAME = re.compile(r"\{(\w{1,64})\}", re.ASCII)


@dataclass(slots=True)
class _Branches:
    """Ways of the group being read: finished branches, the open one, and its last piece."""

    finished: int = 0
    open: int = 1
    last: int = 1
    last_is_group: bool = False

    def add(self, ways: int, *, is_group: bool = False) -> None:
        self.open, self.last, self.last_is_group = self.open * self.last, ways, is_group

    def next_branch(self) -> None:
        self.finished, self.open, self.last = self.total(), 1, 1
        self.last_is_group = False

    def total(self) -> int:
        return self.finished + prod((self.open, self.last))


def compile_topic_pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern that has to match a whole topic name.

    Called when a job file is checked and when a job is compiled.

    Raises:
        PydanticCustomError: It is no regular expression, or its cost is too high.
    """
    if not text or len(text) > MAX_PATTERN or not text.isprintable():
        raise wrong(f"a pattern of 1 to {MAX_PATTERN} characters", "write a shorter one")
    _check_ways(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return re.compile(text)
    except (re.error, Warning, OverflowError, RecursionError) as error:
        todo = f"correct it: {' '.join(str(error).split())}"
        raise wrong("a regular expression such as `app_(.*)`", todo) from error


def meant_as_glob(text: str, topics: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The regular expression for a pattern in shell form: `shop_.*` for `shop_*`.

    Called for a pattern that matches no topic.

    Args:
        text: The pattern.
        topics: All topic names.

    Returns:
        The regular expression, and the topics that it matches; empty when it is no shell pattern.
    """
    if not set(text) & set("*?"):
        return "", ()
    pieces = {"*": ".*", "?": ".", ".": "[.]"}
    meant = "".join(pieces.get(each, each) for each in text)
    return meant, tuple(topic for topic in topics if fnmatchcase(topic, text))


def pattern_of(topics: object) -> re.Pattern[str] | None:
    """The pattern in `source.topics`; None for a list and for a pattern that the model refuses."""
    try:
        return compile_topic_pattern(topics) if isinstance(topics, str) else None
    except PydanticCustomError:
        return None


def _check_ways(text: str) -> None:
    stack = [_Branches()]
    for token in _TOKEN.finditer(text):
        top = stack[-1]
        kind = token.lastgroup
        if kind == "open" and len(stack) <= _MAX_DEPTH:
            stack.append(_Branches())
        elif kind in ("open", "other"):
            raise wrong("a pattern of plain and named groups, a few levels", "make it simpler")
        elif kind == "close" and len(stack) > 1:
            stack.pop()
            stack[-1].add(top.total(), is_group=True)
        elif kind == "or":
            top.next_branch()
        elif kind == "repeat":
            _repeat(top, token[0])
        else:
            top.add(1)
        if stack[-1].total() > MAX_WAYS:
            raise wrong("a pattern that can match in few ways", "use three of `*`, `+` at most")


def _repeat(branches: _Branches, text: str) -> None:
    least, most = _counts(text)
    if not branches.last_is_group:
        branches.last = max(1, most - least + 1)
    elif most == 1:
        branches.last += 1
    else:
        raise wrong("a pattern without repeated groups", "repeat single characters only")


def _counts(text: str) -> tuple[int, int]:
    if text[0] in "*+?":
        return int(text[0] == "+"), 1 if text[0] == "?" else MAX_TOPIC_NAME
    least, comma, most = text[1 : text.index("}")].partition(",")
    low = int(least or 0)
    high = int(most or MAX_TOPIC_NAME) if comma else low
    return low, min(high, MAX_TOPIC_NAME)


def groups_in(name: str) -> tuple[str, ...]:
    """Groups in a table's name: `1` and `app` in `ods.{1}_{app}`."""
    return tuple(_GROUP_IN_NAME.findall(name))


def render(name: str, match: re.Match[str]) -> str:
    """Fill a table's name with the match's groups; a group without a match is empty.

    A topic's creator chose the result's text: the caller checks it.
    """

    def found(group: re.Match[str]) -> str:
        key = group[1]
        return match[int(key) if key.isdigit() else key] or ""

    return _GROUP_IN_NAME.sub(found, name)


def missing_groups(name: str, pattern: re.Pattern[str]) -> tuple[str, ...]:
    """Groups in a table's name that the pattern does not have."""
    numbers = {str(number) for number in range(pattern.groups + 1)}
    known = numbers | pattern.groupindex.keys()
    return tuple(group for group in groups_in(name) if group not in known)
