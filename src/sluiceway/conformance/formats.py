"""What every format must do, whatever the payloads look like."""

import random
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

import pyarrow as pa

from sluiceway.formats.contract import Decoded, RowDecoder
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.dirty import MESSAGE_LIMIT_CHARS, DirtyReason
from sluiceway.types.schema import (
    BooleanType,
    DataType,
    DecimalType,
    Field,
    IntegerType,
    Schema,
    StringType,
)

_ROWS = 5_000
_BIG_TEXT_CHARS = 3_000_000
_SEED = 20_261_120
_STAGES = ("decode", "convert")
# Bytes that no decoder expects: cut UTF-8, NUL, marks of other encodings, deep nesting.
_HOSTILE = (
    b"\x00",
    b"\xff\xfe\x00\x01",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\xc3",
    b" ",
    b"\n",
    b'"',
    b"'",
    b"{",
    b"[" * 100_000,
    b'{"a":' * 2_000,
    b"\\" * 999,
    b"," * 10_000,
    b"\r\n" * 500,
    b"9" * 5_000,
    b"-",
    b"null",
    b"1e999999999",
    bytes(range(256)),
)

Row = Mapping[str, Any]


class FormatConformance:
    """Subclass it and override `decoder` and `encode`; the other parts where they do not fit.

    Attributes:
        schema: Columns that the suite uses. Choose columns that the format can carry; the first one
            is required.
        empty_is_a_value: Whether a payload without bytes is one like any other.
    """

    schema = Schema(
        (
            Field("id", IntegerType(64), required=True),
            Field("note", StringType()),
            Field("amount", DecimalType(18, 2)),
            Field("paid", BooleanType()),
        )
    )

    empty_is_a_value = False

    def decoder(
        self, schema: Schema, *, tombstones: Literal["skip", "dirty"] = "dirty"
    ) -> RowDecoder:
        """A new decoder. A format with only one rule for tombstones ignores the other."""
        raise NotImplementedError

    def encode(self, row: Row) -> bytes:
        """The payload of a row that a correct producer writes.

        Args:
            row: A value for every column; None for a null. Integers may not fit, and decimals
                may have more digits than the column takes: they are written in full.
        """
        raise NotImplementedError

    def exact_values(self, kind: DataType) -> Sequence[object]:
        """Values of a column type that have to come back exactly; at least two, no null."""
        if isinstance(kind, IntegerType):
            top = 2 ** (kind.bits - 1)
            return (0, 1, -1, top - 1, -top, top // 3)
        if isinstance(kind, DecimalType):
            digits = Decimal("9" * kind.precision).scaleb(-kind.scale)
            return (digits, -digits, Decimal(1).scaleb(-kind.scale), Decimal(0))
        if isinstance(kind, StringType):
            return (
                "Berlin",
                "北京",
                'quote " and \\',
                "a,b;c\td",
                " leading",
                "😀",
                "NULL",
                "x" * 5000,
            )
        if isinstance(kind, BooleanType):
            return (True, False)
        raise NotImplementedError(f"say which values of {kind} have to come back")

    def unfit_values(self, kind: DataType) -> Sequence[object]:
        """Values that do not fit the column type; the row has to be dirty, never changed."""
        if isinstance(kind, IntegerType):
            top = 2 ** (kind.bits - 1)
            return (top, -top - 1, 10**40)
        if isinstance(kind, DecimalType):
            return (
                Decimal(10) ** (kind.precision - kind.scale),
                Decimal(1).scaleb(-kind.scale - 1),
            )
        return ()

    def hostile(self) -> Sequence[bytes]:
        """Payloads that no producer means: fixed ones, and valid ones with changed bytes."""
        source = random.Random(_SEED)  # noqa: S311 - the same bytes every time
        damaged = []
        for row in self._rows(40):
            payload = bytearray(self.encode(row))
            for _ in range(source.randint(1, 4)):
                place = source.randrange(len(payload))
                choice = source.randrange(3)
                if choice == 0:
                    payload[place] = source.randrange(256)
                elif choice == 1:
                    payload.insert(place, source.randrange(256))
                else:
                    del payload[place:]
                    payload += b"\xff"
            damaged.append(bytes(payload))
        return (*_HOSTILE, *damaged)

    # Exactness

    def test_columns_are_those_that_were_asked_for(self) -> None:
        decoder = self.decoder(self.schema)
        wanted = arrow_schema(self.schema)
        assert decoder.arrow_schema.equals(wanted)
        assert decoder.decode([]).rows.schema.equals(wanted)
        assert decoder.decode([self.encode(self._row(0))]).rows.schema.equals(wanted)
        assert decoder.decode([_HOSTILE[1]]).rows.schema.equals(wanted)

    def test_columns_come_in_the_order_of_the_schema(self) -> None:
        for count in range(1, len(self.schema.fields) + 1):
            schema = Schema(self.schema.fields[:count])
            assert self.decoder(schema).arrow_schema.names == [f.name for f in schema.fields]

    def test_values_come_back_exactly(self) -> None:
        rows = [
            {**self._row(0), field.name: value}
            for field in self.schema.fields
            for value in self.exact_values(field.type)
        ]
        decoded = self.decoder(self.schema).decode([self.encode(row) for row in rows])
        assert decoded.dirty == ()
        _same_in_order(decoded.rows.to_pylist(), rows)

    def test_many_rows_come_back_in_order(self) -> None:
        rows = [self._row(number) for number in range(_ROWS)]
        decoded = self.decoder(self.schema).decode([self.encode(row) for row in rows])
        _same_in_order(decoded.indices.to_pylist(), range(_ROWS))
        _same_in_order(decoded.rows.to_pylist(), rows)

    def test_big_value_comes_back_whole(self) -> None:
        texts = [field for field in self.schema.fields if isinstance(field.type, StringType)]
        for field in texts:
            row = {**self._row(0), field.name: "0123456789" * (_BIG_TEXT_CHARS // 10)}
            rows = [self._row(1), row, self._row(2)]
            decoded = self.decoder(self.schema).decode([self.encode(one) for one in rows])
            assert decoded.dirty == ()
            _same_in_order(decoded.rows.to_pylist(), rows)

    def test_value_that_does_not_fit_makes_the_row_dirty(self) -> None:
        decoder = self.decoder(self.schema)
        for field in self.schema.fields:
            for value in self.unfit_values(field.type):
                payload = self.encode({**self._row(0), field.name: value})
                decoded = decoder.decode([payload])
                assert decoded.rows.num_rows == 0, f"{value} was changed into {decoded.rows}"
                assert [row.index for row in decoded.dirty] == [0]

    def test_null_stays_null_and_is_refused_where_required(self) -> None:
        decoder = self.decoder(self.schema)
        for field in self.schema.fields:
            row = {**self._row(3), field.name: None}
            decoded = decoder.decode([self.encode(row)])
            if field.required:
                (dirty,) = decoded.dirty
                assert dirty.reason in (DirtyReason.NULL, DirtyReason.MISSING)
                assert decoded.rows.num_rows == 0
            else:
                assert decoded.dirty == ()
                assert decoded.rows.to_pylist() == [row]

    # Each payload alone

    def test_hostile_bytes_never_raise_and_are_told_well(self) -> None:
        decoder = self.decoder(self.schema)
        for payload in self.hostile():
            for row in self._checked(decoder.decode([payload]), 1).dirty:
                assert row.stage in _STAGES
                assert isinstance(row.reason, DirtyReason)
                assert 0 < len(row.message) <= MESSAGE_LIMIT_CHARS

    def test_bad_row_never_harms_its_neighbours(self) -> None:
        decoder = self.decoder(self.schema)
        good = [self._row(1), self._row(2)]
        before, after = (self.encode(row) for row in good)
        for payload in (*self.hostile(), None, b""):
            decoded = self._checked(decoder.decode([before, payload, after]), 3)
            rows = dict(zip(decoded.indices.to_pylist(), decoded.rows.to_pylist(), strict=True))
            assert [rows.get(0), rows.get(2)] == good, f"next to {payload!r:.80}"

    def test_outcome_of_a_payload_does_not_depend_on_its_batch(self) -> None:
        payloads = self._mixed()
        alone = [_outcome(self.decoder(self.schema).decode([payload])) for payload in payloads]
        for size in (2, 7, len(payloads)):
            decoder = self.decoder(self.schema)
            found = []
            for start in range(0, len(payloads), size):
                batch = payloads[start : start + size]
                decoded = self._checked(decoder.decode(batch), len(batch))
                found += _outcomes(decoded, len(batch))
            _same_in_order(found, alone)

    def test_every_payload_has_one_outcome_among_many(self) -> None:
        payloads = self._mixed() * 20
        random.Random(_SEED).shuffle(payloads)  # noqa: S311 - the same order every time
        kept = list(payloads)
        self._checked(self.decoder(self.schema).decode(payloads), len(payloads))
        _same_in_order(payloads, kept)

    # Tombstones

    def test_tombstone_is_skipped_or_dirty_and_never_a_row(self) -> None:
        empty = None if self.empty_is_a_value else b""
        payloads = [None, self.encode(self._row(0)), empty, None]
        rules: tuple[Literal["skip", "dirty"], ...] = ("skip", "dirty")
        for rule in rules:
            decoder = self.decoder(self.schema, tombstones=rule)
            decoded = self._checked(decoder.decode(payloads), 4)
            assert decoded.indices.to_pylist() == [1]
            assert decoded.skipped + len(decoded.dirty) == 3
            assert {row.reason for row in decoded.dirty} <= {DirtyReason.EMPTY}

    def _row(self, number: int) -> dict[str, Any]:
        """A row that fits; its columns cycle through their values at different paces."""
        row: dict[str, Any] = {}
        for place, field in enumerate(self.schema.fields):
            values = self.exact_values(field.type)
            row[field.name] = values[(number + place) % len(values)]
        return row

    def _rows(self, count: int) -> Iterator[dict[str, Any]]:
        return (self._row(number) for number in range(count))

    def _mixed(self) -> list[bytes | None]:
        good = [self.encode(row) for row in self._rows(30)]
        mixed: list[bytes | None] = [None, b""]
        for number, payload in enumerate(self.hostile()):
            mixed += [payload, good[number % len(good)]]
        return mixed

    @staticmethod
    def _checked(decoded: Decoded, payloads: int) -> Decoded:
        """Check that the parts of a batch add up, each in order."""
        indices = decoded.indices.to_pylist()
        dirty = [row.index for row in decoded.dirty]
        assert decoded.indices.type == pa.int64()
        assert decoded.rows.num_rows == len(indices)
        assert indices == sorted(set(indices))
        assert dirty == sorted(set(dirty))
        assert not set(indices) & set(dirty)
        assert set(indices) | set(dirty) <= set(range(payloads))
        assert len(indices) + len(dirty) + decoded.skipped == payloads
        decoded.rows.validate(full=True)
        return decoded


def _same_in_order(found: Sequence[object], wanted: Sequence[object]) -> None:
    """Stop at the first difference: pytest would print thousands of rows for hours."""
    for place, (one, other) in enumerate(zip(found, wanted, strict=False)):
        if one != other:
            raise AssertionError(f"at {place}: {one!r:.200} in place of {other!r:.200}")
    if len(found) != len(wanted):
        raise AssertionError(f"{len(found)} in place of {len(wanted)}")


def _outcome(decoded: Decoded) -> object:
    (outcome,) = _outcomes(decoded, 1)
    return outcome


def _outcomes(decoded: Decoded, payloads: int) -> list[object]:
    """For each payload its row, or its dirty reason, or None when it was skipped."""
    outcomes: list[object] = [None] * payloads
    for index, row in zip(decoded.indices.to_pylist(), decoded.rows.to_pylist(), strict=True):
        outcomes[index] = row
    for dirty in decoded.dirty:
        outcomes[dirty.index] = (dirty.stage, dirty.reason, dirty.path)
    return outcomes
