"""What a user hears of a catalog that cannot be opened or does not answer: no secret."""

import pytest

from sluiceway.errors import JobFileError, MetastoreUnavailableError, UnhealthyEnvironmentError
from sluiceway.sinks.iceberg.catalog.catalogs import translated_errors
from sluiceway.sinks.iceberg.catalog.open_catalog import open_catalog

SECRET = "geheim"  # noqa: S105 - of no database


def opened(uri: str) -> None:
    open_catalog({"kind": "sql", "uri": uri, "warehouse": "file:///tmp/none"}, 1.0)


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql+pg8000://u:geheim@h:5432/db",
        "postgresql+pg8000://h:5432/db?password=geheim",
    ],
)
def test_a_driver_that_is_not_installed_is_told_without_the_login(uri: str) -> None:
    with pytest.raises(UnhealthyEnvironmentError, match="pg8000") as caught:
        opened(uri)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://u:x@h:geheim/db",
        "postgresql//u:geheim@h/db",
        "none://u:geheim@h/db",
        "",
    ],
)
def test_an_address_of_no_database_is_the_job_files_mistake(uri: str) -> None:
    with pytest.raises(JobFileError, match="no address of a database") as caught:
        opened(uri)
    assert SECRET not in str(caught.value)


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
