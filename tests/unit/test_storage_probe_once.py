"""A volume is probed once a process, however many routes start on it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sluiceway.errors import StorageUnavailableError
from sluiceway.storage.local import LocalStorage
from sluiceway.storage.probing import ProbeOnce


class CountingStorage(LocalStorage):
    """Two volumes, by the first letter of a folder's name; counts probes."""

    def __init__(self, failures: int = 0) -> None:
        self.probed: list[str] = []
        self._failures = failures

    def volume(self, path: str) -> str:
        return Path(path).name[0]

    def probe(self, folder: str) -> None:
        self.probed.append(Path(folder).name)
        if len(self.probed) <= self._failures:
            raise StorageUnavailableError("away")


def test_routes_that_start_side_by_side_probe_each_volume_once() -> None:
    storage, probes = CountingStorage(), ProbeOnce()
    folders = [f"/{letter}{number}" for number in range(50) for letter in "ab"]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda folder: probes.probe(storage, folder), folders))
    assert sorted(name[0] for name in storage.probed) == ["a", "b"]


def test_probe_that_failed_is_made_again() -> None:
    storage, probes = CountingStorage(failures=1), ProbeOnce()
    with pytest.raises(StorageUnavailableError):
        probes.probe(storage, "/a1")
    probes.probe(storage, "/a2")
    probes.probe(storage, "/a3")
    assert storage.probed == ["a1", "a2"]


def test_other_kind_of_storage_is_probed_for_itself() -> None:
    class Other(CountingStorage):
        pass

    probes, one, other = ProbeOnce(), CountingStorage(), Other()
    probes.probe(one, "/a1")
    probes.probe(other, "/a1")
    assert (one.probed, other.probed) == (["a1"], ["a1"])
