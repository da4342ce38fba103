"""Partition values through Spark's own escaping, and through real tables by Spark and pyarrow."""

from pathlib import Path

import pytest

from partition_oracle.__main__ import compare_with_spark, encode_all, write_all
from partition_oracle.ours import Tally
from sluiceway.lab.lab import LabEndpoints


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("values")


@pytest.mark.slow
def test_values_are_named_as_spark_names_them_and_read_back(
    lab_endpoints: LabEndpoints, folder: Path
) -> None:
    tally = Tally()
    kept = encode_all(11, 6_000, folder, tally)
    asked = compare_with_spark(folder, tally)
    assert tally.examples == []
    # Null has no text to ask for.
    assert asked == tally.values - tally.refused.total() - 1 >= 5_000
    written = write_all(lab_endpoints, folder, kept, 50, tally)
    assert tally.examples == []
    assert (tally.escaped, tally.unequal) == (0, 0)
    assert written >= 100
