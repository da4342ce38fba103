"""A share of `make proofs NAME=logical-types`: no value changes for who reads with pyiceberg."""

from pathlib import Path

from logical_types.__main__ import measure, with_outcome
from logical_types.cases import cases
from logical_types.readers import LAKE_BY_PYICEBERG, read_by_pyiceberg

SHARE = ("Decimal", "MicroTimestamp", "VariableScaleDecimal", "Point", "Date", "Uuid")


def test_value_of_each_type_is_right_or_its_row_is_put_aside(tmp_path: Path) -> None:
    of = [each for each in cases() if each.name.rpartition(".")[2] in SHARE]
    counts, shown = measure(of, tmp_path, {LAKE_BY_PYICEBERG: read_by_pyiceberg})
    outcome = with_outcome(counts)
    assert outcome["cells"] == len(of) * 9
    assert (outcome["silent"], outcome["unreadable_tables"]) == (0, 0)
    # Of what a route adds by itself nothing is dirty.
    assert not any("dirty" in text for text in shown["add_columns", "JSON"])
