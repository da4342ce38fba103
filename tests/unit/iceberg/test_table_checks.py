"""Which lake tables are refused by what they say of their files."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluiceway.errors import TableMismatchError
from sluiceway.sinks.iceberg.publish.table_checks import check_writable


def _refusal(properties: dict[str, str], version: int = 2) -> str:
    metadata = SimpleNamespace(format_version=version, properties=properties)
    with pytest.raises(TableMismatchError) as caught:
        check_writable(cast("Any", metadata), "ods.t")
    assert caught.value.hint
    return caught.value.message


@pytest.mark.parametrize(
    ("properties", "word"),
    [
        ({"write.data.path": "/elsewhere"}, "write.data.path"),
        ({"write.format.default": "orc"}, "not Parquet"),
        ({"encryption.key-id": "k1"}, "encryption.key-id"),
    ],
)
def test_table_whose_readers_would_take_its_files_for_others_is_refused(
    properties: dict[str, str], word: str
) -> None:
    assert word in _refusal(properties)
    assert "format version 1" in _refusal(properties, 1)
