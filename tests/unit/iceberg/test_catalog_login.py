"""What is told of a catalog that cannot be opened holds no secret."""

import pytest

from sluiceway.errors import JobFileError, UnhealthyEnvironmentError
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
