"""An Iceberg table of others as a source: offsets of its rows, and snapshots that go."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table
from pyiceberg.types import StringType

from sluiceway.audit.planned_route import COMMITTED, _starts
from sluiceway.audit.row_preview import newest_splits
from sluiceway.chains.lake_client import LakeClient
from sluiceway.chains.lake_log import LakeLog
from sluiceway.chains.lake_upstream import LAKE_SOURCE, METADATA, LakeUpstream
from sluiceway.chains.reader import TableBatch
from sluiceway.errors import (
    FileLostError,
    NotInThisVersionError,
    OffsetsLostError,
    SourceUnavailableError,
    TableMismatchError,
    TopicNotFoundError,
)
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import SourceState, Subscription
from sluiceway.ledger.records import encode_record
from sluiceway.route.route_meter import lag_records
from sluiceway.schedule.planner import plan_hand_over, plan_sources
from sluiceway.schedule.source_view import (
    SourceView,
    passed_over,
    read_source_view,
    view_of_route,
)
from sluiceway.schedule.start_offsets import ResolvedStart
from sluiceway.sources.contract import (
    LAKE_CLUSTER,
    DiscoveredPartition,
    LogBounds,
    Removal,
    SourceIdentity,
    SourcePartition,
    Split,
    SplitReader,
)
from sluiceway.sources.registry import SourceAccess, open_client, open_reader, reader_access
from tools.lake_chain import (
    NAME,
    LakeChain,
    expire_all_but_newest,
    lake_chain,
    merge_files,
    roll_back,
)
from tools.ledger_records import fence, fold_of, record

LOG = SourcePartition(f"table:{NAME}", 0)


@pytest.fixture
def chain(tmp_path: Path) -> LakeChain:
    return lake_chain(tmp_path)


def access(
    chain: LakeChain, *columns: str, start_ms: int = -1, on_correction: str = "halt"
) -> SourceAccess:
    warehouse = f"file://{chain.job.folder}/warehouse"
    settings = {"kind": "sql", "uri": chain.job.uri, "catalog": "lake", "warehouse": warehouse}
    made = LakeUpstream(
        NAME,
        tuple(sorted(settings.items())),
        columns,
        start_ms=start_ms,
        on_correction=on_correction,
    )
    return SourceAccess(LAKE_SOURCE, made.texts())


@pytest.fixture
def client(chain: LakeChain) -> Iterator[LakeClient]:
    made = open_client(access(chain), 5.0)
    assert isinstance(made, LakeClient)
    yield made
    made.close()


def opened(chain: LakeChain, client: LakeClient, split: Split, *columns: str) -> SplitReader:
    client.bounds([LOG])
    return open_reader(reader_access(access(chain, *columns), client), [split], owner="test")


def read(reader: SplitReader) -> list[int]:
    """Ids of all rows, which are numbered as they were appended."""
    found: list[int] = []
    while batches := reader.read(0.0):
        for batch in batches:
            assert isinstance(batch, TableBatch)
            ids = batch.values.columns["id"].to_pylist()
            start = int(batch.offsets[0])
            assert list(batch.offsets) == list(range(start, start + len(ids)))
            found += ids
    return found


def base(client: LakeClient) -> int:
    """What a route is pinned at that begins now."""
    (found,) = client.discover([LOG.topic])
    client.bounds([LOG])
    return found.newest_slot


def test_log_is_the_table_and_ends_at_its_newest_row(chain: LakeChain, client: LakeClient) -> None:
    identity = SourceIdentity(LAKE_CLUSTER, str(chain.table().metadata.table_uuid))
    assert client.discover([LOG.topic]) == (DiscoveredPartition(LOG, identity, None, 0),)
    assert client.bounds([LOG]) == {LOG: LogBounds(0, 0, 0)}
    chain.append(range(5), range(5, 8))
    assert client.bounds([LOG]) == {LOG: LogBounds(0, 8, 8)}
    assert client.discover([LOG.topic]) == (DiscoveredPartition(LOG, identity, None, 2),)
    assert client.offsets_at([LOG], 0) == {LOG: 8}
    with pytest.raises(TopicNotFoundError, match="no such table is read"):
        client.discover(["table:others.else"])


def test_rows_have_the_offsets_of_their_snapshots(chain: LakeChain, client: LakeClient) -> None:
    begin = base(client)
    chain.append(range(5), range(5, 8), range(8, 20))
    reader = opened(chain, client, Split(LOG, 0, newest_slot=begin))
    assert read(reader) == list(range(20))
    (end,) = reader.ends()
    assert (end.end_offset, end.rows, end.gaps, end.leader_epoch) == (20, 20, 0, 3)
    reader = opened(chain, client, Split(LOG, 4, 9, leader_epoch=1, newest_slot=begin))
    assert read(reader) == [4, 5, 6, 7, 8]
    assert reader.finished()
    (end,) = reader.ends()
    assert (end.end_offset, end.rows, end.leader_epoch) == (9, 5, 3)


def test_reader_that_finds_nothing_new_keeps_what_it_knows(
    chain: LakeChain, client: LakeClient
) -> None:
    chain.append(range(5))
    reader = opened(chain, client, Split(LOG, 5, leader_epoch=1, newest_slot=0))
    assert read(reader) == []
    assert not reader.finished()
    (end,) = reader.ends()
    assert (end.end_offset, end.rows, end.leader_epoch) == (5, 0, 1)


def test_route_begins_with_the_rows_of_now_whatever_was_removed_before(
    chain: LakeChain, client: LakeClient
) -> None:
    chain.append(range(5), range(5, 10))
    chain.table().delete(EqualTo("id", 3))
    begin = base(client)
    assert client.bounds([LOG])[LOG].removed_slot == begin
    chain.append(range(10, 12))
    wanted = [0, 1, 2, 4, *range(5, 12)]
    found = read(opened(chain, client, Split(LOG, 0, newest_slot=begin)))
    assert sorted(found) == wanted
    for start in range(12):
        split = Split(LOG, start, newest_slot=begin)
        assert read(opened(chain, client, split)) == found[start:], "the order of rows has changed"


def test_table_that_removes_rows_after_the_reading_began_is_not_read_on(
    chain: LakeChain, client: LakeClient
) -> None:
    begin = base(client)
    chain.append(range(5))
    chain.table().delete(EqualTo("id", 3))
    chain.append(range(5, 6))
    assert client.bounds([LOG])[LOG] == LogBounds(0, 5, 5, removed_slot=2)
    with pytest.raises(OffsetsLostError, match="number 2 has removed or replaced rows"):
        read(opened(chain, client, Split(LOG, 4, leader_epoch=1, newest_slot=begin)))


def test_snapshot_that_removes_rows_ends_a_log_and_begins_another_where_it_is_passed_over(
    chain: LakeChain,
) -> None:
    made = open_client(access(chain, on_correction="ignore"), 5.0)
    assert isinstance(made, LakeClient)
    begin = base(made)
    chain.append(range(5), range(5, 8))
    chain.table().delete(EqualTo("id", 3))
    chain.append(range(8, 10))
    gone = Removal(3, 8, 7, 5, 4, rows=2)
    assert made.bounds([LOG]) == {LOG: LogBounds(0, 9, 9, removals=(gone,))}
    read_so = partial(read_ignoring, chain, made)
    assert read_so(Split(LOG, 0, newest_slot=begin)) == list(range(8))
    assert read_so(Split(LOG, 8, leader_epoch=2, newest_slot=begin)) == []
    then = SourcePartition(LOG.topic, 3)
    assert read_so(Split(then, 7, newest_slot=3)) == [8, 9]
    assert made.offsets_at([then], 0) == {then: 9}
    chain.table().delete(EqualTo("id", 9))
    chain.append(range(10, 11))
    assert read_so(Split(then, 7, newest_slot=3)) == [8, 9]
    assert read_so(Split(then, 8, 9, leader_epoch=4, newest_slot=3)) == [9]
    log = LakeLog(chain.table().metadata, NAME, passes_over=True)
    assert [(each.slot, each.rows) for each in log.removals] == [(3, 2), (5, 1)]
    assert (log.number_through(8, 0), log.number_through(9, 3), log.end_of(5)) == (2, 4, 9)
    expire_all_but_newest(chain.table())
    with pytest.raises(OffsetsLostError, match=r"row 7 cannot be read: .* begin at row 8"):
        read_so(Split(then, 7, newest_slot=3))
    made.close()


def test_view_of_a_route_has_the_log_that_it_reads_and_what_waits_after_it(
    chain: LakeChain,
) -> None:
    made = open_client(access(chain, on_correction="ignore"), 5.0)
    wanted = Subscription((LOG.topic,), "", "earliest")

    def seen(fold: Fold) -> SourceView:
        found = view_of_route(read_source_view(made, [LOG.topic]), fold)
        assert view_of_route(found, fold) == found
        return found

    view = seen(fold_of(fence()))
    begun = plan_sources(
        Fold(), wanted, view.of([LOG.topic]), view.bounds, {LOG: ResolvedStart(0, "earliest")}
    )
    assert begun is not None
    chain.append(range(5))
    chain.table().delete(EqualTo("id", 3))
    chain.append(range(5, 8))
    fold = fold_of(fence(), begun)
    view = seen(fold)
    (gone,) = view.bounds[LOG].removals
    assert view.bounds == {LOG: LogBounds(0, 5, 5, removals=(gone,))}
    assert lag_records(fold, view.bounds) == 5 + 3
    assert passed_over(fold, view) is None, "rows from before it are not read"
    fold.sources[LOG.topic, 0].end = 5
    assert lag_records(fold, view.bounds) == 3
    found = passed_over(fold, view)
    assert found is not None
    assert found.reason == "snapshot 2 removed 5 rows and added 4"
    handed_over = record(fold, plan_hand_over(fold, wanted, found))
    fold.apply(handed_over, encode_record(handed_over))
    then = SourcePartition(LOG.topic, 2)
    view = seen(fold)
    assert view.bounds == {then: LogBounds(0, 7, 7)}
    assert (fold.sources[LOG.topic, 2].end, lag_records(fold, view.bounds)) == (4, 3)
    assert passed_over(fold, view) is None
    made.close()


def test_sample_before_a_removal_is_of_the_rows_that_a_run_would_read(chain: LakeChain) -> None:
    made = open_client(access(chain, on_correction="ignore"), 5.0)
    assert isinstance(made, LakeClient)
    chain.append(range(5))
    begin, fold = base(made), Fold()
    (found,) = made.discover([LOG.topic])
    known = SourceState(LAKE_CLUSTER, found.identity.topic_id, 0, "earliest", 5, newest_slot=begin)
    fold.sources[LOG.topic, 0] = known
    chain.append(range(5, 8))
    chain.table().delete(EqualTo("id", 3))
    view = view_of_route(read_source_view(made, [LOG.topic]), fold)
    (start,) = _starts(view, {LOG: (5, COMMITTED)})
    assert (start.offset, start.log_end, start.waiting) == (5, 8, 3)
    splits = newest_splits([start], 100)
    assert splits == [Split(LOG, 5, 8, newest_slot=begin)]
    reader = open_reader(access(chain, on_correction="ignore"), splits, owner="test")
    assert read(reader) == [5, 6, 7]
    assert reader.finished()
    made.close()


def read_ignoring(chain: LakeChain, client: LakeClient, split: Split) -> list[int]:
    client.bounds([LOG])
    given = reader_access(access(chain, on_correction="ignore"), client)
    return read(open_reader(given, [split], owner="test"))


def test_files_that_were_merged_bring_no_row_again(chain: LakeChain, client: LakeClient) -> None:
    begin = base(client)
    chain.append(range(5), range(5, 8))
    merge_files(chain.table())
    chain.append(range(8, 10))
    assert client.bounds([LOG]) == {LOG: LogBounds(0, 10, 10)}
    assert read(opened(chain, client, Split(LOG, 0, newest_slot=begin))) == list(range(10))
    # A route that begins now has the rows of the merged file, in its order.
    found = read(opened(chain, client, Split(LOG, 0, newest_slot=base(client))))
    assert found == [*reversed(range(8)), 8, 9]
    expire_all_but_newest(chain.table())
    split = Split(LOG, 8, leader_epoch=2, newest_slot=begin)
    assert read(opened(chain, client, split)) == [8, 9]


def test_snapshots_that_were_read_may_expire(chain: LakeChain, client: LakeClient) -> None:
    begin = base(client)
    chain.append(range(5), range(5, 8), range(8, 10))
    expire_all_but_newest(chain.table())
    for start, epoch in ((8, 2), (9, 3), (10, 3)):
        split = Split(LOG, start, leader_epoch=epoch, newest_slot=begin)
        assert read(opened(chain, client, split)) == list(range(start, 10))


def test_route_that_starts_at_a_time_reads_what_was_committed_since(chain: LakeChain) -> None:
    chain.append(range(5), range(5, 8), range(8, 10))
    times = [each.timestamp_ms for each in chain.table().metadata.snapshots]
    for start_ms, base_of, offset in (
        (times[0], 0, 0),
        (times[1], 1, 5),
        (times[2] + 1, 3, 10),
    ):
        made = open_client(access(chain, start_ms=start_ms), 5.0)
        assert isinstance(made, LakeClient)
        assert (base(made), made.offsets_at([LOG], start_ms)) == (base_of, {LOG: offset})
        split = Split(LOG, offset, newest_slot=base_of)
        assert read(opened(chain, made, split)) == list(range(offset, 10))
        assert made.offsets_at([LOG], start_ms + 7) == {LOG: 10}
        made.close()
    expire_all_but_newest(chain.table())
    late = open_client(access(chain, start_ms=times[1]), 5.0)
    assert isinstance(late, LakeClient)
    assert base(late) == 3
    with pytest.raises(OffsetsLostError, match="do not reach back to the time of the start"):
        late.offsets_at([LOG], times[1])
    late.close()


def test_snapshot_up_to_which_all_rows_are_read_is_known(chain: LakeChain) -> None:
    chain.append(range(5), range(5, 8))
    merge_files(chain.table())
    log = LakeLog(chain.table().metadata, NAME)
    assert [log.number_through(offset, 1) for offset in (0, 5, 7, 8)] == [-1, 1, 1, 3]


@pytest.mark.parametrize("start", [0, 4, 7])
def test_snapshot_that_expired_before_it_was_read_is_named(
    chain: LakeChain, client: LakeClient, start: int
) -> None:
    chain.append(range(5))
    begin = base(client)
    chain.append(range(5, 8), range(8, 10))
    split = Split(LOG, start, newest_slot=begin)
    client.refuse_lost(split)
    expire_all_but_newest(chain.table())
    for look in (client.refuse_lost, lambda each: read(opened(chain, client, each))):
        with pytest.raises(OffsetsLostError, match=rf"{start} cannot be read: .* begin at row 8"):
            look(split)


def test_rows_that_came_after_a_roll_back_are_no_continuation(
    chain: LakeChain, client: LakeClient
) -> None:
    chain.append(range(5))
    before = chain.table().metadata.current_snapshot_id
    assert before is not None
    begin = base(client)
    chain.append(range(5, 8))
    roll_back(chain.table(), before)
    chain.append(range(100, 110))
    with pytest.raises(OffsetsLostError, match=r"rolled back: snapshot 2, whose rows"):
        read(opened(chain, client, Split(LOG, 8, leader_epoch=2, newest_slot=begin)))
    # Who has read the older one only goes on.
    split = Split(LOG, 5, leader_epoch=1, newest_slot=begin)
    assert read(opened(chain, client, split)) == list(range(100, 110))


def test_table_that_was_rolled_back_below_its_base_is_not_read(
    chain: LakeChain, client: LakeClient
) -> None:
    chain.append(range(5))
    before = chain.table().metadata.current_snapshot_id
    assert before is not None
    chain.append(range(5, 8))
    begin = base(client)
    roll_back(chain.table(), before)
    chain.append(range(100, 110))
    with pytest.raises(OffsetsLostError, match="rolled back"):
        read(opened(chain, client, Split(LOG, 0, newest_slot=begin)))


def test_table_that_was_made_again_under_its_uuid_is_not_read_on(chain: LakeChain) -> None:
    chain.append(range(5), range(5, 20))
    table = chain.table()
    # CREATE OR REPLACE TABLE: a snapshot without a parent, which counts its own rows alone.
    *older, newest = table.metadata.snapshots
    alone = newest.model_copy(update={"parent_snapshot_id": None}, deep=True)
    assert alone.summary is not None
    alone.summary.additional_properties["total-records"] = "15"
    log = LakeLog(table.metadata.model_copy(update={"snapshots": [*older, alone]}), "t")
    assert (log.removed, log.end) == (2, 15)
    with pytest.raises(OffsetsLostError, match="number 2 has removed or replaced rows"):
        log.after(Split(LOG, 5, leader_epoch=1, newest_slot=0))


def test_snapshot_whose_parent_is_forgotten_is_not_the_first(chain: LakeChain) -> None:
    chain.append(range(5), range(5, 20))
    table = chain.table()
    expire_all_but_newest(table)
    metadata = chain.table().metadata
    assert [each.parent_snapshot_id for each in metadata.snapshots] == [None]
    log = LakeLog(metadata, "t")
    assert log.removed == -1
    (step,) = log.after(Split(LOG, 5, leader_epoch=1, newest_slot=0))
    assert (step.begin, step.end) == (5, 20)
    with pytest.raises(OffsetsLostError, match="row 6 has come after snapshot 1"):
        log.after(Split(LOG, 6, leader_epoch=1, newest_slot=0))


def test_columns_are_found_by_their_ids(chain: LakeChain, client: LakeClient) -> None:
    chain.append(range(3))
    with chain.table().update_schema() as changes:
        changes.rename_column("City", "Town")
        changes.add_column("note", StringType())
    (batch,) = opened(chain, client, Split(LOG, 0, newest_slot=0)).read(0.0)
    assert isinstance(batch, TableBatch)
    assert batch.values.columns.schema.names == ["id", "town", "at", "note"]
    assert batch.values.columns["town"].to_pylist() == [None, "town1", "town2"]
    (batch,) = opened(chain, client, Split(LOG, 0, newest_slot=0), "town").read(0.0)
    assert isinstance(batch, TableBatch)
    assert batch.values.columns.schema.names == ["town"]


def test_column_that_the_table_lacks_is_named(chain: LakeChain) -> None:
    made = open_client(access(chain, "id", "citty"), 5.0)
    with pytest.raises(TableMismatchError, match="no column citty") as caught:
        made.discover([LOG.topic])
    assert "City" in caught.value.hint
    made.close()


def test_table_that_is_missing_is_waited_for_unless_it_was_read(
    chain: LakeChain, client: LakeClient
) -> None:
    chain.catalog.drop_table(NAME)
    with pytest.raises(SourceUnavailableError, match="does not exist yet"):
        client.discover([LOG.topic])
    client.expect({LOG: SourceIdentity(LAKE_CLUSTER, "u")})
    with pytest.raises(TopicNotFoundError, match="was dropped"):
        client.discover([LOG.topic])


def test_table_is_found_however_its_name_is_spelt(chain: LakeChain, client: LakeClient) -> None:
    chain.append(range(3))
    chain.catalog.rename_table(NAME, "others.Events")
    assert client.bounds([LOG]) == {LOG: LogBounds(0, 3, 3)}


def test_file_that_is_gone_is_read_again_from_the_newest_snapshot(
    chain: LakeChain, client: LakeClient
) -> None:
    chain.append(range(3))
    (task,) = chain.table().scan().plan_files()
    path = Path(task.file.file_path.removeprefix("file://"))
    whole = path.read_bytes()
    path.unlink()
    with pytest.raises(SourceUnavailableError, match="cannot be read"):
        read(opened(chain, client, Split(LOG, 0, newest_slot=0)))
    path.write_bytes(whole[:-8])
    with pytest.raises(FileLostError, match="cannot be read"):
        read(opened(chain, client, Split(LOG, 0, newest_slot=0)))


def test_file_with_other_rows_than_the_metadata_counts_is_named(
    chain: LakeChain, client: LakeClient
) -> None:
    chain.append(range(3))
    (one,) = chain.table().scan().plan_files()
    chain.append(range(3, 10))
    other = next(each for each in chain.table().scan().plan_files() if each.file.record_count != 3)
    place = Path(other.file.file_path.removeprefix("file://"))
    place.write_bytes(Path(one.file.file_path.removeprefix("file://")).read_bytes())
    with pytest.raises(FileLostError, match="it has 3 rows, and the table's metadata counts 7"):
        read(opened(chain, client, Split(LOG, 0, newest_slot=0)))


def _with(table: Table, number: int, **summary: str) -> LakeLog:
    """The log where the summary of a snapshot says something else."""
    changed = table.metadata.model_copy(deep=True)
    told = changed.snapshots[number].summary
    assert told is not None
    told.additional_properties.update(
        {key.replace("_", "-"): value for key, value in summary.items()}
    )
    return LakeLog(changed, "t")


def test_snapshots_are_judged_by_what_they_count(chain: LakeChain) -> None:
    chain.append(range(3), range(3, 5))
    table = chain.table()
    assert LakeLog(table.metadata, "t").removed == -1
    for removing in ("added_delete_files", "deleted_data_files", "deleted_records"):
        assert _with(table, 1, **{removing: "1"}).removed == 2, removing
    fewer = _with(table, 1, total_records="2")
    assert (fewer.removed, fewer.end) == (2, 2)


def test_summary_that_does_not_fit_its_files_or_is_missing_is_named(
    chain: LakeChain, client: LakeClient
) -> None:
    chain.append(range(3))
    told = chain.table().metadata.model_copy(deep=True)
    summary = told.snapshots[0].summary
    assert summary is not None
    summary.additional_properties["total-records"] = "4"
    options = dict(reader_access(access(chain), client).options)
    place = Path(options[METADATA].removeprefix("file://"))
    place.write_text(told.model_dump_json())
    given = SourceAccess(LAKE_SOURCE, tuple(options.items()))
    reader = open_reader(given, [Split(LOG, 0, newest_slot=1)], owner="test")
    with pytest.raises(TableMismatchError, match="have 3 rows, and its summary counts 4"):
        read(reader)
    del summary.additional_properties["total-records"]
    with pytest.raises(TableMismatchError, match="does not say how many rows"):
        LakeLog(told, "t")


def test_table_of_format_version_1_is_refused(chain: LakeChain) -> None:
    made = chain.catalog.create_table(
        "others.old", chain.table().schema(), properties={"format-version": "1"}
    )
    with pytest.raises(NotInThisVersionError, match="format version 1"):
        LakeLog(made.metadata, "t")


def test_sample_is_read_by_who_asks_the_catalog_itself(chain: LakeChain) -> None:
    chain.append(range(3), range(3, 9))
    expire_all_but_newest(chain.table())
    split = Split(LOG, 0, 9)
    assert sorted(read(open_reader(access(chain), [split], owner="test"))) == list(range(9))


def test_options_reach_the_workers_as_texts_and_show_no_secret(
    chain: LakeChain, client: LakeClient
) -> None:
    given = LakeUpstream("Others.Events", (("token", "s3cret"),), ("id",))
    assert LakeUpstream.of(dict(given.texts())) == given
    assert "s3cret" not in repr(given)
    assert given.topic == "table:others.events"
    told = LakeUpstream.of(dict(reader_access(access(chain), client).options))
    assert told.metadata == chain.table().metadata_location
    assert dict(told.file_access)["warehouse"]
