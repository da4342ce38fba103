"""Keys of source partitions, as people write them and as records keep them."""

from dataclasses import dataclass

import pytest

from sluiceway.types.log_key import LogKey, read_log_key
from sluiceway.types.strict_json import StrictJsonError, decode, encode


@dataclass(frozen=True, slots=True)
class Keyed:
    partition: LogKey


@pytest.mark.parametrize(
    ("text", "key"),
    [("0", 0), ("17", 17), ("2147483647", 2147483647), ("broker-a/3", "broker-a/3"), ("b", "b")],
)
def test_key_is_read_and_kept(text: str, key: LogKey) -> None:
    assert read_log_key(text) == key
    raw = encode(Keyed(key))
    assert decode(raw, Keyed) == Keyed(key)
    assert encode(decode(raw, Keyed)) == raw


@pytest.mark.parametrize("text", ["", "01", "2147483648", "a b", "a\n", "٣", "x" * 256])
def test_text_that_is_no_key_is_refused(text: str) -> None:
    assert read_log_key(text) is None


@pytest.mark.parametrize("raw", ['"3"', '""', '"a b"', "true", "null", "1.0", "[]"])
def test_record_with_another_key_is_refused(raw: str) -> None:
    with pytest.raises(StrictJsonError):
        decode(b'{"partition":%s}' % raw.encode(), Keyed)
