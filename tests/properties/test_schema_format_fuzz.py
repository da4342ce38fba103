"""Damaged Avro and Protobuf: every payload has one outcome, the same alone."""

import pytest

from tools.schema_format_fuzz import FORMATS, run


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_payloads_have_one_outcome_each(name: str) -> None:
    found = run(name, 3_000)
    assert found["wrong"] == []
    assert found["payloads"] == 3_000
    rows, dirty = found["rows"], found["dirty"]
    assert isinstance(rows, int)
    assert isinstance(dirty, int)
    assert min(rows, dirty) > 300
