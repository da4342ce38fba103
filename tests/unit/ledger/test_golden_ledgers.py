"""Ledgers as they were written once: every later version has to read them to the same fold."""

from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.errors import InvariantError, LedgerCorruptError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.records import (
    FORMAT,
    NEWEST_FORMAT,
    RecordType,
    decode_record,
    encode_record,
    record_hash,
)
from tools.ledger_records import data, fence, fold_of, record, sources, span

EIGHT_US = 1_763_625_600_000_000
HOUR_US = 3_600_000_000
_GOLDEN = Path(__file__).resolve().parents[2] / "golden"
_HEADS = {1: "2346d1810626a8fde212dd25ded41b554aa7a831011821d923a1b1c2fb8f74c5"}


def _fold(slots: int | None = None) -> Fold:
    fold = Fold()
    for path in sorted((_GOLDEN / "ledger-format-1").iterdir())[:slots]:
        raw = path.read_bytes()
        fold.apply(decode_record(raw, path.name), raw)
    return fold


def test_there_is_a_golden_ledger_of_every_format() -> None:
    assert sorted(_HEADS) == list(range(1, FORMAT + 1))


@pytest.mark.parametrize("number", sorted(_HEADS))
def test_golden_ledger_is_read_and_written_again_byte_by_byte(number: int) -> None:
    paths = sorted((_GOLDEN / f"ledger-format-{number}").iterdir())
    for path in paths:
        raw = path.read_bytes()
        made = decode_record(raw, path.name)
        assert encode_record(made) == raw
        assert made.format == number
    assert record_hash(paths[-1].read_bytes()) == _fold().head == _HEADS[number]


def test_golden_ledger_has_the_fold_that_it_always_had() -> None:
    fold = _fold(7)
    assert (fold.term, fold.next_seq, fold.last_epoch, fold.format) == (2, 7, 0, 1)
    assert (fold.published_through, fold.effects_through) == (3, 3)
    assert fold.subscription is not None
    assert (fold.subscription.pattern, fold.subscription.start) == ("ord.*", "group loaders")
    assert {
        key: (known.start, known.how, known.end, known.has_data, known.generation)
        for key, known in fold.sources.items()
    } == {
        ("orders", 0): (10, "group", 111, True, 0),
        ("orders", 1): (9007199254740993, "timestamp", 9007199254740993, False, 0),
        ("orders", 2): (0, "earliest", 5, True, 0),
        ("orders", 3): (0, "discovered", 0, False, 0),
    }
    assert (fold.counts.read, fold.counts.written, fold.counts.dirty) == (103, 101, 1)
    assert {state.folder: state.rows for state in fold.partitions.values()} == {
        "dt=20251120/hr=08": 100,
        "dt=20251120/hr=__HIVE_DEFAULT_PARTITION__": 1,
    }
    assert list(fold.unpublished) == [5]


def test_golden_ledger_has_reset_and_changed_its_sources() -> None:
    fold = _fold(12)
    assert (fold.term, fold.next_seq, fold.format) == (4, 12, 1)
    assert {
        key: (known.start, known.how, known.end, known.generation, known.topic_id)
        for key, known in fold.sources.items()
    } == {
        ("orders", 0): (500, "reset", 501, 1, "topicA"),
        ("orders", 1): (9007199254740993, "timestamp", 9007199254740993, 0, "topicA"),
        ("orders", 2): (2, "reset", 2, 1, "topicA"),
        ("orders", 3): (7, "source_change", 8, 1, "topicB"),
    }


def test_golden_ledger_has_moved_announced_and_dropped_a_partition() -> None:
    fold = _fold(20)
    assert (fold.term, fold.next_seq, fold.format) == (5, 20, 1)
    assert fold.sources == _fold(12).sources
    state = fold.partitions["dt=20251120/hr=08"]
    assert (state.version, state.expired, state.rows) == (2, True, 0)
    assert state.location == f"dt=20251120/_sluiceway-19-{'6' * 32}/hr=08"
    assert (fold.closed[state.folder].version, fold.intents) == (1, {})
    assert list(fold.left) == [state.folder]


def test_golden_ledger_has_replayed_its_dirty_row_into_a_closed_partition() -> None:
    before, fold = _fold(20), _fold(22)
    assert (fold.next_seq, fold.last_epoch, fold.sources) == (22, 1, before.sources)
    assert (before.dirty_rows_open, fold.dirty_rows_open) == (1, 0)
    (lane,) = fold.lanes.lanes.values()
    assert (lane.kind, lane.rows, lane.finished, list(lane.left())) == ("replay", 1, True, [])
    (taken,) = fold.lanes.taken.values()
    assert taken == [(0, 1)]
    state = fold.partitions["dt=20251120/hr=08"]
    assert (state.version, state.expired, state.rows) == (2, False, 1)


