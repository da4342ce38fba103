"""The simulation's monitor: what may go and come back, by whose hand, and when."""

from pathlib import Path
from typing import Any, cast

import pytest

from sim.folded import Folded, NamedFile
from sim.held import Held
from sim.monitor import Monitor
from sim.outside import READERS_GRACE_S, STOPS_WITHIN_S, Outside
from sim.scheduler import Process
from sim.watched import WatchedLocalStorage
from sluiceway.errors import StorageUnavailableError

ROOT = "/w/db/orders"


class _Acting:
    """Stands for the scheduler, which knows the process whose call it is."""

    def __init__(self) -> None:
        self.process: Process | None = Process("driver0", "a", 100)

    def __call__(self) -> Process | None:
        return self.process


class _Shown:
    """The driver that holds the fence acts; readers are sent elsewhere."""

    def by_owner(self) -> bool:
        return True

    def now(self, folder: str) -> bool:
        del folder
        return False


@pytest.fixture
def acting() -> _Acting:
    return _Acting()


@pytest.fixture
def seconds() -> list[float]:
    return [0.0]


@pytest.fixture
def monitor(acting: _Acting, seconds: list[float]) -> Monitor:
    """Of a ledger in its first term, no epoch of it committed yet."""
    system = f"{ROOT}/_sluiceway/orders"
    held, nobody = Held(system, 4), cast("Any", None)
    outside = Outside(lambda: seconds[0], system, ROOT)
    made = Monitor(ROOT, "orders", held, nobody, cast("Any", _Shown()), outside)
    made.acting = acting
    made.fold = Folded(term=1, epoch=-1)
    return made


def _staged(monitor: Monitor) -> str:
    return f"{monitor.stage}1-0-{'a' * 32}/f.parquet"


def test_writer_that_could_not_seal_its_file_takes_it_back(
    monitor: Monitor, acting: _Acting
) -> None:
    path = _staged(monitor)
    monitor.writes(path)
    monitor.unnamed(path)
    assert monitor.broken == ""
    # Its last act arrives when it is dead.
    monitor.writes(path)
    acting.process = None
    monitor.unnamed(path)
    assert monitor.broken == ""


@pytest.mark.parametrize("by", ["driver0", "gc1", None])
def test_sealed_file_goes_by_nobodys_hand_while_a_record_may_name_it(
    monitor: Monitor, acting: _Acting, by: str | None
) -> None:
    path = _staged(monitor)
    monitor.writes(path)
    monitor.sealed(path)
    acting.process = None if by is None else Process(by, "a", 101)
    monitor.unnamed(path)
    assert monitor.broken.startswith("garbage")


def test_file_that_is_still_written_goes_by_no_other_hand(
    monitor: Monitor, acting: _Acting
) -> None:
    monitor.writes(_staged(monitor))
    acting.process = Process("gc1", "a", 101)
    monitor.unnamed(_staged(monitor))
    assert monitor.broken.startswith("garbage")


def test_storage_tells_of_a_seal_only_when_its_caller_knows(
    monitor: Monitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rename of a seal is made and its reply lost; the writer takes the file back."""
    monitor.stage = f"{tmp_path}/"
    storage = WatchedLocalStorage(monitor)
    folder = tmp_path / f"1-0-{'a' * 32}"
    folder.mkdir()
    whole = Path.rename

    def lost(path: Any, target: Any) -> None:
        whole(path, target)
        raise OSError("reply lost")

    whole_file = storage.create_staged(f"{folder}/whole.parquet")
    whole_file.handle().write(b"1")
    whole_file.seal()
    writer = storage.create_staged(f"{folder}/f.parquet")
    writer.handle().write(b"1")
    monkeypatch.setattr("sluiceway.storage.local.Path.rename", lost)
    with pytest.raises(StorageUnavailableError):
        writer.seal()
    writer.abort()
    assert [path.name for path in folder.iterdir()] == ["whole.parquet"]
    monitor.unnamed(f"{folder}/f.parquet")
    assert monitor.broken == ""
    monitor.unnamed(f"{folder}/whole.parquet")
    assert monitor.broken.startswith("garbage")


@pytest.mark.parametrize("gone", [False, True])
def test_replaced_file_comes_back_only_when_it_was_gone(monitor: Monitor, *, gone: bool) -> None:
    """A copy that arrives a second time, before the old folder goes or after."""
    final = f"{ROOT}/hr=00/f.parquet"
    monitor.fold.files[final] = NamedFile(3, "staged", final, b"1:0\n", visible=True)
    monitor.named(final, b"1:0\n")
    monitor.fold.files[final].dead = "replaced"
    if gone:
        monitor.unnamed(final)
    monitor.named(final, b"1:0\n")
    assert monitor.broken == ("I5: " + final + " comes back, it was replaced" if gone else "")


@pytest.mark.parametrize(
    "path", [f"{ROOT}/hr=00/_SUCCESS", f"{ROOT}/_sluiceway/orders/requests/a.json"]
)
@pytest.mark.parametrize("slept", [False, True])
def test_fenced_driver_that_is_awake_for_long_changes_nothing_outside(
    monitor: Monitor, acting: _Acting, seconds: list[float], path: str, *, slept: bool
) -> None:
    assert acting.process is not None
    monitor.outside.terms[acting.process] = 1
    monitor.outside.note_fence(1)
    monitor.outside.note_fence(2)
    seconds[0] = STOPS_WITHIN_S + 1
    acting.process.awake_since = seconds[0] if slept else 0.0
    monitor.told_metastore("", f"{ROOT}/hr=00")
    monitor.unnamed(path)
    assert monitor.broken.startswith("" if slept else "rule 16: driver0, fenced 16.0 s ago")
    assert bool(monitor.broken) is not slept


def test_fenced_driver_may_tend_what_is_its_own(
    monitor: Monitor, acting: _Acting, seconds: list[float]
) -> None:
    assert acting.process is not None
    monitor.outside.terms[acting.process] = 1
    monitor.outside.note_fence(1)
    monitor.outside.note_fence(2)
    seconds[0] = STOPS_WITHIN_S + 1
    monitor.named(f"{ROOT}/_sluiceway/orders/lease.json", b"{}")
    monitor.unnamed(f"{monitor.stage}results/1-0/stop")
    assert monitor.broken == ""


@pytest.mark.parametrize("after_s", [READERS_GRACE_S - 1, READERS_GRACE_S])
@pytest.mark.parametrize("mine", [False, True])
def test_old_folder_goes_only_long_after_its_driver_has_sent_readers_away_itself(
    monitor: Monitor, acting: _Acting, seconds: list[float], after_s: float, *, mine: bool
) -> None:
    old, final = f"{ROOT}/hr=00", f"{ROOT}/hr=00/f.parquet"
    file = NamedFile(3, "staged", final, b"1:0\n", visible=True)
    file.dead = "replaced"
    monitor.fold.files[final] = file
    sweeper, acting.process = acting.process, acting.process if mine else None
    monitor.told_metastore(old, f"{ROOT}/_sluiceway-3-x/hr=00")
    seconds[0], acting.process = after_s, sweeper
    monitor.unnamed(final)
    soon = mine and after_s < READERS_GRACE_S
    assert monitor.broken.startswith("rule 16: driver0 sent readers from" if soon else "")
    assert bool(monitor.broken) is soon
