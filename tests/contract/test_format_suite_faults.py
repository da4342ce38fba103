"""Decoders with a planted fault: the suite has to find each of them."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import pyarrow as pa
import pytest

from sluiceway.conformance.formats import FormatConformance, Row
from sluiceway.formats.contract import Decoded, RowDecoder
from sluiceway.formats.json.decoder import JsonDecoder
from sluiceway.types.dirty import DirtyReason, DirtyRow
from sluiceway.types.schema import Schema
from tools.json_payloads_of_rows import json_payload
from tools.suite_runs import fails, names_of_tests

Payloads = Sequence[bytes | None]


class Broken(RowDecoder):
    """The JSON decoder with a fault; this one has none yet."""

    def __init__(self, schema: Schema, tombstones: Literal["skip", "dirty"]) -> None:
        self._sound = JsonDecoder(schema, tombstones=tombstones)
        self._schema = schema

    @property
    def arrow_schema(self) -> pa.Schema:
        return self._sound.arrow_schema

    def decode(self, payloads: Payloads) -> Decoded:
        return self._sound.decode(payloads)


class DropsTheLastRow(Broken):
    def decode(self, payloads: Payloads) -> Decoded:
        found = super().decode(payloads)
        if found.rows.num_rows < 2:
            return found
        return replace(found, rows=found.rows[:-1], indices=found.indices[:-1])


class ReversesRows(Broken):
    def decode(self, payloads: Payloads) -> Decoded:
        found = super().decode(payloads)
        order = pa.array(range(found.rows.num_rows - 1, -1, -1), pa.int64())
        return replace(found, rows=found.rows.take(order))


class NumbersRowsAnew(Broken):
    """Forgets that dirty rows leave holes."""

    def decode(self, payloads: Payloads) -> Decoded:
        found = super().decode(payloads)
        return replace(found, indices=pa.array(range(found.rows.num_rows), pa.int64()))


class RaisesOnBadUnicode(Broken):
    def decode(self, payloads: Payloads) -> Decoded:
        for payload in payloads:
            (payload or b"").decode()
        return super().decode(payloads)


class OneBadRowSpoilsTheBatch(Broken):
    def decode(self, payloads: Payloads) -> Decoded:
        found = super().decode(payloads)
        if not found.dirty:
            return found
        first = found.dirty[0]
        every = tuple(replace(first, index=index) for index in range(len(payloads)))
        return Decoded(found.rows[:0], found.indices[:0], every, 0)


class HidesDirtyRows(Broken):
    def decode(self, payloads: Payloads) -> Decoded:
        found = super().decode(payloads)
        return replace(found, dirty=(), skipped=found.skipped + len(found.dirty))


class ForgetsDirtyRows(Broken):
    def decode(self, payloads: Payloads) -> Decoded:
        return replace(super().decode(payloads), dirty=())


class RoundsDecimals(Broken):
    def decode(self, payloads: Payloads) -> Decoded:
        return super().decode([p and re.sub(rb"(\.\d\d)\d+", rb"\1", p) for p in payloads])


class WrapsIntegers(Broken):
    def decode(self, payloads: Payloads) -> Decoded:
        def wrapped(match: re.Match[bytes]) -> bytes:
            return b"%d" % ((int(match[0]) + 2**63) % 2**64 - 2**63)

        return super().decode([p and re.sub(rb"-?\d{19,41}", wrapped, p) for p in payloads])


class StripsText(Broken):
    def decode(self, payloads: Payloads) -> Decoded:
        return super().decode([p and re.sub(rb'" +', b'"', p) for p in payloads])


class NullTextIsNull(Broken):
    def decode(self, payloads: Payloads) -> Decoded:
        return super().decode([p and p.replace(b'"NULL"', b"null") for p in payloads])


class CutsLongText(Broken):
    def decode(self, payloads: Payloads) -> Decoded:
        return super().decode([p and re.sub(rb"([0-9]{65000})[0-9]+", rb"\1", p) for p in payloads])


class AcceptsMissingValues(Broken):
    def __init__(self, schema: Schema, tombstones: Literal["skip", "dirty"]) -> None:
        optional = tuple(replace(field, required=False) for field in schema.fields)
        super().__init__(Schema(optional), tombstones)


class TombstonesAreRows(Broken):
    def decode(self, payloads: Payloads) -> Decoded:
        empty = b'{"id": 0, "note": null, "amount": null, "paid": null}'
        return super().decode([payload or empty for payload in payloads])


class CountsTombstonesTwice(Broken):
    def decode(self, payloads: Payloads) -> Decoded:
        found = super().decode(payloads)
        return replace(found, skipped=found.skipped * 2)


class RemembersTheRowBefore(Broken):
    """Fills nulls with what the row before had."""

    _before: dict[str, Any] | None = None

    def decode(self, payloads: Payloads) -> Decoded:
        found = super().decode(payloads)
        rows = found.rows.to_pylist()
        for row in rows:
            for name, value in row.items():
                row[name] = (self._before or {}).get(name) if value is None else value
            self._before = dict(row)
        filled = pa.RecordBatch.from_pylist(rows, schema=found.rows.schema)
        return replace(found, rows=filled)


class StopsAtTheFirstBlock(Broken):
    def decode(self, payloads: Payloads) -> Decoded:
        return super().decode(payloads[:4096])


class TellsDirtyRowsInAnyOrder(Broken):
    def decode(self, payloads: Payloads) -> Decoded:
        found = super().decode(payloads)
        return replace(found, dirty=found.dirty[::-1])


class TellsTooMuch(Broken):
    def decode(self, payloads: Payloads) -> Decoded:
        found = super().decode(payloads)
        told = tuple(replace(row, message=row.message * 50) for row in found.dirty)
        return replace(found, dirty=told)


class WidensColumns(Broken):
    def decode(self, payloads: Payloads) -> Decoded:
        found = super().decode(payloads)
        place = found.rows.schema.get_field_index("note")
        wide = found.rows.column(place).cast(pa.large_string())
        return replace(found, rows=found.rows.set_column(place, "note", wide))


class SortsColumns(Broken):
    def __init__(self, schema: Schema, tombstones: Literal["skip", "dirty"]) -> None:
        ordered = tuple(sorted(schema.fields, key=lambda field: field.name))
        super().__init__(Schema(ordered), tombstones)


class ForgetsAfterABadRow(Broken):
    """What follows a bad row is called bad too."""

    def decode(self, payloads: Payloads) -> Decoded:
        found = super().decode(payloads)
        if not found.dirty:
            return found
        cut = found.dirty[0].index
        clean = [index for index in found.indices.to_pylist() if index < cut]
        bad = tuple(
            DirtyRow(index, "decode", DirtyReason.BROKEN, "", "after a bad row")
            for index in range(cut, len(payloads))
        )
        skipped = len(payloads) - len(clean) - len(bad)
        return Decoded(found.rows[: len(clean)], found.indices[: len(clean)], bad, skipped)


FAULTS: list[tuple[type[Broken], str]] = [
    (DropsTheLastRow, "test_many_rows_come_back_in_order"),
    (ReversesRows, "test_many_rows_come_back_in_order"),
    (StopsAtTheFirstBlock, "test_many_rows_come_back_in_order"),
    (NumbersRowsAnew, "test_bad_row_never_harms_its_neighbours"),
    (RaisesOnBadUnicode, "test_hostile_bytes_never_raise_and_are_told_well"),
    (TellsTooMuch, "test_hostile_bytes_never_raise_and_are_told_well"),
    (OneBadRowSpoilsTheBatch, "test_bad_row_never_harms_its_neighbours"),
    (ForgetsAfterABadRow, "test_bad_row_never_harms_its_neighbours"),
    (HidesDirtyRows, "test_value_that_does_not_fit_makes_the_row_dirty"),
    (ForgetsDirtyRows, "test_hostile_bytes_never_raise_and_are_told_well"),
    (TellsDirtyRowsInAnyOrder, "test_every_payload_has_one_outcome_among_many"),
    (RoundsDecimals, "test_value_that_does_not_fit_makes_the_row_dirty"),
    (WrapsIntegers, "test_value_that_does_not_fit_makes_the_row_dirty"),
    (StripsText, "test_values_come_back_exactly"),
    (NullTextIsNull, "test_values_come_back_exactly"),
    (CutsLongText, "test_big_value_comes_back_whole"),
    (AcceptsMissingValues, "test_null_stays_null_and_is_refused_where_required"),
    (TombstonesAreRows, "test_tombstone_is_skipped_or_dirty_and_never_a_row"),
    (CountsTombstonesTwice, "test_tombstone_is_skipped_or_dirty_and_never_a_row"),
    (RemembersTheRowBefore, "test_null_stays_null_and_is_refused_where_required"),
    (DropsTheLastRow, "test_outcome_of_a_payload_does_not_depend_on_its_batch"),
    (WidensColumns, "test_columns_are_those_that_were_asked_for"),
    (SortsColumns, "test_columns_come_in_the_order_of_the_schema"),
]


class Suite(FormatConformance):
    def __init__(self, decoder: type[Broken]) -> None:
        self._decoder = decoder

    def decoder(
        self, schema: Schema, *, tombstones: Literal["skip", "dirty"] = "dirty"
    ) -> RowDecoder:
        return self._decoder(schema, tombstones)

    def encode(self, row: Row) -> bytes:
        return json_payload(row)


@pytest.mark.parametrize(("broken", "test"), FAULTS)
def test_planted_fault_is_found(
    broken: type[Broken], test: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")  # where pytest draws every difference, however many
    assert not fails(Suite(Broken), test)
    assert fails(Suite(broken), test)


def test_every_test_of_the_suite_finds_a_fault() -> None:
    assert {test for _, test in FAULTS} == names_of_tests(FormatConformance)
