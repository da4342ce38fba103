"""Silent changes planted into the converter, one at a time; the oracle has to see each."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sluiceway.convert import (
    arrow_columns,
    exact_numbers,
    exact_rows,
    exact_values,
    native_blocks,
    number_policy,
    text_values,
    time_values,
)
from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.json_values import KINDS, NonFiniteText, NumberText, object_of_pairs
from sluiceway.formats.changes import plain_changes
from sluiceway.formats.changes.canal import CanalChangeDecoder
from sluiceway.formats.changes.envelopes import MAXWELL
from sluiceway.formats.csv import lines, text_columns
from sluiceway.formats.native_rows import NativeRowReader
from sluiceway.host.native_module import native_module
from sluiceway.sinks.files import parquet_file
from sluiceway.sinks.files.small_parquet import SmallParquetFiles
from sluiceway.types import iso_time, policy
from sluiceway.types.dirty import DirtyReason, DirtyRow
from sluiceway.types.matrix import JsonKind

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A wrong converter.

    Attributes:
        name: What it does.
        kinds: Types whose values show it.
        plant: Puts it in place.
        in_json: Whether JSON with its schema around shows it, and no other typed format.
    """

    name: str
    kinds: tuple[str, ...]
    plant: Plant
    in_json: bool = False


MUTANTS: list[Mutant] = []


def native_mutant(*kinds: str) -> Callable[[Plant], Plant]:
    """As `mutant`, of the native module's paths; none where it is not installed."""
    return mutant(*kinds) if native_module() else lambda plant: plant


def mutant(*kinds: str) -> Callable[[Plant], Plant]:
    """Add a mutant, by its function's name."""

    def add(plant: Plant) -> Plant:
        MUTANTS.append(Mutant(plant.__name__.lstrip("_"), kinds, plant))
        return plant

    return add


@mutant("int")
def _fraction_of_an_integer_is_dropped(patch: pytest.MonkeyPatch) -> None:
    def to_integer(text: str, bits: int) -> int:
        whole = text.partition(".")[0] if "e" not in text.lower() else text
        return exact_numbers.to_integer(whole or text, bits)

    patch.setattr(exact_values, "to_integer", to_integer)


@mutant("bigint")
def _fraction_in_quotes_is_rounded(patch: pytest.MonkeyPatch) -> None:
    def read(data_type: Any, policy: Any) -> Any:
        readers = real(data_type, policy)
        plain = readers[JsonKind.STRING]
        readers[JsonKind.STRING] = lambda text: plain(
            str(round(float(text))) if text.endswith(".5") else text
        )
        return readers

    real = exact_values._number_readers
    patch.setattr(exact_values, "_number_readers", read)


@mutant("tinyint", "smallint")
def _overflow_wraps_around(patch: pytest.MonkeyPatch) -> None:
    def to_integer(text: str, bits: int) -> int:
        half = 1 << (bits - 1)
        return (exact_numbers.to_integer(text, 600) + half) % (2 * half) - half

    patch.setattr(exact_values, "to_integer", to_integer)


@mutant("bigint")
def _integer_comes_through_a_double(patch: pytest.MonkeyPatch) -> None:
    def to_integer(text: str, bits: int) -> int:
        value = exact_numbers.to_integer(text, bits)
        return int(float(value)) if abs(value) < 2**62 else value

    patch.setattr(exact_values, "to_integer", to_integer)


@mutant("decimal")
def _decimal_comes_through_a_double(patch: pytest.MonkeyPatch) -> None:
    def to_decimal(text: str, precision: int, scale: int) -> Decimal:
        exact = exact_numbers.to_decimal(text, precision, scale)
        return exact_numbers.to_decimal(f"{float(exact):.{scale}f}", precision, scale)

    patch.setattr(exact_values, "to_decimal", to_decimal)


@mutant("decimal")
def _scale_is_rounded(patch: pytest.MonkeyPatch) -> None:
    def to_decimal(text: str, precision: int, scale: int) -> Decimal:
        return exact_numbers.rounded(text, scale, precision, "ROUND_HALF_EVEN")

    patch.setattr(exact_values, "to_decimal", to_decimal)


@mutant("timestamp")
def _offset_is_dropped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(iso_time, "_offset_us", lambda found: 0)


