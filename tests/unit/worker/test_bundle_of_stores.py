"""A bundle whose tables lie on several stores: one that lets nobody in ends its own routes only."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.errors import KerberosRefusedError
from sluiceway.formats.registry import JSON
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.sinks.files.contract import PARQUET_FILES
from sluiceway.sources.contract import (
    RawRecords,
    SourceBatch,
    SourcePartition,
    Split,
    SplitEnd,
    SplitReader,
)
from sluiceway.sources.registry import SourceAccess
from sluiceway.storage.access import HDFS, StoreAccess, Stores
from sluiceway.storage.contract import Storage
from sluiceway.storage.registry import open_storage
from sluiceway.types.schema import Field, IntegerType, Schema
from sluiceway.worker import bundle
from sluiceway.worker.plan import RoutePlan, TaskPlan

NOBODY = Stores((StoreAccess(HDFS, (("config_dir", "/no/such/folder"),)),))


class _Batch(SourceBatch):
    def __init__(self) -> None:
        self.split_index, self.values, self.offsets = 0, [b'{"id": 7}'], [0]

    def timestamps_ms(self) -> list[int | None]:
        return [None]

    def records(self, rows: Sequence[int]) -> RawRecords:
        raise NotImplementedError(rows)


class _Reader(SplitReader):
    """One row."""

    done = False

    def read(self, timeout_s: float) -> list[SourceBatch]:
        del timeout_s
        self.done = True
        return [_Batch()]

    def finished(self) -> bool:
        return self.done

    def ends(self) -> tuple[SplitEnd, ...]:
        return (SplitEnd(1, 1, 0, None),)

    def close(self, *, reusable: bool) -> None:
        del reusable


@pytest.fixture(autouse=True)
def _one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "open_reader", lambda *_, **__: _Reader())


def plan(root: str, route: str) -> TaskPlan:
    shared = RoutePlan(
        ledger=route,
        term=1,
        layout=LedgerLayout(root, route),
        source=SourceAccess("kafka", ()),
        format=JSON,
        schema=Schema((Field("id", IntegerType(64)),)),
        schema_version="1",
        meta=(),
        event_time=None,
        partitions=(),
        files=PARQUET_FILES,
    )
    return TaskPlan(shared, 1, 0, (Split(SourcePartition(route, 0), 0, 1),), deadline_s=30.0)


def local(folder: Path, route: str) -> TaskPlan:
    found = plan(str(folder / route), route)
    Path(found.route.layout.results(1, 1)).mkdir(parents=True)
    return found


def closed(route: str) -> TaskPlan:
    """Its table lies on a store whose client cannot be made."""
    found = plan("hdfs://far/orders", route)
    return replace(found, route=replace(found.route, stores=NOBODY))


def test_store_without_a_client_ends_its_own_route_only(tmp_path: Path) -> None:
    sound, broken = bundle.run_bundle([local(tmp_path, "sound"), closed("broken")])[::-1]
    assert (sound.ledger, broken.ledger) == ("sound", "broken")
    assert sound.failure is None
    assert [(split.start, split.end, split.rows) for split in sound.splits] == [(0, 1, 1)]
    assert broken.failure is not None
    assert "/no/such/folder" in broken.failure.message
    assert broken.files == ()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KerberosRefusedError("no ticket", hint="kinit"), "no ticket"),
        (KeyError("a bug of the plug-in"), "KeyError: 'a bug of the plug-in'"),
    ],
)
def test_login_that_is_refused_is_that_routes_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def opened(location: str, stores: Stores) -> tuple[Storage, str]:
        if location.startswith("hdfs:"):
            raise error
        return open_storage(location, stores)

    monkeypatch.setattr(bundle, "open_storage", opened)
    answers = bundle.run_bundle([closed("broken"), local(tmp_path, "sound")])
    by_route = {answer.ledger: answer for answer in answers}
    assert by_route["sound"].failure is None
    failure = by_route["broken"].failure
    assert failure is not None
    assert said in failure.message


def test_retry_hands_over_what_was_put_beside_a_store_that_is_closed(tmp_path: Path) -> None:
    plans = [local(tmp_path, "sound"), closed("broken")]
    first = bundle.run_bundle(plans)
    again = bundle.run_bundle(plans, attempt=1)
    failures = {answer.ledger: answer.failure is None for answer in again}
    assert failures == {"sound": True, "broken": False}
    put = {answer.ledger: answer.attempt for answer in first}
    assert {answer.ledger: answer.attempt for answer in again} == put
