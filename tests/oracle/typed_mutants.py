"""Silent changes planted into the readers of typed formats; the oracle has to see each."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pytest

from sluiceway.convert import exact_numbers, exact_values, text_values, typed_readers, typed_values
from sluiceway.convert.typed_values import Float32, LocalTime
from sluiceway.formats import connect_blocks, native_rows
from sluiceway.formats.avro import column_scan, fast_columns, reader
from sluiceway.formats.avro import native_columns as avro_plans
from sluiceway.formats.changes import connect_values
from sluiceway.formats.connect_times import CONNECT_TIMES
from sluiceway.formats.protobuf import native_columns as protobuf_plans
from sluiceway.host.native_module import native_module
from sluiceway.types.typed_matrix import TypedKind

from .mutants import Mutant, Plant, batch_without_values, without_values

TYPED_MUTANTS: list[Mutant] = []


def _near(number: int) -> int:
    """A number that Arrow takes: mutants change values, they do not raise."""
    return min(max(number, -(10**16)), 10**16)


def native_mutant(*kinds: str) -> Callable[[Plant], Plant]:
    """As `mutant`, of the native module's paths; none where it is not installed."""
    return mutant(*kinds) if native_module() else lambda plant: plant


def mutant(*kinds: str, in_json: bool = False) -> Callable[[Plant], Plant]:
    """Add a mutant, by its function's name."""

    def add(plant: Plant) -> Plant:
        TYPED_MUTANTS.append(Mutant(plant.__name__.lstrip("_"), kinds, plant, in_json))
        return plant

    return add


connect_mutant = partial(mutant, in_json=True)
"""As `mutant`, of Kafka Connect's JSON."""


def native_connect_mutant(*kinds: str) -> Callable[[Plant], Plant]:
    """As `native_mutant`, of Kafka Connect's JSON."""
    return connect_mutant(*kinds) if native_module() else lambda plant: plant