@mutant("timestamp")
def _milliseconds_are_taken_for_seconds(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(exact_numbers.TIME_UNIT_PLACES, "ms", 6)


@mutant("timestamp")
def _digits_below_a_microsecond_are_dropped(patch: pytest.MonkeyPatch) -> None:
    real = iso_time._fraction_us
    patch.setattr(iso_time, "_fraction_us", lambda fraction, rounding: real(fraction[:6], rounding))


@mutant("timestamp")
def _local_time_that_comes_twice_is_guessed(patch: pytest.MonkeyPatch) -> None:
    def offset(wall: Any, zone: Any) -> int:
        found = wall.replace(tzinfo=zone).utcoffset() if zone else None
        if found is None:
            raise ValueError("no offset")
        return int(found.total_seconds()) * 1_000_000

    patch.setattr(iso_time, "_zone_offset_us", offset)


@mutant("date")
def _day_is_that_of_utc(patch: pytest.MonkeyPatch) -> None:
    real = iso_time.day_in_zone
    patch.setattr(time_values, "day_in_zone", lambda time_us, _: real(time_us, ZoneInfo("UTC")))


@mutant("double")
def _nan_becomes_null(patch: pytest.MonkeyPatch) -> None:
    parser = json.JSONDecoder(
        parse_int=NumberText,
        parse_float=NumberText,
        parse_constant=lambda _: None,
        object_pairs_hook=object_of_pairs,
    )
    patch.setattr(exact_rows, "_PARSER", parser)
    patch.setattr(exact_rows, "_SCAN", parser.scan_once)  # type: ignore[attr-defined]


@mutant("double")
def _infinity_loses_its_sign(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(exact_values._NON_FINITE, "-Infinity", float("inf"))


@mutant("double")
def _great_number_becomes_the_nearest_double(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(exact_values, "to_float", exact_numbers.nearest_float)


@mutant("double")
def _negative_zero_loses_its_sign(patch: pytest.MonkeyPatch) -> None:
    real = exact_numbers.to_float
    patch.setattr(exact_values, "to_float", lambda text, bits: real(text, bits) + 0.0)


@mutant("float")
def _float_is_rounded_twice(patch: pytest.MonkeyPatch) -> None:
    def nearest(text: str, bits: int) -> float:
        value = real(text, bits)
        return float(pa.scalar(float(text)).cast(pa.float32()).as_py()) if bits == 32 else value

    real = exact_numbers.nearest_float
    patch.setattr(exact_numbers, "nearest_float", nearest)


@mutant("boolean")
def _any_other_word_is_false(patch: pytest.MonkeyPatch) -> None:
    def compile_boolean(policy: Any) -> Any:
        yes = (policy.format or "true/false").partition("/")[0]
        return lambda text: text == yes

    patch.setattr(exact_values, "compile_boolean", compile_boolean)


@mutant("boolean")
def _words_for_true_and_false_are_swapped(patch: pytest.MonkeyPatch) -> None:
    real = text_values.compile_boolean

    def compile_boolean(policy: Any) -> Any:
        read = real(policy)
        return (lambda text: not read(text)) if policy.format else read

    patch.setattr(exact_values, "compile_boolean", compile_boolean)


@mutant("string", "varchar")
def _quoted_empty_field_becomes_null(patch: pytest.MonkeyPatch) -> None:
    real = lines.LineReader.fields
    patch.setattr(
        lines.LineReader, "fields", lambda self, line: [f or None for f in real(self, line)]
    )


@mutant("string")
def _doubled_quotes_stay_doubled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lines.LineReader, "_unquoted", lambda _, text: text)


@mutant("string", "varchar")
def _line_ends_inside_of_quotes_are_cut(patch: pytest.MonkeyPatch) -> None:
    real = lines.LineReader.text

    def text(self: Any, payload: bytes, *, lenient: bool) -> str:
        found = real(self, payload, lenient=lenient)
        return found.replace("\r", "").replace("\n", "")

    patch.setattr(lines.LineReader, "text", text)


@mutant("bigint")
def _numbers_of_text_columns_come_through_a_double(patch: pytest.MonkeyPatch) -> None:
    def cast(texts: pa.Array, target: pa.DataType, marks: Any) -> pa.Array:
        return real(
            texts.cast(pa.float64()).cast(pa.int64(), safe=False).cast(pa.string()), target, marks
        )

    real = text_columns._cast
    patch.setattr(text_columns, "_cast", cast)


@mutant("decimal")
def _places_of_text_columns_are_dropped(patch: pytest.MonkeyPatch) -> None:
    def cast(texts: pa.Array, target: pa.DataType, marks: Any) -> pa.Array:
        return real(pc.replace_substring_regex(texts, r"(\.[0-9])[0-9]*$", r"\1"), target, marks)

    real = text_columns._cast
    patch.setattr(text_columns, "_cast", cast)


@mutant("varchar")
def _varchar_is_cut(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(text_values, "_cut", lambda text, length, _: text[:length])


@mutant("char")
def _blanks_at_the_end_are_dropped(patch: pytest.MonkeyPatch) -> None:
    def padded(text: str, length: int, policy: Any) -> Any:
        return text_values._cut(text.rstrip(" "), length, policy)

    patch.setattr(text_values, "_padded", padded)


@mutant("string")
def _nul_is_dropped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(text_values, "_whole", lambda text: text.replace("\0", ""))


@mutant("string")
def _number_becomes_text_unasked(patch: pytest.MonkeyPatch) -> None:
    everything = frozenset(KINDS.values()) - {JsonKind.NON_FINITE}
    patch.setattr(exact_values, "accepted_kinds", lambda *_: everything)


@mutant("binary")
def _odd_bits_of_base64_are_dropped(patch: pytest.MonkeyPatch) -> None:
    def read(text: str) -> bytes:
        try:
            return base64.b64decode(text.encode(), validate=True)
        except (ValueError, UnicodeEncodeError) as error:
            raise DirtyValueError(DirtyReason.BAD_TEXT, "x") from error

    patch.setattr(text_values, "_bytes_of_base64", read)


@mutant("map", "struct")
def _last_of_two_keys_wins(patch: pytest.MonkeyPatch) -> None:
    parser = json.JSONDecoder(
        parse_int=NumberText,
        parse_float=NumberText,
        parse_constant=NonFiniteText,
    )
    patch.setattr(exact_rows, "_PARSER", parser)
    patch.setattr(exact_rows, "_SCAN", parser.scan_once)  # type: ignore[attr-defined]


@mutant("int", "decimal")
def _halves_are_rounded_to_even(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(policy.ROUNDING_MODES, "half_up", "ROUND_HALF_EVEN")


@mutant("smallint")
def _value_is_clamped_to_the_other_end(patch: pytest.MonkeyPatch) -> None:
    real = number_policy._beyond
    patch.setattr(
        number_policy,
        "_beyond",
        lambda text, policy, ends, error: real(text, policy, ends[::-1], error),
    )


@mutant("timestamp")
def _rounding_before_the_epoch_goes_the_other_way(patch: pytest.MonkeyPatch) -> None:
    modes = {mode: (mode, mode) for mode in number_policy._FORWARD}
    patch.setattr(number_policy, "_FORWARD", modes)
    patch.setattr(iso_time, "_fraction_us", lambda fraction, _: int(fraction.ljust(6, "0")[:6]))


@mutant("double", "float")
def _fast_path_trusts_great_numbers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(arrow_columns, "FLOAT_EXACT_LIMIT", {32: 3e38, 64: 1e308})


@mutant("varchar", "char")
def _fast_path_does_not_count_characters(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(arrow_columns, "_mark_longer", lambda *_: None)


@mutant("string", "varchar")
def _fast_path_does_not_look_for_nul(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(arrow_columns, "_strings", lambda array, _: array)


@mutant("smallint", "decimal")
def _fast_path_does_not_mark_what_does_not_fit(patch: pytest.MonkeyPatch) -> None:
    def only_where(fits: pa.Array, array: pa.Array, _: Any) -> pa.Array:
        return pc.if_else(fits, array, pa.scalar(None, array.type))

    patch.setattr(arrow_columns, "_only_where", only_where)


@mutant("timestamp", "timestamp with local time zone")
def _writer_keeps_milliseconds(patch: pytest.MonkeyPatch) -> None:
    real = pq.ParquetWriter

    def writer(handle: Any, schema: pa.Schema, **options: Any) -> Any:
        options["use_deprecated_int96_timestamps"] = False
        return real(
            handle, schema, coerce_timestamps="ms", allow_truncated_timestamps=True, **options
        )

    patch.setattr(pq, "ParquetWriter", writer)
    # The native writer takes its schema from the library, and its values as they are.
    patch.setattr(SmallParquetFiles, "fits", staticmethod(lambda *_: False))


@mutant("string", "char", "varchar")
def _writer_loses_empty_texts(patch: pytest.MonkeyPatch) -> None:
    def write(self: Any, batch: pa.RecordBatch) -> None:
        column = batch.column(0)
        if pa.types.is_string(column.type):
            column = pc.if_else(pc.equal(column, ""), None, column)
        real(self, pa.RecordBatch.from_arrays([column], schema=batch.schema))

    real = parquet_file.ParquetStagedFile.write
    patch.setattr(parquet_file.ParquetStagedFile, "write", write)


@native_mutant("timestamp", "timestamp with local time zone")
def _native_milliseconds_are_taken_for_microseconds(patch: pytest.MonkeyPatch) -> None:
    places = {**exact_numbers.TIME_UNIT_PLACES, "ms": exact_numbers.TIME_UNIT_PLACES["us"]}
    patch.setattr(native_blocks, "TIME_UNIT_PLACES", places)


@native_mutant("bigint", "string")
def _native_rows_that_were_fetched_lose_their_values(patch: pytest.MonkeyPatch) -> None:
    real = native_blocks.NativeReader.read_fetched

    def read(self: Any, payloads: Any) -> Any:
        found, empty = real(self, payloads)
        return replace(found, batches=[batch_without_values(one) for one in found.batches]), empty

    patch.setattr(native_blocks.NativeReader, "read_fetched", read)


@native_mutant("bigint", "double")
def _native_lines_lose_their_values(patch: pytest.MonkeyPatch) -> None:
    real = NativeRowReader.read

    def read(self: Any, payloads: Any, begins: Any) -> Any:
        batch, *rest = real(self, payloads, begins)
        return batch_without_values(batch), *rest

    patch.setattr(NativeRowReader, "read", read)


@native_mutant("bigint", "double")
def _native_lines_that_were_fetched_lose_their_values(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NativeRowReader, "read_fetched", without_values)


@native_mutant("int", "decimal")
def _value_that_the_native_module_doubts_is_dirty(patch: pytest.MonkeyPatch) -> None:
    def dirt(self: Any, number: int, value: bytes) -> DirtyRow:
        return DirtyRow(0, "convert", DirtyReason.BAD_TEXT, "v", "doubted")

    patch.setattr(exact_rows.ExactReader, "dirt", dirt)


_REAL_READ_FETCHED = NativeRowReader.read_fetched


def without_values(self: NativeRowReader, payloads: Any, prefix: bytes) -> Any:
    """As `NativeRowReader.read_fetched`, with nulls for all values."""
    batch, *rest = _REAL_READ_FETCHED(self, payloads, prefix)
    return batch_without_values(batch), *rest


def batch_without_values(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch of nulls."""
    columns = [pa.nulls(len(batch), of.type) for of in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


@mutant("bigint", "string")
def _row_of_maxwell_is_the_one_before(patch: pytest.MonkeyPatch) -> None:
    for marker in MAXWELL.images:
        patch.setitem(MAXWELL.images, marker, ("old",))


@mutant("double", "decimal")
def _plain_changes_lose_their_values(patch: pytest.MonkeyPatch) -> None:
    real = plain_changes._Part._add_sound

    def add(self: Any, batch: pa.RecordBatch, *rest: Any) -> Any:
        columns = [pa.nulls(len(batch), batch.column(0).type), *batch.columns[1:]]
        return real(self, pa.RecordBatch.from_arrays(columns, names=batch.schema.names), *rest)

    patch.setattr(plain_changes._Part, "_add_sound", add)
    patch.setattr(plain_changes._Part, "_sound", lambda _, batch: pc.is_valid(batch.column(1)))


@mutant("string", "int")
def _row_of_canal_with_a_key_loses_its_last_value(patch: pytest.MonkeyPatch) -> None:
    real = CanalChangeDecoder._values

    def values(self: Any, *row: Any) -> list[object]:
        *kept, _, kind = real(self, *row)
        return [*kept, None, kind]

    patch.setattr(CanalChangeDecoder, "_values", values)
