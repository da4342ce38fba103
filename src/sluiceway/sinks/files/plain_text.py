"""Plain values as the text that Hive, Spark and Java read back to the same value."""

import base64
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.sinks.files.row_masks import where_true


def plain_text(values: Any) -> Any:
    """Texts of values that are not nested, as an array of strings; nulls stay null.

    Decimals and fractions of a second have no exponents and no needless zeros, and floats their
    shortest form. `Infinity` and `NaN` are as Java has them, bytes are in base64, and moments like
    `2026-11-20 08:09:10.5`.
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        return plain_text(values.dictionary_decode())
    if pa.types.is_string(kind):
        return values
    if pa.types.is_binary(kind):
        coded = [None if v is None else base64.b64encode(v) for v in values.to_pylist()]
        return pa.array(coded, pa.binary()).cast(pa.string())
    if pa.types.is_decimal(kind):
        return _decimal_text(values)
    if pa.types.is_timestamp(kind):
        whole = values.cast(pa.timestamp("us")).cast(pa.string())
        return pc.utf8_rtrim(pc.utf8_rtrim(whole, "0"), ".")
    text = values.cast(pa.string())
    return _java_float_text(values, text) if pa.types.is_floating(kind) else text


def _decimal_text(values: Any) -> Any:
    text = values.cast(pa.string())
    scientific = where_true(pc.match_substring(text, "E"))
    if not scientific.any():
        return text
    plain = [f"{value:f}" for value in values.filter(pa.array(scientific)).to_pylist()]
    return pc.replace_with_mask(text, pa.array(scientific), pa.array(plain, pa.string()))


def _java_float_text(values: Any, text: Any) -> Any:
    # Read as a whole number, -0 would lose its sign.
    text = pc.if_else(pc.equal(text, "-0"), "-0.0", text)
    odd = where_true(pc.invert(pc.is_finite(values)))
    if not odd.any():
        return text
    names = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    found = [names[word] for word in text.filter(pa.array(odd)).to_pylist()]
    return pc.replace_with_mask(text, pa.array(odd), pa.array(found, pa.string()))


def joined(parts: Any, lengths: Any, separator: str) -> Any:
    """Texts of the elements of each list, with a separator between them.

    Args:
        parts: Texts of all elements in order, none null.
        lengths: How many each list has.
        separator: Between two of one list.
    """
    ends = np.cumsum(lengths)
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), parts)
    return pc.binary_join(lists, separator)


def with_nulls(texts: Any, values: Any) -> Any:
    """The texts, but null where the values are."""
    if values.null_count == 0:
        return texts
    return pc.if_else(values.is_valid(), texts, pa.scalar(None, pa.string()))


def has_unescaped(texts: Any, characters: str) -> Any:
    """Which texts hold any of some characters, as a mask."""
    pattern = f"[{''.join(_class_part(one) for one in characters)}]"
    return where_true(pc.match_substring_regex(texts, pattern))


def _class_part(character: str) -> str:
    return f"\\x{{{ord(character):x}}}"


def escaped(texts: Any, characters: str, escape: str) -> Any:
    """Texts with an escape in front of each of some characters."""
    parts = "".join(_class_part(one) for one in characters)
    held = pc.match_substring_regex(texts, f"[{parts}]")
    if not pc.any(held).as_py():
        return texts
    return pc.replace_substring_regex(texts, f"([{parts}])", f"{_literal(escape)}\\1")


def _literal(text: str) -> str:
    # A backslash is an escape in what replaces a match, too.
    return text.replace("\\", "\\\\")


def content_of(lines: Any) -> memoryview:
    """The bytes of all texts of an array, one after the other, without a copy."""
    offsets = np.frombuffer(lines.buffers()[1], dtype=np.int32)
    first, last = offsets[lines.offset], offsets[lines.offset + len(lines)]
    data = lines.buffers()[2]
    return memoryview(b"") if data is None else memoryview(data)[int(first) : int(last)]