@mutant("int", "bigint")
def _float_is_read_by_its_shortest_text(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(typed_readers, "exact_text", lambda value: f"{Decimal(str(value)):f}")


@mutant("tinyint", "smallint")
def _whole_number_wraps_around(patch: pytest.MonkeyPatch) -> None:
    real = typed_readers._exact_readers

    def readers(data_type: Any, read: Any) -> Any:
        found = real(data_type, read)
        half = 1 << (getattr(data_type, "bits", 64) - 1)
        found[int] = lambda value: (value + half) % (2 * half) - half
        return found

    patch.setattr(typed_readers, "_exact_readers", readers)


@mutant("float")
def _double_is_narrowed_silently(patch: pytest.MonkeyPatch) -> None:
    real = typed_readers._float_reader

    def reader_of(bits: int, policy: Any) -> Any:
        read = real(bits, policy)
        return lambda value: read(Float32(value))

    patch.setattr(typed_readers, "_float_reader", reader_of)


@mutant("double")
def _nan_is_kept_unasked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(typed_readers, "_float_reader", lambda bits, policy: float)


@mutant("timestamp")
def _nanoseconds_are_dropped(patch: pytest.MonkeyPatch) -> None:
    real = exact_numbers.to_time_us
    patch.setattr(
        typed_readers, "to_time_us", lambda text, unit: real(str(int(text) // 1000), "us")
    )


@mutant("timestamp", "timestamp with local time zone")
def _local_time_is_taken_for_utc(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        typed_readers, "_local_reader", lambda policy: lambda value: _near(value.ns // 1000)
    )


@mutant("date")
def _day_beyond_the_calendar_is_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(typed_readers, "_day", lambda value: min(max(value.number, -719162), 2932896))


@mutant("date")
def _day_of_an_instant_is_that_of_utc(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        typed_readers,
        "compile_day_of_instant",
        lambda policy, read_us: lambda us: _near(int(us)) // 86_400_000_000,
    )


@mutant("string", "varchar")
def _bytes_become_text(patch: pytest.MonkeyPatch) -> None:
    real = typed_readers.typed_readers

    def readers(data_type: Any, policy: Any, json: Any) -> Any:
        return {**real(data_type, policy, json), bytes: lambda value: value.decode("latin-1")}

    patch.setattr(exact_values, "typed_readers", readers)


@mutant("string", "varchar", "char")
def _time_loses_its_fraction_as_text(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(typed_values, "_fraction", lambda wall: "")


@mutant("decimal", "string")
def _decimal_is_rounded_to_a_few_digits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reader, "_EXACT", None)


@mutant("decimal", "bigint")
def _decimal_of_bytes_loses_its_sign(patch: pytest.MonkeyPatch) -> None:
    real: Any = reader._decimal

    def unsigned(read: Any, scale: int) -> Any:
        return lambda cursor: abs(real(read, scale)(cursor))

    patch.setattr(reader, "_decimal", unsigned)


@mutant("timestamp")
def _milliseconds_are_taken_for_microseconds(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(reader._NS, "millis", 1000)


@mutant("string")
def _bad_utf8_is_replaced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(text_values, "_whole", lambda text: text.encode("utf-8", "replace").decode())


@mutant("map")
def _last_of_two_keys_of_a_map_wins(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reader, "object_of_pairs", dict)


@mutant("date", "timestamp")
def _time_of_another_kind_is_taken(patch: pytest.MonkeyPatch) -> None:
    everything = frozenset({TypedKind.DAY, TypedKind.INSTANT, TypedKind.LOCAL_TIME})
    patch.setattr(typed_readers, "accepted_typed_kinds", lambda target, policy: everything)
    patch.setattr(typed_readers, "_day", lambda value: _near(getattr(value, "number", 0)) % 9999)


@mutant("smallint")
def _fast_path_does_not_look_at_ranges(patch: pytest.MonkeyPatch) -> None:
    real: Any = fast_columns._bounded
    widest = (-(2**63), 2**63 - 1)
    patch.setattr(fast_columns, "_bounded", lambda ends, *rest: real(widest, *rest))


@mutant("timestamp")
def _fast_path_takes_milliseconds_for_microseconds(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(fast_columns._US_PER_STAMP, "timestamp-millis", 1)


@mutant("decimal")
def _fast_path_loses_the_sign_of_decimals(patch: pytest.MonkeyPatch) -> None:
    real = column_scan.Scan.unscaled
    patch.setattr(column_scan.Scan, "unscaled", lambda self, rows: abs(real(self, rows)))


@mutant("string")
def _fast_path_puts_blanks_in_place_of_nul(patch: pytest.MonkeyPatch) -> None:
    real = column_scan.Scan.gather

    def gather(self: Any, begins: Any, sizes: Any) -> Any:
        data, offsets = real(self, begins, sizes)
        return np.where(data == 0, np.uint8(32), data), offsets

    patch.setattr(column_scan.Scan, "gather", gather)


@mutant("double")
def _fast_path_keeps_nan_unasked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        fast_columns,
        "_of_floats",
        lambda target: (
            lambda scan, found, count: fast_columns._spread(found, found.values, count, target)
        ),
    )


@native_mutant("timestamp", "timestamp with local time zone")
def _native_avro_takes_milliseconds_for_microseconds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(avro_plans, "unit_of", lambda ns: native_rows.unit_of(min(ns, 1000)))


@native_mutant("timestamp", "timestamp with local time zone")
def _native_protobuf_takes_milliseconds_for_microseconds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(protobuf_plans, "unit_of", lambda ns: native_rows.unit_of(min(ns, 1000)))


@native_mutant("int", "bigint")
def _native_protobuf_does_not_undo_zigzag(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        protobuf_plans,
        "whole",
        lambda name, place: native_rows.whole(name.replace("sint", "int"), place),
    )


@native_mutant("boolean", "string")
def _native_rows_that_were_fetched_lose_their_values(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(native_rows.NativeRowReader, "read_fetched", without_values)


@connect_mutant("decimal", "bigint")
def _decimal_of_connect_loses_its_sign(patch: pytest.MonkeyPatch) -> None:
    real = connect_values._number
    patch.setattr(connect_values, "_number", lambda text, scale: abs(real(text, scale)))


@connect_mutant("timestamp", "timestamp with local time zone")
def _connect_takes_microseconds_for_nanoseconds(patch: pytest.MonkeyPatch) -> None:
    micros = "io.debezium.time.MicroTimestamp"
    times = {**CONNECT_TIMES, micros: LocalTime}
    patch.setattr(connect_values, "CONNECT_TIMES", times)


@connect_mutant("timestamp", "timestamp with local time zone")
def _local_text_of_connect_is_taken_for_utc(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(connect_values, "CONNECT_TEXT_TIMES", frozenset())


@native_connect_mutant("decimal", "double")
def _native_connect_shifts_the_point_of_decimals(patch: pytest.MonkeyPatch) -> None:
    real = connect_blocks._scale_of

    def scale_of(node: Any) -> int | None:
        found = real(node)
        return None if found is None else found + 1

    patch.setattr(connect_blocks, "_scale_of", scale_of)


@native_connect_mutant("timestamp", "timestamp with local time zone")
def _native_connect_takes_microseconds_for_nanoseconds(patch: pytest.MonkeyPatch) -> None:
    micros = "io.debezium.time.MicroTimestamp"
    patch.setattr(connect_blocks, "CONNECT_TIMES", {**CONNECT_TIMES, micros: LocalTime})


@native_connect_mutant("string", "boolean")
def _native_rows_with_schemas_that_were_fetched_lose_their_values(
    patch: pytest.MonkeyPatch,
) -> None:
    real = connect_blocks.WrappedReader.read_fetched

    def read(self: Any, payloads: Any) -> Any:
        found, empty = real(self, payloads)
        return replace(found, batches=[batch_without_values(one) for one in found.batches]), empty

    patch.setattr(connect_blocks.WrappedReader, "read_fetched", read)
