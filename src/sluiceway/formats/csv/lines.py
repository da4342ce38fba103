"""One line -> its fields, decided exactly: RFC 4180, or with backslashes."""

import re

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.formats.csv.layout import LineLayout
from sluiceway.types.dirty import DirtyReason, shown

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_LINE_END = re.compile(r"\r?\n\Z")
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "0": "\0", "\\": "\\"}
_LONE_BACKSLASH = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")
_PAIR = re.compile(r"\\(.)", re.DOTALL)


class LineReader:
    """Splits single lines. Created once a task.

    Args:
        layout: Layout of the lines.
    """

    def __init__(self, layout: LineLayout) -> None:
        self._layout = layout
        mark, quote = re.escape(layout.delimiter), re.escape(layout.quote)
        # Possessive, so that a long line is scanned only once.
        taken = r"\\\r\n" if layout.backslash else r"\r\n"
        if len(layout.delimiter) == 1:
            one = f"[^{taken}{quote}{mark}]++"
        else:
            one = f"(?!{mark})[^{taken}{quote}]"
        plain = rf"(?:{one}{_or_pair(layout)})*+"
        kept, escaped = (rf"\\{quote}", r"\\.") if layout.backslash else (quote, quote * 2)
        inner = rf"(?:[^{kept}]++|{escaped})*+"
        quoted = rf"{quote}({inner}){quote}|" if layout.quote else "()(?!)|"
        self._field = re.compile(rf"(?:{quoted}({plain}))({mark}|\Z)", re.DOTALL)
        self._escapes = {**_ESCAPED, layout.delimiter[0]: layout.delimiter[0]}
        if layout.quote:
            self._escapes[layout.quote] = layout.quote

    def text(self, payload: bytes, *, lenient: bool) -> str:
        """The line without the line end that it may have.

        Args:
            payload: The record's value.
            lenient: Whether bytes that are no UTF-8 become low surrogates.

        Raises:
            DirtyValueError: It is not UTF-8.
        """
        if payload.startswith(BYTE_ORDER_MARK):
            raise _undecodable(DirtyReason.ENCODING, "the payload starts with a byte order mark")
        try:
            text = payload.decode("utf-8", "surrogateescape" if lenient else "strict")
        except UnicodeDecodeError as error:
            message = f"the payload is not UTF-8: {error.reason} at byte {error.start}"
            raise _undecodable(DirtyReason.ENCODING, message) from error
        return _LINE_END.sub("", text)

    def fields(self, line: str) -> list[str | None]:
        """Fields of a line; None for a null.

        Called for each line with more than fields and delimiters in it.

        Raises:
            DirtyValueError: It is no line of this layout, or several lines.
        """
        layout, found, end = self._layout, list[str | None](), 0
        # Not by a search, which would try every place after a fault, each to the line's end.
        while match := self._field.match(line, end):
            end = match.end()
            quoted, plain, mark = match.groups()
            if quoted is not None:
                found.append(self._unquoted(quoted))
            elif plain == layout.null_text:
                found.append(None)
            else:
                found.append(self._unescaped(plain) if layout.backslash else plain)
            if not mark:
                return found
        raise _broken(line, end, layout)

    def _unquoted(self, text: str) -> str:
        if self._layout.backslash:
            return self._unescaped(text)
        quote = self._layout.quote
        return text.replace(quote * 2, quote)

    def _unescaped(self, text: str) -> str:
        return _PAIR.sub(self._one, text) if "\\" in text else text

    def _one(self, match: re.Match[str]) -> str:
        found = self._escapes.get(match[1])
        if found is None:
            message = f"a backslash stands before {shown(match[1])}, which needs none"
            raise _undecodable(DirtyReason.BROKEN, message)
        return found


def _or_pair(layout: LineLayout) -> str:
    return r"|\\." if layout.backslash else ""


def _broken(line: str, end: int, layout: LineLayout) -> DirtyValueError:
    rest, at = line[end:], f"in the field at character {end}"
    first = re.search(r'[\r\n"]', rest)
    if first and first[0] in "\r\n":
        message = f"a line end outside of quotes at character {end + first.start()}"
        return _undecodable(DirtyReason.BROKEN, f"{message}: one payload is one line")
    if layout.backslash and _LONE_BACKSLASH.search(rest):
        message = f"a backslash at the end of the line escapes nothing, {at}: two stand for one"
        return _undecodable(DirtyReason.BROKEN, message)
    if layout.backslash and layout.quote and rest.endswith("\\" + layout.quote):
        message = f"the quotes do not end, {at}: a backslash before one makes it text"
        return _undecodable(DirtyReason.BROKEN, message)
    message = f"a quote that opens, closes or escapes nothing, {at}"
    return _undecodable(DirtyReason.BROKEN, message)


def _undecodable(reason: DirtyReason, message: str) -> DirtyValueError:
    return DirtyValueError(reason, message, stage="decode")
