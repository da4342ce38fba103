"""Orphans of a keyed table: what a publisher keeps for its slots stays, however old it is."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sluiceway.errors import SluicewayError
from sluiceway.sinks.iceberg.compact.orphans import LakeOrphans, ListedFile, Orphans
from tools.keyed_lake import KEYED, KEYED_BY_APP, KeyedLake
from tools.lake_under_test import PublisherUnderTest

if TYPE_CHECKING:
    from sluiceway.sinks.lake_options import LakeOptions

_AGE_S = 3 * 86_400.0


@pytest.fixture(params=[KEYED, KEYED_BY_APP], ids=["whole", "by-app"])
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> KeyedLake:
    """Two rows in the table."""
    options: LakeOptions = request.param
    found = KeyedLake(tmp_path, options)
    found.commit(1, 2)
    found.publisher().publish()
    return found


def refused_for_days(lake: KeyedLake) -> tuple[PublisherUnderTest, str]:
    """A publisher whose catalog takes no request for days, and the data file that it keeps."""
    catalog = lake.faulty()
    catalog.faults = ["lost"] * 3
    publisher, before = lake.publisher(catalog), lake.in_table()
    lake.commit(3)
    with pytest.raises(SluicewayError):
        publisher.publish()
    (kept,) = {each for each in lake.in_table() - before if each.startswith("data/")}
    lake.days_pass()
    return publisher, kept


def test_a_publish_that_lands_while_orphans_go_keeps_its_file(
    lake: KeyedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher, kept = refused_for_days(lake)
    remove = LakeOrphans._remove
    landed: list[int] = []

    def publish_first(self: LakeOrphans, each: ListedFile, gone: Orphans) -> Orphans:
        if not landed:
            landed.append(publisher.publish())
        return remove(self, each, gone)

    monkeypatch.setattr(LakeOrphans, "_remove", publish_first)
    # Metadata of the requests that never landed.
    assert lake.orphans().remove(_AGE_S).files
    assert landed
    assert kept in lake.in_table()
    lake.assert_equal()
    lake.commit(3, app="b")
    lake.publisher().publish()
    lake.assert_equal()


def test_it_goes_when_another_was_published_for_its_slots(lake: KeyedLake) -> None:
    _, kept = refused_for_days(lake)
    lake.publisher().publish()
    lake.orphans().remove(_AGE_S)
    assert kept not in lake.in_table()
    lake.assert_equal()


def test_two_publishers_of_one_slot_never_share_a_name(lake: KeyedLake) -> None:
    _, one = refused_for_days(lake)
    before = lake.in_table()
    publisher, other = refused_for_days(lake)
    assert other not in before
    assert one.rpartition("-")[0] == other.rpartition("-")[0]
    publisher.publish()
    lake.assert_equal()
