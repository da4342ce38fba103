"""Says which fields payloads have that no column reads, and of which types they are."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Literal

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.exact_values import Convert, compile_value
from sluiceway.convert.extra_keys import Known, Step, is_wrapped, known_of, unread
from sluiceway.convert.infer_types import UntypedError, common_type, type_of
from sluiceway.convert.json_values import NumberText
from sluiceway.convert.schema_values import meaning_of
from sluiceway.convert.typed_values import Day, Instant, LocalTime, MeantRecord, TimedNumber
from sluiceway.types.dirty import DirtyReason, DirtyRow
from sluiceway.types.evolution import CLOCK_ZONE, ELEMENT, VALUE
from sluiceway.types.hive_types import MAX_PRECISION, format_hive_type
from sluiceway.types.policy import NO_POLICY, Policy
from sluiceway.types.schema import (
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    Field,
    FloatType,
    ListType,
    MapType,
    Schema,
    StructType,
    TimestampType,
    inner_settings,
)
from sluiceway.worker.plan import ObservedField

MOST_FIELDS = 100
MOST_TYPE_CHARS = 4_000
_MOST_PATH_CHARS = 500
_MOST_ROWS = 1_000
_ONE_IN = 4_096

_Place = tuple[str, tuple[str, ...]]
FieldsOf = Callable[[bytes], Mapping[str, object]]
"""See `RowDecoder.fields_of`."""


def open_samples(
    schema: Schema, samples: Literal["none", "dirty", "few"], fields_of: FieldsOf
) -> "FieldSamples | None":
    """What finds such fields in one task; see `RoutePlan.samples`."""
    match samples:
        case "none":
            return None
        case "dirty":
            return DirtySamples(schema, fields_of)
        case "few":
            return FewSamples(schema, fields_of)


class FieldSamples(ABC):
    """One task's samples. Used by its thread. At most 1,000 rows are read, 100 fields reported.

    Args:
        schema: Columns that come from the payload.
        fields_of: Fields of a payload, by the task's decoder.

    Attributes:
        named: Columns whose key is there in some sampled row, also as null.
    """

    def __init__(self, schema: Schema, fields_of: FieldsOf) -> None:
        self._fields_of = fields_of
        self._unknown = UnknownFields(schema)
        self._types: dict[_Place, DataType | None] = {}
        self._untyped: dict[_Place, str] = {}
        self._unfit: dict[_Place, str] = {}
        self._clocks: set[_Place] = set()
        self._observed: Counter[_Place] = Counter()
        self._rows = 0
        self.named: set[str] = set()
        self._unnamed = {column.name: column.path or (column.name,) for column in schema.fields}

    def sample(self, payloads: Sequence[bytes | None], dirty: Sequence[DirtyRow]) -> None:
        """Look at some rows of a batch. Called once a batch.

        Args:
            payloads: Payloads of the batch.
            dirty: What its decoder has refused; `index` counts among the payloads.
        """
        for index in self._chosen(len(payloads), dirty):
            if self._rows >= _MOST_ROWS:
                return
            payload = payloads[index]
            if payload:
                self._rows += 1
                self._sample(payload)

    @abstractmethod
    def _chosen(self, rows: int, dirty: Sequence[DirtyRow]) -> Iterator[int]:
        """Which of a batch's rows are sampled."""

    def fields(self) -> tuple[ObservedField, ...]:
        """What was seen. Called once, at the end."""
        return tuple(self._field(place, found) for place, found in self._types.items())

    def _field(self, place: _Place, found: DataType | None) -> ObservedField:
        text = "" if found is None else format_hive_type(found)
        untyped = self._untyped.get(place, "")
        if len(text) > MOST_TYPE_CHARS:
            text, untyped = "", f"its type has more than {MOST_TYPE_CHARS} characters"
        return ObservedField(
            *place,
            type=text,
            untyped=untyped,
            rows=self._observed[place],
            is_clock=place in self._clocks,
            unfit="" if text else self._unfit.get(place, ""),
        )

    def _sample(self, payload: bytes) -> None:
        fields = self._fields_of(payload)
        self._mark_named(fields)
        found = self._unknown.of(fields)
        for each in found:
            place = (each.column, each.path)
            told = len(self._types) < MOST_FIELDS and sum(map(len, each.path)) <= _MOST_PATH_CHARS
            if place not in self._types and not told:
                continue
            known = self._types.setdefault(place, None)
            try:
                self._types[place] = common_type((known, self._type_of(place, each.value)))
            except UntypedError as error:
                self._untyped.setdefault(place, str(error))
            except DirtyValueError as error:
                # Its row is dirty whatever the column is, so it says nothing of that.
                self._unfit.setdefault(place, error.message)
        self._observed.update({(each.column, each.path) for each in found} & self._types.keys())

    def _type_of(self, place: _Place, value: object) -> DataType | None:
        """The type that one value implies.

        Raises:
            UntypedError: It implies none that a column has.
            DirtyValueError: It does not fit the type that such values have.
        """
        meaning = meaning_of(value)
        if meaning is None:
            found, is_clock = _type_of(value), isinstance(value, LocalTime)
        else:
            if meaning.refused:
                raise UntypedError(meaning.refused)
            if meaning.unfit is not None:
                raise meaning.unfit
            found, is_clock, value = meaning.type, meaning.is_clock, meaning.value
        if is_clock:
            self._clocks.add(place)
        if found is not None:
            _reader(found, is_clock=is_clock)(value)
        return found

    def _mark_named(self, fields: Mapping[str, object]) -> None:
        named = [name for name, path in self._unnamed.items() if _is_there(fields, path)]
        self.named.update(named)
        for name in named:
            del self._unnamed[name]