def test_golden_ledger_has_a_watermark_that_is_held_and_goes_on() -> None:
    known = {number: _fold(number) for number in (23, 24, 25, 28)}
    assert [(each.us, each.by) for each in (fold.watermark for fold in known.values())] == [
        (None, ""),
        (EIGHT_US + 2 * HOUR_US + HOUR_US // 4, ""),
        (EIGHT_US + 2 * HOUR_US + HOUR_US // 4, ""),
        (EIGHT_US + 5 * HOUR_US, "all_idle"),
    ]
    held = [(each.partition, each.log_end) for each in known[23].watermark.held_by]
    assert held == [(1, None), (2, 2), (3, 9)]
    idle = {
        number: [key[1] for key, source in sorted(fold.sources.items()) if source.idle]
        for number, fold in known.items()
    }
    assert idle == {23: [], 24: [1, 2], 25: [1], 28: [0, 1, 2, 3]}
    assert known[23].sources["orders", 0].quiet_since_us == EIGHT_US + 3 * HOUR_US
    assert known[24].clock_us == known[25].clock_us == EIGHT_US + 4 * HOUR_US


def test_golden_ledger_has_announced_its_hours_and_dropped_one() -> None:
    fold = _fold(33)
    assert (fold.next_seq, fold.last_epoch) == (33, 6)
    late = fold.late_rows
    assert (late.side, late.redirect, late.reopen, late.dirty) == (1, 1, 1, 0)
    assert {name[-2:]: (each.version, each.ready_seq) for name, each in fold.closed.items()} == {
        "08": (2, 26),
        "09": (1, 25),
        "10": (1, 29),
        "11": (1, 30),
        "12": (1, 31),
    }
    assert {name[-2:]: (each.rows, each.expired) for name, each in fold.partitions.items()} == {
        "08": (2, False),
        "__": (1, False),
        "09": (0, True),
        "10": (2, False),
        "11": (3, False),
    }


def test_golden_ledger_has_closed_a_prefix_by_its_count() -> None:
    fold = _fold()
    assert (fold.next_seq, fold.last_epoch) == (35, 7)
    assert fold.counted.log == ("audit", "clusterA", "topicC")
    assert fold.counted.ends == {0: 9007199254740993, 1: 4}
    assert fold.counted.rows == {"dt=20251120/hr=14": 9007199254740993}
    assert fold.closed["dt=20251120/hr=13"].closed_seq == 34


def _with(raw: bytes, *changes: tuple[bytes, bytes]) -> bytes:
    for old, new in changes:
        assert old in raw
        raw = raw.replace(old, new)
    return raw


def test_format_never_falls() -> None:
    fold = _fold()
    assert fold.first_fence is not None
    made = record(fold, fence(ledger=fold.first_fence.ledger))
    fold.check(made)
    # As a later version will leave it.
    fold.format = FORMAT + 1
    with pytest.raises(InvariantError, match="rule 26"):
        fold.check(made)


def test_record_of_another_format_than_its_fence_declares_is_refused() -> None:
    fold = _fold(7)
    end = fold.sources["orders", 0].end
    spans = replace(span(0, end, end + 1, topic_id="topicA"), cluster_id="clusterA")
    made = record(fold, data(2, 1, spans))
    fold.check(made)
    fold.format = FORMAT + 1
    with pytest.raises(InvariantError, match="rule 26"):
        fold.check(made)


def test_record_of_a_later_format_is_refused_with_the_way_out() -> None:
    raw = (_GOLDEN / "ledger-format-1" / f"{8:020d}.json").read_bytes()
    assert decode_record(raw, "x").type is RecordType.RESET
    with pytest.raises(LedgerCorruptError, match="reads up to 3") as caught:
        decode_record(_with(raw, (b'"format":1', b'"format":4')), "x")
    assert "run the newer version" in str(caught.value.hint)


def test_fence_for_later_readers_only_is_refused_with_the_way_out() -> None:
    fold = _fold()
    assert fold.first_fence is not None
    raw = encode_record(record(fold, fence(ledger=fold.first_fence.ledger)))
    newer = _with(raw, (b'"min_reader":%d' % FORMAT, b'"min_reader":%d' % (NEWEST_FORMAT + 1)))
    with pytest.raises(InvariantError, match="run the newer version"):
        fold.apply(decode_record(newer, "x"), newer)


@pytest.mark.parametrize("version", [b"0", b"-1", b'"1"', b"true"])
def test_record_with_an_impossible_format_is_refused(version: bytes) -> None:
    raw = (_GOLDEN / "ledger-format-1" / f"{0:020d}.json").read_bytes()
    with pytest.raises(LedgerCorruptError):
        decode_record(_with(raw, (b'"format":1,"id"', b'"format":' + version + b',"id"')), "x")


def test_golden_ledger_of_a_source_whose_keys_are_texts_is_read_and_written_again() -> None:
    fold = Fold()
    for path in sorted((_GOLDEN / "ledger-text-keys").iterdir()):
        raw = path.read_bytes()
        made = decode_record(raw, path.name)
        assert encode_record(made) == raw
        assert made.format == 1
        fold.apply(made, raw)
    assert fold.head == "9bad3a494ea94057d9335484116dd4fdb595221fb1c186d68498946a75b8b21c"
    assert {
        key: (known.start, known.how, known.end, known.end_epoch)
        for key, known in fold.sources.items()
    } == {
        ("orders", "broker-a/0"): (0, "earliest", 101, 3481600000000014),
        ("orders", "broker-a/1"): (7, "earliest", 9, 3481600000000013),
        ("orders", "broker-b/0"): (0, "earliest", 3, 3481600000000012),
        ("orders", "broker-b/1"): (0, "discovered", 0, None),
    }


def test_topic_does_not_get_a_key_of_another_kind() -> None:
    fold = fold_of(fence(), sources(0))
    (pin,) = sources(1).partitions
    other = replace(sources(), partitions=(replace(pin, partition="broker-a/1"),))
    made = record(fold, other)
    with pytest.raises(InvariantError, match=r"orders\[broker-a/1\] has a key of another kind"):
        fold.apply(made, encode_record(made))
