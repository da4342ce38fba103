"""Names of partitions as people type them."""

import pytest

from sluiceway.sinks.partition_path import partition_folder, requested_folder


@pytest.mark.parametrize(
    ("typed", "folder"),
    [
        ("pc=%", "pc=%25"),
        ("pc=%25", "pc=%25"),
        ("pc=50%/dt=20261120/", "pc=50%25/dt=20261120"),
        ("at=08:00", "at=08%3A00"),
        ("dt=20261120/hr=08", "dt=20261120/hr=08"),
        ("a=b=c", "a=b%3Dc"),
        ("none", "none"),
        ("", ""),
    ],
)
def test_value_may_be_typed_as_it_is(typed: str, folder: str) -> None:
    assert requested_folder(typed) == folder
    assert requested_folder(folder) == folder


def test_every_folder_stands_for_itself() -> None:
    for value in ('%"#', "a=b", "x%41", "[]{}?*", None):
        folder = partition_folder(("pc",), (value,))
        assert requested_folder(folder) == folder
