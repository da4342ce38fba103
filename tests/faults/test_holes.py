"""Holes that an attack on the protocol found; each test failed before its mend."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluiceway.errors import (
    InvariantError,
    LedgerCorruptError,
    SluicewayError,
    StorageUnavailableError,
    UnhealthyEnvironmentError,
)
from sluiceway.followers.runner import FollowerRunner
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import decode_record
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.sinks.contract import DesiredPartition, ParkedPartition, TableSink, TableState
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt
from tools.followed_catalog import FollowedCatalog
from tools.ledger_records import data, fence, sources, span


def writer(root: Path) -> LedgerWriter:
    layout = LedgerLayout(str(root), "orders")
    for folder in (layout.stage, layout.log):
        Path(folder).mkdir(parents=True, exist_ok=True)
    log = LedgerLog(LocalStorage(), layout)

    def give_up(attempts: int, error: StorageUnavailableError) -> None:
        raise AssertionError((attempts, error))

    return LedgerWriter(log, log.fold(), give_up)


def slot(root: Path, seq: int) -> Path:
    return Path(LedgerLayout(str(root), "orders").record(seq))


def test_record_too_large_to_be_read_again_is_not_put(tmp_path: Path) -> None:
    made = writer(tmp_path)
    made.fence(fence(), lambda: None)
    made.commit(sources(0))
    body = data(1, 0, span(0, 0, 10))
    wide: dict[str, tuple[str, ...]] = {
        f"a_column_with_a_long_name_{n}": ("1234567890123456",) * 2 for n in range(500)
    }
    empty = [
        replace(body.files[0], final=f"{body.files[0].final}{n}", rows=BigInt(0), bounds=wide)
        for n in range(2400)
    ]
    with pytest.raises(LedgerCorruptError, match="bytes"):
        made.commit(replace(body, files=(*body.files, *empty)))
    assert LedgerLog(LocalStorage(), LedgerLayout(str(tmp_path), "orders")).fold().next_seq == 2


def test_old_driver_never_writes_into_a_log_that_was_made_anew(tmp_path: Path) -> None:
    old = writer(tmp_path)
    old.fence(fence(ledger="a" * 32), lambda: None)
    old.commit(sources(0))
    old.commit(data(1, 0, span(0, 0, 10)))
    shutil.rmtree(tmp_path / "_sluiceway")
    new = writer(tmp_path)
    new.fence(fence(ledger="b" * 32), lambda: None)
    with pytest.raises(SluicewayError):
        old.commit(data(1, 1, span(0, 10, 20)))
    new.commit(sources(0))
    new.commit(data(1, 0, span(0, 0, 10)))
    new.commit(data(1, 1, span(0, 10, 20)))
    assert new.fold.next_seq == 4


@pytest.mark.parametrize(
    ("there", "hostile"),
    [
        (b'"started_at_ms":"1"', b'"started_at_ms":"' + b"9" * 5000 + b'"'),
        (b'"host":"h"', b'"host":"\\ud800"'),
    ],
    ids=["5000 digits", "surrogate"],
)
def test_hostile_record_is_corrupt_and_no_crash(
    tmp_path: Path, there: bytes, hostile: bytes
) -> None:
    writer(tmp_path).fence(fence(), lambda: None)
    raw = slot(tmp_path, 0).read_bytes()
    assert there in raw
    with pytest.raises(LedgerCorruptError):
        decode_record(raw.replace(there, hostile), "slot")


def test_staged_name_never_leaves_stage(tmp_path: Path) -> None:
    made = writer(tmp_path)
    made.fence(fence(), lambda: None)
    made.commit(sources(0))
    body = data(1, 0, span(0, 0, 10))
    outside = replace(body.files[0], staged="1-0-x/../../../../etc/secret")
    with pytest.raises(InvariantError):
        made.commit(replace(body, files=(outside,)))


def test_listing_survives_an_entry_that_goes_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").symlink_to(tmp_path / "gone")
    assert [status.path for status in LocalStorage().list(str(tmp_path))] == [str(tmp_path / "a")]


def test_fenced_driver_knows_it_after_a_failed_read(tmp_path: Path) -> None:
    old = writer(tmp_path)
    old.fence(fence(), lambda: None)
    new = writer(tmp_path)
    new.fence(fence(driver="d2"), lambda: None)
    LedgerLog(LocalStorage(), LedgerLayout(str(tmp_path), "orders")).advance(old.fold)
    with pytest.raises(SluicewayError, match="taken over"):
        old.commit(sources(0))


def test_sealed_file_outlives_an_abort(tmp_path: Path) -> None:
    staged = LocalStorage().create_staged(str(tmp_path / "f"))
    staged.handle().write(b"rows")
    staged.seal()
    staged.abort()
    assert (tmp_path / "f").read_bytes() == b"rows"


def test_place_that_can_never_be_published_into_is_no_outage(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    (tmp_path / "dt=1").write_bytes(b"")
    with pytest.raises(UnhealthyEnvironmentError):
        LocalStorage().publish(
            str(tmp_path / "f"), str(tmp_path / "dt=1" / "f"), size_bytes=1, crc32c="0"
        )


class ScriptedSink(TableSink):
    """A catalog that answers as the test says; the real one cannot be made to fail so."""

    def __init__(self, *answers: Callable[[], tuple[ParkedPartition, ...]]) -> None:
        self.answers = list(answers)
        self.applied: list[str] = []

    def open(self) -> TableState:
        raise AssertionError

    def mark_ledger(self, state: TableState, ledger: str) -> None:
        raise AssertionError

    def apply(self, partitions: Sequence[DesiredPartition]) -> tuple[ParkedPartition, ...]:
        parked = self.answers.pop(0)() if self.answers else ()
        self.applied += [partition.values[0] for partition in partitions]
        return parked

    def close(self) -> None:
        return


def fails(error: Exception) -> Callable[[], tuple[ParkedPartition, ...]]:
    def answer() -> tuple[ParkedPartition, ...]:
        raise error

    return answer


def test_effects_go_on_after_the_store_failed() -> None:
    sink = ScriptedSink(fails(StorageUnavailableError("EIO")))
    made = FollowedCatalog(sink)
    made.want([DesiredPartition(("1",), "/t/dt=1")], 3)
    assert made.settle(30)
    made.close()
    assert (sink.applied, made.through) == (["1"], [3])


def test_effects_that_fail_unexpectedly_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluiceway.followers.runner.FIRST_PAUSE_S", 0.2)
    told: list[str] = []
    bug = FollowerRunner._bug

    def noted(runner: FollowerRunner, each: Any, error: Exception) -> SluicewayError:
        told.append(str(error))
        return bug(runner, each, error)

    monkeypatch.setattr(FollowerRunner, "_bug", noted)
    sink = ScriptedSink(fails(ValueError("thrift")))
    made = FollowedCatalog(sink)
    made.want([DesiredPartition(("1",), "/t/dt=1")], 3)
    # A bug ends no thread: what was wanted is tried again.
    assert made.settle(30)
    made.close()
    assert (told, sink.applied, made.through) == (["thrift"], ["1"], [3])


def test_parked_partition_is_not_claimed_as_applied() -> None:
    made = FollowedCatalog(ScriptedSink(lambda: (ParkedPartition(("1",), "elsewhere"),)))
    made.want([DesiredPartition(("1",), "/t/dt=1")], 3)
    assert made.settle(30)
    made.close()
    assert made.through == []
