"""Names of data files: who wrote them is read back, whatever stands around it."""

from collections.abc import Callable

import pytest

from sluiceway.ledger.file_names import FileOrigin, file_origin, new_file_name
from sluiceway.ledger.places import intent_folder, moved_folder

ORIGIN = FileOrigin(12, 345)


@pytest.mark.parametrize("route", ["orders", "ods-orders", "a_1", "1-2-3-4"])
@pytest.mark.parametrize("prefix", ["", "part-", "p.", "A1_"])
@pytest.mark.parametrize("suffix", ["", "-c000", ".snappy", "abcdef0123", "_"])
@pytest.mark.parametrize("ending", [".parquet", ".txt.gz", ".json"])
def test_name_tells_who_wrote_the_file(route: str, prefix: str, suffix: str, ending: str) -> None:
    name = new_file_name(route, ORIGIN, 7, prefix=prefix, suffix=suffix) + ending
    assert file_origin(route, name) == ORIGIN
    assert new_file_name(route, ORIGIN, 7, prefix=prefix, suffix=suffix) + ending != name


@pytest.mark.parametrize(
    "change",
    [
        lambda name: "_" + name,
        lambda name: "." + name,
        lambda name: name.replace("orders-", "others-"),
        lambda name: name.replace("-12-345-", "-12-x-"),
        lambda name: name.removesuffix(".parquet"),
        lambda name: name[:30] + ".parquet",
        lambda name: "é" + name,
    ],
)
def test_name_of_another_kind_is_not_the_routes(change: Callable[[str], str]) -> None:
    name = new_file_name("orders", ORIGIN, 7) + ".parquet"
    assert file_origin("orders", name) == ORIGIN
    assert file_origin("orders", change(name)) is None


def test_folders_of_background_work_differ_by_its_slot_and_by_its_attempt() -> None:
    one, other = "1" * 32, "2" * 32
    assert intent_folder(7, one) == f"i7-{one}"
    works = [(7, one), (7, other), (8, one)]
    assert len({intent_folder(*each) for each in works}) == len(works)
    assert len({moved_folder("dt=1/hr=2", *each) for each in works}) == len(works)
