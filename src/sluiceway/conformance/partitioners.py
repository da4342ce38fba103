"""What every partitioner must do, whatever the rows look like."""

import os
import random
from collections.abc import Sequence

import pyarrow as pa

from sluiceway.partitioners.contract import Partitioner, PartitionTexts
from sluiceway.partitioners.registry import CheckedPartitioner, PartitionerChoice
from sluiceway.sinks.partition_path import (
    DEFAULT_PARTITION,
    parse_partition_folder,
    partition_folder,
    partition_value_problem,
    resolve_within,
)

_SEED = 20_261_120
_ROOT = "/warehouse/ods.db/orders"

Outcome = tuple[tuple[str | None, ...], str | None]
"""Texts of a row, and why it was refused."""


class PartitionerConformance:
    """Subclass it, set `name`, and override `rows`; the other parts where they do not fit.

    Attributes:
        name: Name of the entry point.
        columns: Partition columns that the suite asks for.
        options: Options, as in the job file.
        wrong_options: Sets of options that have to be refused.
    """

    name = ""
    columns: Sequence[str] = ("place",)
    options: tuple[tuple[str, str], ...] = ()
    wrong_options: Sequence[tuple[tuple[str, str], ...]] = ((("no_such_option", "x"),),)

    def rows(self) -> pa.RecordBatch:
        """At least 20 rows of all kinds that it knows, with nulls and hostile texts among them."""
        raise NotImplementedError

    def partitioner(self) -> CheckedPartitioner:
        """A new partitioner, opened as a job opens it."""
        return self._opened(self.options)

    def test_answers_have_a_text_or_null_a_row_for_each_column(self) -> None:
        """The guard raises for every answer that violates the contract."""
        rows = self.rows()
        assert rows.num_rows >= 20, "the suite needs at least 20 rows"
        found = self.partitioner().assign(rows)
        assert isinstance(found, PartitionTexts)
        assert len(found.values) == len(self.columns)

    def test_row_alone_has_the_outcome_that_it_has_among_others(self) -> None:
        rows, partitioner = self.rows(), self.partitioner()
        together = _outcomes(partitioner, rows)
        for row in range(rows.num_rows):
            (alone,) = _outcomes(partitioner, rows.slice(row, 1))
            assert alone == together[row], rows.slice(row, 1).to_pylist()

    def test_rows_in_another_order_have_the_same_outcomes(self) -> None:
        rows = self.rows()
        together = _outcomes(self.partitioner(), rows)
        order = list(range(rows.num_rows))
        random.Random(_SEED).shuffle(order)  # noqa: S311 - the same order again
        shuffled = _outcomes(self.partitioner(), rows.take(pa.array(order)))
        assert shuffled == [together[row] for row in order]

    def test_outcomes_are_the_same_again(self) -> None:
        """After a crash rows are read again, by another process, and reach the same partitions."""
        rows, partitioner = self.rows(), self.partitioner()
        first = _outcomes(partitioner, rows)
        assert _outcomes(partitioner, rows) == first
        assert _outcomes(self.partitioner(), rows) == first

    def test_large_batch_has_an_outcome_a_row(self) -> None:
        rows = self.rows()
        copies = 5_000 // rows.num_rows + 1
        large = pa.Table.from_batches([rows] * copies).combine_chunks().to_batches()[0]
        assert _outcomes(self.partitioner(), large) == _outcomes(self.partitioner(), rows) * copies

    def test_rows_are_left_as_they_are(self) -> None:
        rows = self.rows()
        before = rows.to_pylist()
        self.partitioner().assign(rows)
        assert rows.to_pylist() == before

    def test_some_rows_have_a_partition_and_folders_stay_below_the_table(self) -> None:
        rows, kept = self.rows(), 0
        for texts, refused in _outcomes(self.partitioner(), rows):
            pairs = list(zip(self.columns, texts, strict=True))
            if refused or "" in texts or any(partition_value_problem(*pair) for pair in pairs):
                continue
            kept += 1
            folder = partition_folder(self.columns, texts)
            path = resolve_within(_ROOT, folder)
            assert os.path.normpath(path) == path
            expected = [(name, text or DEFAULT_PARTITION) for name, text in pairs]
            assert list(parse_partition_folder(folder)) == expected
        assert kept > 0, "every row is dirty"

    def test_options_that_it_does_not_have_are_refused_in_words(self) -> None:
        for options in self.wrong_options:
            told = None
            try:
                self._opened(options)
            except ValueError as error:
                told = str(error).strip()
            assert told is not None, f"{options} is no error"
            assert told, "the error says nothing"

    def _opened(self, options: tuple[tuple[str, str], ...]) -> CheckedPartitioner:
        choice = PartitionerChoice(self.name, options)
        return CheckedPartitioner(choice, tuple(self.columns), self.rows().schema)


def _outcomes(partitioner: CheckedPartitioner | Partitioner, rows: pa.RecordBatch) -> list[Outcome]:
    found = partitioner.assign(rows)
    texts = zip(*(values.to_pylist() for values in found.values), strict=True)
    return [
        ((None,) * len(row) if at in found.refused else row, found.refused.get(at))
        for at, row in enumerate(texts)
    ]