def _is_there(fields: Mapping[str, object], path: Sequence[str]) -> bool:
    """Whether a payload has such a key, whatever its value."""
    at: object = fields
    for key in path:
        if not isinstance(at, Mapping) or key not in at:
            return False
        at = at[key]
    return True


def _type_of(value: object) -> DataType | None:
    """The type of a value of JSON or of a binary format.

    Raises:
        UntypedError: It implies none.
    """
    if isinstance(value, TimedNumber):
        value = value.time
    elif isinstance(value, MeantRecord):
        value = value.meant
    match value:
        case int() if not isinstance(value, bool):
            return type_of(NumberText(str(value)))
        case Decimal():
            return _decimal_type(value)
        case float():
            return FloatType(64)
        case bytes():
            return BinaryType()
        case Day():
            return DateType()
        case Instant() | LocalTime():
            return TimestampType()
        case _:
            return type_of(value)


@lru_cache
def _reader(of: DataType, *, is_clock: bool) -> Convert:
    """How a column of this type that was added reads values; raises DirtyValueError."""
    policy = Policy(timezone=CLOCK_ZONE) if is_clock else NO_POLICY
    return compile_value(inner_settings(Field("added", of, policy=policy)).type, None, policy)


def _decimal_type(value: Decimal) -> DecimalType:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or max(len(digits), abs(exponent)) > MAX_PRECISION:
        raise UntypedError(f"a decimal of more than {MAX_PRECISION} digits")
    return DecimalType(MAX_PRECISION, max(0, -exponent))


class DirtySamples(FieldSamples):
    """Looks at rows that are dirty for such a field: where columns are made for them."""

    def _chosen(self, rows: int, dirty: Sequence[DirtyRow]) -> Iterator[int]:
        del rows
        return (row.index for row in dirty if row.reason is DirtyReason.UNEXPECTED_FIELD)


class FewSamples(FieldSamples):
    """Samples a few of all rows where such fields are ignored, so that a new one is logged.

    One in 4,096, and one of each batch at least, at another place in each.
    """

    _batches = 0

    def _chosen(self, rows: int, dirty: Sequence[DirtyRow]) -> Iterator[int]:
        del dirty
        self._batches += 1
        return iter(
            range(self._batches * 1_009 % min(rows, _ONE_IN), rows, _ONE_IN) if rows else ()
        )


@dataclass(frozen=True, slots=True)
class UnknownField:
    """A key with a value that is not null.

    Attributes:
        column: The column that holds the key; empty for a key at the payload's top.
        path: Keys from there; `ELEMENT` and `VALUE` for elements of a list and values of a map.
        value: A JSON value with numbers as `NumberText`, or one of `convert.typed_values`.
    """

    column: str
    path: tuple[str, ...]
    value: object


class UnknownFields:
    """Reads payloads of one schema. Created once a task, used by one thread.

    Objects that columns only reach into by their `path` may hold other keys: the job file chose
    some of them. A key with null holds no value, and keys of maps are no fields.

    Args:
        schema: Columns that come from the payload.
    """

    def __init__(self, schema: Schema) -> None:
        self._known = known_of(schema)
        self._in_rows = known_of(schema, wrapped=True)
        self._columns = {
            column.path or (column.name,): column.name
            for column in schema.fields
            if isinstance(column.type, StructType | ListType | MapType)
        }

    def of(self, holder: Mapping[str, object]) -> list[UnknownField]:
        """Unknown fields of a payload, in its order.

        Args:
            holder: Its fields; see `RowDecoder.fields_of`.
        """
        known = self._in_rows if is_wrapped(holder) else self._known
        return [
            self._placed(_general(known, steps), value)
            for steps, value, _ in unread(holder, known, only_held=True)
        ]

    def _placed(self, path: tuple[str, ...], value: object) -> UnknownField:
        for length in range(1, len(path)):
            column = self._columns.get(path[:length])
            if column is not None:
                return UnknownField(column, path[length:], value)
        return UnknownField("", path, value)


def _general(known: Known, steps: tuple[Step, ...]) -> tuple[str, ...]:
    """A path without parts that differ from row to row: places in lists, and keys of maps."""
    path: list[str] = []
    at: Known | None = known
    for step in steps:
        if at is None:
            path.append(str(step))
        elif at.items is not None:
            is_element = isinstance(step, int) and not at.of_map
            path.append(ELEMENT if is_element else VALUE)
            at = at.items
        else:
            path.append(str(step))
            at = at.keys.get(str(step))
    return tuple(path)
