"""A bundle whose sources are plug-ins: one that misbehaves ends its own routes only."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluiceway.formats.registry import JSON
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.plugins import PluginGroup, installed_plugins
from sluiceway.sinks.files.contract import PARQUET_FILES
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.sources.registry import SourceAccess
from sluiceway.types.schema import Field, IntegerType, Schema
from sluiceway.worker.bundle import run_bundle
from sluiceway.worker.plan import RoutePlan, TaskPlan
from tools.plugin_packages import write_package

CODE = """
from sluiceway.sources.contract import Source, SourceBatch, SplitEnd, SplitReader


class Batch(SourceBatch):
    def __init__(self):
        self.split_index, self.values, self.offsets = 0, [b'{"id": 7}'], [0]

    def timestamps_ms(self):
        return [None]

    def records(self, rows):
        raise NotImplementedError


class Reader(SplitReader):
    done = False

    def __init__(self, faulty):
        self.faulty = faulty

    def read(self, timeout_s):
        if self.faulty:
            raise KeyError("a bug of the plug-in")
        self.done = True
        return [Batch()]

    def finished(self):
        return self.done

    def ends(self):
        return (SplitEnd(1, 1, 0, None),)

    def close(self, *, reusable):
        self.done = True


class Queue(Source):
    def open_client(self, options, *, request_timeout_s):
        raise NotImplementedError

    def open_reader(self, splits, options, *, owner):
        if options["does"] == "refuse":
            raise ValueError("no reader today")
        return Reader(options["does"] == "fail")
"""


@pytest.fixture
def _queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "installed"
    folder.mkdir()
    write_package(folder, "plugin_queue", str(PluginGroup.SOURCES), {"queue": "Queue"}, CODE)
    monkeypatch.syspath_prepend(folder)
    installed_plugins.cache_clear()
    yield
    installed_plugins.cache_clear()
    sys.modules.pop("plugin_queue", None)


def plan(root: Path, route: str, does: str) -> TaskPlan:
    folder = root / route
    layout = LedgerLayout(str(folder), route)
    Path(layout.results(1, 1)).mkdir(parents=True)
    shared = RoutePlan(
        ledger=route,
        term=1,
        layout=layout,
        source=SourceAccess("queue", (("does", does),)),
        format=JSON,
        schema=Schema((Field("id", IntegerType(64)),)),
        schema_version="1",
        meta=(),
        event_time=None,
        partitions=(),
        files=PARQUET_FILES,
    )
    return TaskPlan(shared, 1, 0, (Split(SourcePartition(route, 0), 0, 1),), deadline_s=30.0)


@pytest.mark.usefixtures("_queue")
@pytest.mark.parametrize(
    ("does", "told"), [("fail", "KeyError"), ("refuse", "ValueError: no reader today")]
)
def test_source_that_breaks_its_contract_ends_its_own_route_only(
    tmp_path: Path, does: str, told: str
) -> None:
    answers = run_bundle([plan(tmp_path, "sound", "work"), plan(tmp_path, "broken", does)])
    by_route = {answer.ledger: answer for answer in answers}
    sound, broken = by_route["sound"], by_route["broken"]
    assert sound.failure is None
    assert [(split.start, split.end, split.rows) for split in sound.splits] == [(0, 1, 1)]
    assert broken.failure is not None
    assert told in broken.failure.message
    assert broken.files == ()
