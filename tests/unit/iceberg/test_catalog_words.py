"""What a user is told of a catalog that does not answer."""

import pytest

from sluiceway.errors import MetastoreUnavailableError
from sluiceway.sinks.iceberg.catalog.catalogs import translated_errors


@pytest.mark.parametrize(
    ("name", "where"),
    [
        (("", ""), "the catalog http://c:8181"),
        (("ods", "orders"), "ods.orders in the catalog http://c:8181"),
    ],
)
def test_catalog_that_does_not_answer_is_named_with_what_to_look_at(
    name: tuple[str, str], where: str
) -> None:
    with (
        pytest.raises(MetastoreUnavailableError, match="refused") as told,
        translated_errors("http://c:8181", name),
    ):
        raise ConnectionError("refused")
    assert told.value.where == where
    assert "check the connection's address" in (told.value.hint or "")
