"""The documentation says what the code does."""

from pathlib import Path

import pyarrow as pa
import pytest

from sluiceway.expressions.evaluate import compile_expression
from sluiceway.expressions.functions import FUNCTIONS, OPERATORS, Function, documentation_table
from sluiceway.types.schema import Schema

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "job-file.md"
ROW = pa.record_batch([pa.array([1])], names=["row"])


def test_documentation_holds_the_generated_tables() -> None:
    assert documentation_table() in PAGE.read_text("utf-8")


@pytest.mark.parametrize("of", [*OPERATORS, *FUNCTIONS], ids=lambda of: of.name)
def test_documented_example_gives_what_is_written(of: Function) -> None:
    expected = compile_expression(of.gives, Schema(()))
    found = compile_expression(of.example, Schema(()), salt="pepper")
    outcomes = [each.evaluate(ROW) for each in (found, expected)]
    assert outcomes[0].failed is None
    assert outcomes[0].value.to_pylist() == outcomes[1].value.to_pylist() != [None]
