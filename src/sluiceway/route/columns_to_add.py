"""Which columns a table shall get for fields that no column reads. Values only, no I/O."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from sluiceway.convert.infer_types import UntypedError, common_type, is_field_name
from sluiceway.errors import InvariantError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.sinks.added_columns import PATH_MARK, added_field, added_properties
from sluiceway.sinks.contract import ColumnToHave, TableState
from sluiceway.types.evolution import CLOCK_ZONE, with_field
from sluiceway.types.hive_types import format_hive_type, parse_hive_type
from sluiceway.types.schema import DataType, Field, Schema
from sluiceway.worker.field_samples import MOST_TYPE_CHARS
from sluiceway.worker.plan import ObservedField, RoutePlan

MOST_COLUMNS = 1_000
"""A table that has so many gets no further ones: the keys are data then, not names."""

ObservedPlace = tuple[str, tuple[str, ...]]
"""Column and path of a `ObservedField`."""


@dataclass(frozen=True, slots=True)
class DesiredColumn:
    """A column that the table shall have, and the fields that it is for."""

    column: ColumnToHave
    places: tuple[ObservedPlace, ...]


@dataclass(slots=True)
class ColumnsToAdd:
    """What a table shall get. Made for the fields of one epoch.

    Attributes:
        config: The route, as its job file has it.
        plan: Plan with which the fields were met.
        state: The table as it is.
        desired: Columns to add, by name.
        refused: Fields that never get one, and why.
        unfit: Fields whose values were no such values, and why; another value may bring one.
    """

    config: RouteConfig
    plan: RoutePlan
    state: TableState
    desired: dict[str, DesiredColumn] = field(default_factory=dict)
    refused: dict[ObservedPlace, str] = field(default_factory=dict)
    unfit: dict[ObservedPlace, str] = field(default_factory=dict)

    def add(
        self, fields: Mapping[ObservedPlace, ObservedField], passed: Collection[ObservedPlace]
    ) -> None:
        """Take in fields, except those already refused."""
        for place, seen in sorted(fields.items()):
            if place in passed:
                continue
            try:
                column = self._column_of(seen)
            except UntypedError as error:
                self.refused[place] = str(error)
                continue
            if column is not None:
                before = self.desired.get(column.name)
                places = () if before is None else before.places
                self.desired[column.name] = DesiredColumn(column, (*places, place))
            elif seen.unfit:
                self.unfit[place] = f"no value seen fits the type of its schema: {seen.unfit}"

    def _column_of(self, seen: ObservedField) -> ColumnToHave | None:
        """The column that the table shall have for a field; None when its values imply none yet.

        Raises:
            UntypedError: It can have nothing for it.
        """
        if seen.untyped:
            raise UntypedError(seen.untyped)
        if not seen.type:
            return None
        if not is_field_name(seen.path[-1]):
            raise UntypedError("its key is no name of a column")
        kind = parse_hive_type(seen.type)
        column = self._nested(seen, kind) if seen.column else self._top(seen, kind)
        if len(column.type) > MOST_TYPE_CHARS:
            raise UntypedError(f"its type has more than {MOST_TYPE_CHARS} characters")
        return column

    def _top(self, seen: ObservedField, kind: DataType) -> ColumnToHave:
        key = seen.path[-1]
        name = key.lower()
        state = self.state
        taken = {held.lower() for held, _ in state.columns}
        taken |= {held.lower() for held in (*state.partition_columns, *filled_columns(self.plan))}
        taken |= {column.field.name.lower() for column in self.plan.choices.columns}
        if name in taken or name in self.desired:
            raise UntypedError(f"the table has a column {name} that is not read from this key")
        if len(state.columns) + len(self.desired) >= MOST_COLUMNS:
            raise UntypedError(f"the table has {MOST_COLUMNS} columns already")
        if len(seen.path) > 1:
            key = f"{PATH_MARK}{'.'.join(seen.path)}"
        return ColumnToHave(name, format_hive_type(kind), key, CLOCK_ZONE if seen.is_clock else "")

    def _nested(self, seen: ObservedField, kind: DataType) -> ColumnToHave:
        name = seen.column.lower()
        held = {column.lower(): text for column, text in self.state.columns}
        before = self.desired[name].column.type if name in self.desired else held.get(name)
        if before is None:
            raise UntypedError("the table does not have its column; it may be a transient one")
        longer = with_field(parse_hive_type(before), seen.path, kind)
        if longer is None:
            raise UntypedError("its struct has such a field, or is spelt otherwise in the table")
        return ColumnToHave(name, format_hive_type(longer), name, self._zone(seen))

    def _zone(self, seen: ObservedField) -> str:
        """The zone that an added column's property names, for a field inside of it.

        Raises:
            UntypedError: The column is the job file's, which names none.
        """
        name = seen.column.lower()
        before = self.desired[name].column.timezone if name in self.desired else ""
        if not seen.is_clock:
            return before
        declared = self.config.columns.fields if self.config.columns else ()
        held = [each for each in declared if each.name.lower() == name]
        if not held:
            return CLOCK_ZONE
        if held[0].policy.timezone is None:
            raise UntypedError(
                "it is a clock's time on a wall, and the column it is inside of has no `timezone`"
            )
        return before


def filled_columns(plan: RoutePlan) -> list[str]:
    """Names of the columns that a route's rows have."""
    chosen = [column.field.name for column in plan.choices.columns if column.written]
    meta = [column.column for column in plan.meta]
    if plan.sql is not None:
        return [*(each.name for each in plan.sql.fields), *meta]
    return [*(each.name for each in plan.schema.fields), *chosen, *meta]


