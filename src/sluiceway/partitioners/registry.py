"""Which partitioner a job file means, and a guard around what it answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluiceway.errors import SluicewayError, UnhealthyEnvironmentError
from sluiceway.partitioners.contract import Partitioner, PartitionTexts
from sluiceway.plugins import PluginGroup, find_implementation, opened

if TYPE_CHECKING:
    import pyarrow as pa

OpenPartitioner = Callable[[Sequence[str], "pa.Schema", Mapping[str, str]], Partitioner]
"""What an entry point of `sluiceway.partitioners` names; see `Partitioner`."""
_BUILT_IN: Mapping[str, OpenPartitioner] = {}
_FAULT = "a fault of the plug-in; tell its author"


@dataclass(frozen=True, slots=True)
class PartitionerChoice:
    """Who gives a partition column its values; a value, so that it reaches the workers.

    Attributes:
        name: Name as in the job file.
        options: Names and values as text, in order. May hold secrets: never logged.
    """

    name: str
    options: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"PartitionerChoice({self.name!r}, <{len(self.options)} options>)"


class CheckedPartitioner:
    """A partitioner whose answers are checked before they are used.

    Args:
        choice: Which one.
        columns: Names of the partition columns that it fills, in path order.
        schema: Schema of the rows.

    Raises:
        ValueError: It cannot serve the options or the columns.
        UnhealthyEnvironmentError: Nothing installed here has the name, or it does not work.
    """

    def __init__(
        self, choice: PartitionerChoice, columns: Sequence[str], schema: "pa.Schema"
    ) -> None:
        open_it: OpenPartitioner = find_implementation(
            PluginGroup.PARTITIONERS, choice.name, _BUILT_IN
        )
        self._name = choice.name
        self._columns = tuple(columns)
        self._partitioner: Partitioner = opened(
            PluginGroup.PARTITIONERS,
            choice.name,
            Partitioner,  # type: ignore[type-abstract]
            lambda: open_it(self._columns, schema, dict(choice.options)),
            allowed_errors=(ValueError,),
        )

    def assign(self, rows: "pa.RecordBatch") -> PartitionTexts:
        """As the contract has it; the arrays are of strings.

        Raises:
            SluicewayError: What the contract lets it raise.
            UnhealthyEnvironmentError: It raised something else, or answered what the contract
                does not have.
        """
        try:
            found = self._partitioner.assign(rows)
        except SluicewayError:
            raise
        except Exception as error:
            text = f"fails: {type(error).__name__}: {str(error)[:300]}"
            raise self._fault(text) from error
        if not isinstance(found, PartitionTexts):
            raise self._fault(f"answers a {type(found).__name__}, not PartitionTexts")
        if len(found.values) != len(self._columns):
            raise self._fault(f"answers {len(found.values)} columns of {len(self._columns)}")
        refused: Mapping[Any, Any] = found.refused
        for row, why in refused.items():
            if not (isinstance(row, int) and 0 <= row < rows.num_rows and isinstance(why, str)):
                raise self._fault(f"refuses the row {row!r} of {rows.num_rows} with {why!r}")
        texts = [self._texts(values, rows.num_rows) for values in found.values]
        return PartitionTexts(texts, found.refused)

    def _texts(self, values: object, rows: int) -> "pa.Array":
        import pyarrow as pa  # noqa: PLC0415 - slow, and others want the names alone

        if not isinstance(values, pa.Array):
            raise self._fault(f"answers a {type(values).__name__}, not an Arrow array")
        kind = values.type
        of = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (pa.types.is_string(of) or pa.types.is_large_string(of) or pa.types.is_null(of)):
            raise self._fault(f"answers values of type {kind}, not text")
        if len(values) != rows:
            raise self._fault(f"answers {len(values)} values for {rows} rows")
        texts = values.cast(pa.string())
        try:
            # Bytes that are no text would come to light in a folder's name.
            texts.validate(full=True)
        except pa.ArrowInvalid as error:
            raise self._fault(f"answers what is no text: {error}") from error
        return texts

    def _fault(self, what: str) -> UnhealthyEnvironmentError:
        columns = ", ".join(self._columns)
        return UnhealthyEnvironmentError(
            f"the partitioner {self._name!r} {what}", where=f"partition {columns}", hint=_FAULT
        )
