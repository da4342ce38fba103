"""What is read again is there still, or it is listed; corrections are due until a SWAP has them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from sluiceway.chains.units import UNITS
from sluiceway.errors import (
    NotInThisVersionError,
    OffsetsLostError,
    RequestRefusedError,
    TaskFailedError,
)
from sluiceway.ledger.partition_records import SwapCounts, SwapInput
from sluiceway.sources.contract import (
    Correction,
    DiscoveredPartition,
    LogBounds,
    SourceIdentity,
    SourcePartition,
)
from sluiceway.sources.registry import SourceAccess
from sluiceway.types.schema import Field, IntegerType, Schema
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.prefix_history import PrefixHistory, QueueRange
from sluiceway.upkeep.rereading import ReadSoFar, Rereading, refuse_lost
from sluiceway.upkeep.swapping import SwapContent, SwapOrder, SwapStaging, swap
from sluiceway.worker.plan import KeyRule
from tools.ledger_records import LEDGER
from tools.small_task import route_plan
from tools.worked_route import EIGHT, WorkedRoute

LOG = SourcePartition("orders", 0)


class Broker:
    """One log, with offsets 5 to 20."""

    def __init__(self, topic_id: str = "t1", *, there: bool = True) -> None:
        self.topic_id = topic_id
        self.there = there
        self.corrected: tuple[Correction, ...] = ()
        self.asked: list[tuple[Mapping[SourcePartition, int], Mapping[SourcePartition, int]]] = []

    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        identity = SourceIdentity("c1", self.topic_id)
        return (DiscoveredPartition(LOG, identity, None),) if self.there else ()

    def bounds(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        return {one: LogBounds(5, 20, 20) for one in partitions}

    def corrections(
        self, starts: Mapping[SourcePartition, int], ends: Mapping[SourcePartition, int]
    ) -> tuple[Correction, ...]:
        self.asked.append((starts, ends))
        return self.corrected

    def slot_read(self, ends: Mapping[SourcePartition, int], prefix: str) -> tuple[str, int] | None:
        assert prefix
        return None if self.topic_id != "table" else ("u" * 32, 100 + ends[LOG])


def reading(broker: Broker, **plan: Any) -> Rereading:
    made = route_plan("/w/t", **plan)
    return Rereading(cast("Any", broker), lambda: made, LEDGER)


def lost(broker: Broker, start: int, end: int) -> list[str]:
    history = PrefixHistory({("orders", 0): [QueueRange("t1", "c1", start, end)]})
    return [str(each) for each in reading(broker).lost(history)]


def test_what_is_there_is_not_lost() -> None:
    assert lost(Broker(), 5, 20) == []


@pytest.mark.parametrize(
    ("broker", "span", "said"),
    [
        (Broker(), (0, 20), "orders[0] [0, 5): the log begins at 5"),
        (Broker(), (0, 3), "orders[0] [0, 3): the log begins at 5"),
        (Broker(), (10, 30), "orders[0] [10, 30): the log ends at 20"),
        (Broker("t2"), (5, 20), "orders[0] [5, 20): the log of this name is another one"),
        (Broker(there=False), (5, 20), "orders[0] [5, 20): there is no such log"),
    ],
)
def test_what_the_broker_has_lost_is_listed(
    broker: Broker, span: tuple[int, int], said: str
) -> None:
    assert lost(broker, *span) == [said]
    history = PrefixHistory({("orders", 0): [QueueRange("t1", "c1", *span)]})
    with pytest.raises(OffsetsLostError) as told:
        refuse_lost(reading(broker).lost(history), EIGHT)
    assert said in str(told.value)


def test_table_with_a_key_and_late_rows_aside_are_refused(tmp_path: Path) -> None:
    route = WorkedRoute(tmp_path)
    keyed = reading(Broker(), key=KeyRule(("id",), None))
    with pytest.raises(NotInThisVersionError, match="key"):
        keyed.history(route.log, EIGHT, 9)
    aside = replace(route_plan("/w/t"))
    assert aside.key is None
    found = reading(Broker()).history(route.log, EIGHT, 99)
    assert found.ranges[("orders", 0)][0].end == 4


@pytest.mark.parametrize(
    ("plan", "what"),
    [
        ({"sql": Schema(())}, "rows that transform.sql makes"),
        ({"source": SourceAccess("table", ((UNITS, ""),))}, "units that transform.sql computes"),
    ],
)
def test_rows_that_sql_has_made_are_refused_whatever_is_read(
    plan: dict[str, Any], what: str
) -> None:
    again = reading(Broker(), **plan)
    for read in (
        lambda: again.read_files(["/f"], EIGHT, ""),
        lambda: again.read_table("ods.other", EIGHT, ""),
    ):
        with pytest.raises((NotInThisVersionError, RequestRefusedError), match=what):
            read()


def test_table_is_read_from_the_metastore_of_the_own_table() -> None:
    with pytest.raises(NotInThisVersionError, match="for Hive tables only"):
        reading(Broker()).read_table("ods.other", EIGHT, "")


def test_inputs_are_those_of_the_committed_ends_unless_dirty_rows_are_open(tmp_path: Path) -> None:
    route = WorkedRoute(tmp_path)
    read = ReadSoFar.of(route.writer.fold)
    with pytest.raises(RequestRefusedError, match="reads no table"):
        reading(Broker()).inputs(route.log, read, EIGHT)
    again = reading(Broker("table"))
    assert again.inputs(route.log, read, EIGHT) == SwapInput("u" * 32, EIGHT, 0, 104)
    with pytest.raises(RequestRefusedError, match="3 dirty rows are open"):
        again.inputs(route.log, replace(read, dirty_rows=3), EIGHT)


def test_unit_that_a_driver_without_spark_cannot_compute_is_not_sent_to_itself(
    tmp_path: Path,
) -> None:
    route = WorkedRoute(tmp_path)
    again = reading(Broker("table"), source=SourceAccess("table", ((UNITS, ""),)))
    with pytest.raises(RequestRefusedError, match="no Spark to compute the unit") as told:
        again.inputs(route.log, ReadSoFar.of(route.writer.fold), EIGHT)
    assert "--from inputs" not in told.value.hint


def test_route_with_sql_replaces_no_prefix_by_rows_that_only_landed() -> None:
    again = reading(Broker(), sql=Schema((Field("id", IntegerType(64)),)))
    with pytest.raises(NotInThisVersionError, match="route with SQL"):
        again.read(PrefixHistory({("orders", 0): [QueueRange("t1", "c1", 5, 9)]}), EIGHT, "")


def test_late_rows_aside_are_brought_in_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    route = WorkedRoute(tmp_path)
    aside = PrefixHistory(aside={7: 3})
    monkeypatch.setattr("sluiceway.upkeep.rereading.history_of", lambda *_: aside)
    with pytest.raises(RequestRefusedError, match="3 late rows of slot 7") as told:
        reading(Broker()).history(route.log, EIGHT, 9)
    assert "late replay" in told.value.hint


def test_rows_from_before_the_start_that_only_a_part_has_are_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    route = WorkedRoute(tmp_path)
    part = PrefixHistory(earlier_slot=7)
    monkeypatch.setattr("sluiceway.upkeep.rereading.history_of", lambda *_: part)
    again = reading(Broker())
    for read in (again.history, again.earlier):
        with pytest.raises(RequestRefusedError, match=r"a part of it has rows .* by slot 7"):
            read(route.log, EIGHT, 9)


def test_correction_is_due_until_a_swap_as_of_it_is_in_the_ledger(tmp_path: Path) -> None:
    route, broker = WorkedRoute(tmp_path), Broker()
    again = reading(broker)

    def due() -> list[Correction]:
        return again.due(ReadSoFar.of(route.writer.fold), route.log)

    assert due() == []
    assert broker.asked[-1] == ({LOG: 0}, {LOG: 4})
    broker.corrected = (Correction("u" * 32, EIGHT, 17, 19),)
    assert due() == list(broker.corrected)

    def brought(slot: int) -> None:
        def write(staging: SwapStaging) -> SwapContent:
            read = SwapInput("u" * 32, EIGHT, 0, slot)
            return SwapContent([], SwapCounts(BigInt(0), BigInt(0)), inputs=(read,))

        queue = route.new_queue()
        route.drive(lambda: swap(queue, SwapOrder(EIGHT, "correct"), write))

    brought(16)
    assert due() == list(broker.corrected)
    brought(17)
    assert due() == []


def test_rebuild_ends_where_its_prefix_is_read_in_part_by_now() -> None:
    broker = Broker()
    again, due = reading(broker), Correction("u" * 32, EIGHT, 17, 19)
    broker.corrected = (replace(due, as_of=23),)
    assert again.as_of_ends(due, {("orders", 0): 9}) == replace(due, as_of=23)
    broker.corrected = (Correction("u" * 32, "dt=20261120/hr=07", 17, 23),)
    with pytest.raises(TaskFailedError, match="more rows of it are being read"):
        again.as_of_ends(due, {("orders", 0): 9})
