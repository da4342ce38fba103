"""What every merging of a table's files must do: rows keep their order, file by file.

Readers find a row by its number among the rows of its partition (`ledger.row_places`). A merging
that changes their order gives a reader rows that it has read, and hides others.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import pytest


class CompactionUnderTest(ABC):
    """Merges files of one partition; rows are numbers."""

    @abstractmethod
    def merge(self, files: Sequence[Sequence[int]]) -> list[list[int]]:
        """Write files with these rows, merge them, and read the new files.

        Args:
            files: Rows of each file, in the order of the ledger.

        Returns:
            Rows of each new file, in the order in which they are named.
        """


class CompactionConformance:
    """Subclass it and override the fixture `compaction`."""

    @pytest.fixture
    def compaction(self) -> CompactionUnderTest:
        """The merging under test."""
        raise NotImplementedError

    def test_rows_keep_their_order(self, compaction: CompactionUnderTest) -> None:
        assert _rows(compaction.merge([[3, 1, 2], [9, 8], [5]])) == [3, 1, 2, 9, 8, 5]

    def test_rows_of_many_files_keep_their_order(self, compaction: CompactionUnderTest) -> None:
        files = [[(7 * row + number) % 1000 for row in range(60)] for number in range(40)]
        assert _rows(compaction.merge(files)) == _rows(files)

    def test_rows_that_are_equal_are_all_kept(self, compaction: CompactionUnderTest) -> None:
        assert _rows(compaction.merge([[4, 4], [1], [4]])) == [4, 4, 1, 4]


def _rows(files: Sequence[Sequence[int]]) -> list[int]:
    return [row for file in files for row in file]
