import json
from dataclasses import replace

import pytest

from sluiceway.errors import LedgerCorruptError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.records import FORMAT, NEWEST_FORMAT, decode_record, encode_record
from sluiceway.types.strict_json import BigInt
from tools.ledger_records import data, fence, fold_of, record, sources, span


def test_record_of_every_type_round_trips() -> None:
    fold = fold_of(fence())
    for body in (fence(), sources(0, 1), data(1, 0, span(0, 0, 5), dirty=2)):
        made = record(fold, body)
        assert decode_record(encode_record(made), "slot") == made


def test_record_keeps_integers_beyond_2_to_53_as_text() -> None:
    far = 2**62 + 1
    made = record(fold_of(fence()), sources(0, start=far))
    raw = encode_record(made)
    assert json.loads(raw)["body"]["partitions"][0]["start"] == str(far)
    assert decode_record(raw, "slot") == made


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw[:-10],
        lambda raw: raw + b" ",
        lambda raw: raw.replace(b'"term":1', b'"term":1,"term":2'),
        lambda raw: raw.replace(b'"term":1', b'"term":"1"'),
        lambda raw: raw.replace(b'"term":1', b'"term":true'),
        lambda raw: raw.replace(b'"type":"FENCE"', b'"type":"PARTY"'),
        lambda raw: raw.replace(b'"pid":1', b'"pid":1,"surprise":1'),
        lambda raw: raw.replace(b'"pid":1,', b""),
        lambda raw: raw.replace(b'"engine"', b'"motor"'),
        lambda raw: raw.replace(b"{", b"{ ", 1),
        lambda raw: b"\xff" + raw,
        lambda raw: b"[" * 100_000,
        lambda raw: b"null",
        lambda raw: b"",
    ],
)
def test_record_that_is_not_canonical_is_refused(damage: object) -> None:
    raw = encode_record(record(Fold(), fence()))
    with pytest.raises(LedgerCorruptError):
        decode_record(damage(raw), "slot")  # type: ignore[operator]


def test_record_of_a_newer_format_is_refused_with_the_way_out() -> None:
    ours, newer = b'"format":%d' % FORMAT, b'"format":%d' % (NEWEST_FORMAT + 1)
    raw = encode_record(record(Fold(), fence())).replace(ours, newer)
    with pytest.raises(LedgerCorruptError, match="newer version"):
        decode_record(raw, "slot")


def test_counts_balance_only_when_every_row_is_somewhere() -> None:
    counts = data(1, 0, span(0, 0, 5), dirty=2).counts
    assert counts.balanced()
    assert not replace(counts, late=BigInt(1)).balanced()