def merged_fields(seen: Iterable[ObservedField]) -> dict[ObservedPlace, ObservedField]:
    """Fields of all tasks, each with the type that takes all its values."""
    found: dict[ObservedPlace, ObservedField] = {}
    for each in seen:
        place = (each.column, each.path)
        held = found.get(place)
        found[place] = each if held is None else _both(held, each)
    return found


def _both(one: ObservedField, other: ObservedField) -> ObservedField:
    one = replace(
        one,
        rows=one.rows + other.rows,
        is_clock=one.is_clock or other.is_clock,
        unfit=one.unfit or other.unfit,
    )
    untyped = one.untyped or other.untyped
    if untyped or not (one.type and other.type):
        return replace(one, type=one.type or other.type, untyped=untyped)
    try:
        kind = common_type(parse_hive_type(each.type) for each in (one, other))
    except UntypedError as error:
        return replace(one, untyped=str(error))
    if kind is None:
        raise InvariantError(f"two types have become none: {one.type}, {other.type}")
    return replace(one, type=format_hive_type(kind))


def state_with(state: TableState, columns: Iterable[ColumnToHave], *, declared: bool) -> TableState:
    """A table as it would be with further columns: for commands that foresee a run.

    Args:
        state: The table as it is.
        columns: Columns that it would get, or that would get fields inside.
        declared: Whether the job file lists columns; the table's are taken up in addition.
    """
    kinds = dict(state.columns)
    fields = {each.name.lower(): each for each in (*state.schema.fields, *state.further)}
    added: list[Field] = []
    for each in columns:
        kind = parse_hive_type(each.type)
        held = fields.get(each.name)
        name = each.name if held is None else held.name
        kinds[name] = each.type
        if held is None:
            added.append(added_field(name, kind, "", added_properties([each])))
        else:
            fields[each.name] = replace(held, type=kind)

    def now(of: tuple[Field, ...], more: list[Field]) -> tuple[Field, ...]:
        return (*(fields[each.name.lower()] for each in of), *more)

    return replace(
        state,
        schema=Schema(now(state.schema.fields, [] if declared else added)),
        columns=tuple(kinds.items()),
        further=now(state.further, added if declared else []),
    )
