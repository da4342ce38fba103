"""Strings -> texts of bounded length, and bytes, on the slow path."""

import base64
import binascii
from collections.abc import Callable

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.policy import Policy
from sluiceway.types.schema import BinaryType, CharType, StringType, VarcharType

REPLACEMENT = "\ufffd"
BLANKS = " \t\r\n"


def compile_text(
    data_type: StringType | VarcharType | CharType, policy: Policy
) -> Callable[[str], str | None]:
    """Make the reading of texts. Called once a column.

    Returns:
        A function from a string to the column's value or None; it raises DirtyValueError.
    """
    clean = _replaced if policy.on_bad_text == "replace" else _whole
    match data_type:
        case StringType():
            return clean
        case VarcharType(length):
            return lambda text: _cut(clean(text), length, policy)
        case CharType(length):
            return lambda text: _padded(clean(text), length, policy)


def compile_bytes(policy: Policy) -> Callable[[str], bytes]:
    """Make the reading of bytes. Called once a column.

    Raises:
        ValueError: The policy does not say how they are written.
    """
    match policy.format:
        case "utf8":
            return _bytes_of_text
        case "base64":
            return _bytes_of_base64
        case "hex":
            return _bytes_of_hex
        case _:
            raise ValueError(
                "JSON has no bytes: a binary column needs `format`: utf8, base64 or hex"
            )


def compile_boolean(policy: Policy) -> Callable[[str], bool]:
    """Make the reading of booleans from text. Called once a column.

    Returns:
        A function from a string to a boolean; it raises DirtyValueError.
    """
    yes, _, no = (policy.format or "true/false").partition("/")
    values = {yes: True, no: False}

    def read(text: str) -> bool:
        found = values.get(text.strip(BLANKS) if policy.trim else text)
        if found is None:
            raise DirtyValueError(DirtyReason.BAD_TEXT, f"it is neither {yes} nor {no}")
        return found

    return read


def reads_bad_text(data_type: object, policy: Policy) -> bool:
    """Whether a column may accept strings that are no UTF-8."""
    return policy.on_bad_text == "replace" or (
        isinstance(data_type, BinaryType) and policy.format == "utf8"
    )


def _whole(text: str) -> str:
    if "\0" in text:
        raise DirtyValueError(DirtyReason.ENCODING, "it holds a NUL character")
    if not text.isascii() and not _is_unicode(text):
        raise DirtyValueError(DirtyReason.ENCODING, "it is not UTF-8")
    return text


def _replaced(text: str) -> str:
    if text.isascii() or _is_unicode(text):
        return text.replace("\0", REPLACEMENT)
    return "".join(
        REPLACEMENT if char == "\0" or "\ud800" <= char <= "\udfff" else char for char in text
    )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _cut(text: str, length: int, policy: Policy) -> str | None:
    if len(text) <= length:
        return text
    match policy.on_lossy:
        case "truncate":
            return text[:length]
        case "null":
            return None
        case _:
            message = f"it has {len(text)} characters"
            raise DirtyValueError(DirtyReason.TOO_LONG, message)


def _padded(text: str, length: int, policy: Policy) -> str | None:
    """The text without blanks at the end: readers pad it to the full length only."""
    kept = text.rstrip(" ")
    if len(kept) == len(text) or len(text) == length:
        cut = _cut(kept, length, policy)
        return None if cut is None else cut.rstrip(" ")
    match policy.on_lossy:
        case "truncate":
            return kept[:length].rstrip(" ")
        case "null":
            return None
        case _ if len(text) > length:
            raise DirtyValueError(DirtyReason.TOO_LONG, f"it has {len(text)} characters")
        case _:
            message = "the blanks at its end would be lost"
            raise DirtyValueError(DirtyReason.TRAILING_BLANKS, message)


def _bytes_of_text(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        message = "it holds half of a surrogate pair"
        raise DirtyValueError(DirtyReason.ENCODING, message) from error


def _bytes_of_base64(text: str) -> bytes:
    try:
        found = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise DirtyValueError(DirtyReason.BAD_TEXT, "it is not base64") from error
    # Bits after the last byte, and text after the padding, would be dropped silently.
    if base64.b64encode(found).decode("ascii") != text:
        raise DirtyValueError(DirtyReason.BAD_TEXT, "it is not base64 to the letter")
    return found


def _bytes_of_hex(text: str) -> bytes:
    try:
        # Blanks between digits would be skipped.
        return binascii.unhexlify(text.encode("ascii"))
    except (binascii.Error, UnicodeEncodeError) as error:
        raise DirtyValueError(DirtyReason.BAD_TEXT, "it is not hexadecimal") from error
