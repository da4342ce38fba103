"""Whether a driver has a route, by its lease."""

from dataclasses import asdict, replace
from pathlib import Path

from sluiceway.audit.partition_wait import LeaseWatch
from sluiceway.host.process import own_identity
from sluiceway.ledger.lease import Lease
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import encode

HERE = own_identity()
OWN = Lease("d", 1, 1, released=False, **asdict(HERE))
ELSEWHERE = replace(OWN, host="far", boot_id="another")


class Place:
    """A lease on this disk, and a clock."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lease.json"
        self.now = 0.0
        self.watch = LeaseWatch(LocalStorage(), str(self._path), lambda: self.now)

    def put(self, lease: Lease) -> None:
        self._path.write_bytes(encode(lease))


def test_no_lease_and_a_released_one_are_nobodys(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert place.watch.check() is False
    place.put(replace(ELSEWHERE, released=True))
    assert place.watch.check() is False


def test_process_of_this_host_is_looked_up_at_once(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.put(OWN)
    assert place.watch.check() is True
    place.put(replace(OWN, start_ticks=OWN.start_ticks + 1))
    assert place.watch.check() is False


def test_driver_of_another_host_is_known_once_its_lease_moves(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.put(ELSEWHERE)
    assert place.watch.check() is None
    place.put(replace(ELSEWHERE, counter=2))
    assert place.watch.check() is True


def test_driver_of_another_host_is_gone_when_its_lease_stands_still(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.put(ELSEWHERE)
    assert place.watch.check() is None
    place.now = 9.9
    assert place.watch.check() is None
    place.now = 10.1
    assert place.watch.check() is False
