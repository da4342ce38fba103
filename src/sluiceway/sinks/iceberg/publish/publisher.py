"""Makes a lake table equal to its log: a batch of slots, one snapshot, one request, one look.

Any number of publishers may live, fenced ones too. All publish the same log, and a request lands
only on the very metadata that it was built from. Nothing that was sent is ever cleaned up here.
"""

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyiceberg.table import Table

from sluiceway.errors import (
    MetastoreUnavailableError,
    Retriable,
    TableHistoryError,
    TableMismatchError,
    UnknownOutcome,
)
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.follower import Follower, LogView
from sluiceway.ledger.lane_records import LaneDataRecord
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import SwapInput
from sluiceway.ledger.records import DataRecord
from sluiceway.observe.failpoints import reach
from sluiceway.observe.log import Log
from sluiceway.sinks.iceberg.commit_request import SlotBatch, append_request
from sluiceway.sinks.iceberg.compact.merge_files import (
    MergedOne,
    MergeGroup,
    MergePlan,
    MergeSource,
)
from sluiceway.sinks.iceberg.compact.old_metadata import remove_old_metadata
from sluiceway.sinks.iceberg.compact.small_files import merge_groups, merge_in_process, merged_name
from sluiceway.sinks.iceberg.data_files import (
    PlacedFile,
    data_file,
    missing_files,
    read_footer,
    top_level_ids,
)
from sluiceway.sinks.iceberg.partition_fields import find_spec, partition_record
from sluiceway.sinks.iceberg.publish.lake_batch import LakeBatch, next_batch
from sluiceway.sinks.iceberg.publish.lake_table import LakeTable, TableLook, hashes_of
from sluiceway.sinks.iceberg.publish.overwrite import overwrite_request, replaced_in
from sluiceway.sinks.iceberg.publish.staged_lake_files import StagedLakeFiles
from sluiceway.sinks.iceberg.table_history import record_hash
from sluiceway.sinks.lake_options import LakeOptions
from sluiceway.storage.access import NO_STORES, Stores
from sluiceway.storage.contract import Storage
from sluiceway.types.strict_json import to_plain


@dataclass(slots=True)
class _Commits:
    """What is known of the route's commits.

    Attributes:
        last_s: When the newest one was seen, in monotonic seconds.
        gap_s: From one to the next, lately, and no more than an interval; None before there
            were two.
    """

    last_s: float | None = None
    gap_s: float | None = None


class PublishPace:
    """Pace of one table. Any thread may call.

    A snapshot begins with the commit nearest to the end of its interval. Counted from the end of
    a publish, an interval of 2 s made rows readable after 3.5 s.

    Args:
        interval_s: Seconds from one snapshot to the next.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._commits = _Commits()
        self._due_s: float | None = None

    def add_commit(self, now_s: float) -> None:
        """An epoch was committed."""
        with self._lock:
            commits = self._commits
            if commits.last_s is not None:
                # A night without commits says nothing of their pace.
                gap_s = min(now_s - commits.last_s, self._interval_s)
                commits.gap_s = gap_s if commits.gap_s is None else (commits.gap_s + gap_s) / 2
            commits.last_s = now_s

    def add_publish(self, began_s: float) -> None:
        """A snapshot landed whose making had begun then."""
        with self._lock:
            due_s, half_s = self._due_s, self._half_s()
            on_time = due_s is not None and abs(began_s - due_s) <= half_s
            self._due_s = (due_s if due_s is not None and on_time else began_s) + self._interval_s

    def wait_s(self, now_s: float) -> float:
        """Seconds until the next snapshot should be begun, as far as is known now; 0.0: now."""
        with self._lock:
            if self._due_s is None:
                return 0.0
            half_s, last_s = self._half_s(), self._commits.last_s
            if last_s is None or self._commits.gap_s is None:
                return max(0.0, self._due_s - now_s)
            if last_s >= self._due_s - half_s:
                return 0.0
            next_is_nearest = last_s + self._commits.gap_s >= self._due_s - half_s
            return max(0.0, self._due_s + (half_s if next_is_nearest else 0.0) - now_s)

    def _half_s(self) -> float:
        """Half of a pause between commits, at most of an interval."""
        return (self._commits.gap_s or 0.0) / 2


LOOK_INTERVAL_S = 60.0
_TRIES = 3
_MOST_NOTED = 4_096
_SUMMARY_ENDS = "sluiceway.offsets"
_SUMMARY_WATERMARK = "sluiceway.watermark"
_SUMMARY_INPUTS = "sluiceway.inputs"
_MOST_ENDS = 200


@dataclass(frozen=True, slots=True)
class LakePlace:
    """Where a table's data files lie.

    Attributes:
        storage: Storage of the table and its ledger.
        root: The table's location as the storage names it.
        uri: The location as the catalog spells it.
        stores: How the store is reached by another process.
        compression: Compression of files that are merged.
    """

    storage: Storage
    root: str
    uri: str
    stores: Stores = NO_STORES
    compression: str = "zstd"


@dataclass(frozen=True, slots=True)
class LakeRoute:
    """Whose rows are published.

    Attributes:
        name: Name of the route.
        ledger: Uuid.
        effects_through: Slot below which the table had all rows, as the ledger says at START.
        note_effects: Called with the slot below which the table has all rows.
    """

    name: str
    ledger: str
    effects_through: int
    note_effects: Callable[[int], None]


class LakePublisher(Follower):
    """Publishes one route's slots into its lake table.

    Args:
        table: The table, by a catalog object of its own.
        place: Where its files go.
        route: Whose rows.
        options: How.
        log: Log for people.

    Attributes:
        most_rows: Most rows of a batch, except its last slot; None bounds nothing.
    """

    name = "table"
    after = ("files",)
    owns_table = True
    most_rows: int | None = None

    def __init__(
        self,
        table: LakeTable,
        place: LakePlace,
        route: LakeRoute,
        *,
        options: LakeOptions,
        log: Log,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._table = table
        self._files = place
        self._route = route
        self._options = options
        self._events = log
        self._clock = clock
        self.connection = f"catalog {table.catalog.place}"
        self._place = 0
        # Slots below it need no snapshot of their own: they bring no rows.
        self._clear = 0
        self._looked_s: float | None = None
        self._pace = PublishPace(options.publish_interval_s)
        # Epochs as (next slot, seconds) that the pace has not got yet: no snapshot may bring them
        # yet.
        self._last_epoch: int | None = None
        self._commits: deque[tuple[int, float]] = deque(maxlen=_MOST_NOTED)
        self._told_unproven = False
        # When slots were seen that the table may not have, as (next slot, seconds): a new driver
        # counts from its own start. Used by the route's thread alone.
        self._noted: deque[tuple[int, float]] = deque()
        self._waits = ""
        # Merged files of a batch that is not seen in the table yet, by the names of their sources.
        self._made: dict[tuple[str, ...], PlacedFile] = {}
        self._names = StagedLakeFiles(place.storage, for_replay=bool(options.key))

    def place(self) -> int:
        """See `Follower.place`: kept by the table itself, known after the first look."""
        return max(self._place, self._clear)

    def rest_s(self) -> float | None:
        """See `Follower.rest_s`: then the table is read, and waiting rows are published."""
        if self._looked_s is None:
            return 0.0
        now_s = self._clock()
        rest_s = max(0.0, self._looked_s + LOOK_INTERVAL_S - now_s)
        return min(rest_s, self._pace.wait_s(now_s)) if self._waits else rest_s

    def update(self, fold: Fold, since: int, *, again: bool = False) -> None:
        """See `Follower.update`: the pace of commits, and since when the table lags."""
        del since, again
        if fold.last_epoch != self._last_epoch:
            self._last_epoch = fold.last_epoch
            self._commits.append((fold.next_seq, self._clock()))
        if self._noted and self._noted[-1][0] >= fold.next_seq:
            return
        if len(self._noted) < _MOST_NOTED:
            self._noted.append((fold.next_seq, self._clock()))
        else:
            self._noted[-1] = fold.next_seq, self._noted[-1][1]

    def holds_up(self) -> str:
        """See `Follower.holds_up`."""
        place = self.place()
        while self._noted and self._noted[0][0] <= place:
            self._noted.popleft()
        lag_s = self._clock() - self._noted[0][1] if self._noted else 0.0
        if lag_s < self._options.max_lag_s:
            return ""
        return f"the table is {lag_s:.0f} s behind, max_lag is {self._options.max_lag_s:.0f} s"

    def waits(self) -> str:
        """See `Follower.waits`."""
        return self._waits

    def follow(self, view: LogView) -> int:
        """See `Follower.follow`."""
        now_s = self._clock()
        while self._commits and self._commits[0][0] <= view.through:
            self._pace.add_commit(self._commits.popleft()[1])
        if self._looked_s is None:
            self._expect_rows(view)
        if self._looked_s is None or now_s - self._looked_s >= LOOK_INTERVAL_S:
            self._go_on_at(self._read_table(view.log), view)
        batch = next_batch(
            view, self._place, view.over, clear=self._clear, most_rows=self.most_rows
        )
        if not batch.is_due:
            # After so many slots that bring nothing there may be others that do.
            self._clear, self._waits = batch.last + 1 if batch.more else view.through, ""
            self._report_effects(view)
        elif self._is_time(now_s, batch, view):
            self._publish(batch, view)
        else:
            self._waits = f"the next snapshot, every {self._options.publish_interval_s:g} s"
        self._names.release(view, self._place, self._clock())
        self._names.remove(view, self._clock())
        return self.place()

    def _is_time(self, now_s: float, batch: LakeBatch, view: LogView) -> bool:
        pressing = view.hasty or batch.more or bool(batch.ready)
        return pressing or not self._pace.wait_s(now_s)

    # One batch

    def _publish(self, batch: LakeBatch, view: LogView) -> None:
        """Bring a batch into the table; what came before it is there.

        Raises:
            MetastoreUnavailableError: Not there after some tries; nothing is known but what the
                next look finds.
        """
        said, began_s = "", self._clock()
        for _ in range(_TRIES):
            look = self._read_table(view.log)
            self._go_on_at(look, view)
            if look.next_slot > batch.last:
                return
            if look.next_slot != batch.first:
                # Another publisher was faster with a part of it, or an older metadata file is back.
                batch = next_batch(view, look.next_slot, view.over, most_rows=self.most_rows)
                if not batch.is_due:
                    return
            try:
                said = self._try(look.table, batch, view)
            except FileNotFoundError as error:
                # Its snapshot was expired since it was read, files and all.
                said = f"a file of the table's metadata is gone: {error}"
            after = self._read_table(view.log)
            if after.next_slot > batch.last:
                self._pace.add_publish(began_s)
                self._go_on_after(batch, look, after, view)
                self._log_published(batch, after, self._clock() - began_s)
                return
            self._events.info("lake_publish_again", slot=batch.last, said=said)
        raise MetastoreUnavailableError(
            f"slots {batch.first} to {batch.last} are not in the table: {said or 'no reason'}",
            where=self._table.where,
            hint="waits and tries again; rows stay committed",
        )

    def _try(self, table: Table, batch: LakeBatch, view: LogView) -> str:
        """Place the files, build one request, send it once."""
        metadata = table.metadata
        schema = metadata.schema()
        spec = find_spec(
            list(metadata.specs().values()), metadata.default_spec_id, self._options.fields, schema
        )
        merged, left = ([], batch.files) if batch.swap else self._merged(batch, view)
        placed = [*merged, *(self._placed(seq, file, view) for seq, file in left)]
        reach("lake.placed", self._table.where)
        added = []
        needed = {field.field_id: field.name for field in schema.fields if field.required}
        for file in placed:
            footer = read_footer(self._files.storage, file.path)
            check_required(needed, footer, file, where=self._table.where)
            record = partition_record(file.texts, self._options.fields, spec, schema)
            added.append(data_file(file, footer, metadata, spec, record))
        raw = view.log.read_bytes(batch.last)
        slots = SlotBatch(
            ledger=self._route.ledger,
            first=batch.first,
            last=batch.last,
            record_hash=record_hash(raw or b""),
            properties=self._ready_properties(batch, metadata.properties),
            tags=self._ready_tags(batch),
            notes=batch_notes(batch),
        )
        if batch.swap is None:
            request = append_request(table, slots, added)
        else:
            fields = self._options.fields
            request = overwrite_request(table, slots, added, replaced_in(batch.swap, table, fields))
        return self._table.send(table, request)

    def _placed(self, seq: int, file: FileRecord, view: LogView) -> PlacedFile:
        """Put a committed file under its name in the table; no reader sees it before the commit."""
        name = f"data/{file.final}"
        path = f"{self._files.root}/{name}"
        self._files.storage.share(
            view.layout.final(file.final), path, size_bytes=int(file.size_bytes), crc32c=file.crc32c
        )
        return PlacedFile(
            uri=f"{self._files.uri}/{name}",
            path=path,
            rows=int(file.rows),
            size_bytes=int(file.size_bytes),
            texts=file.values,
            seqs=(seq,),
        )

    def _merged(
        self, batch: LakeBatch, view: LogView
    ) -> tuple[list[PlacedFile], list[tuple[int, FileRecord]]]:
        """Merge small files of a partition; the merged ones, and the files that stay as they are.

        What cannot be merged is linked: no row waits for a nicer layout.
        """
        groups = merge_groups(batch.files, self._options.target_bytes)
        # Orphan removal may have taken what was made for a request that never landed.
        self._made = {
            key: file
            for key, file in self._made.items()
            if not missing_files(self._files.storage, [file])
        }
        fresh = [group for group in groups if _key(group) not in self._made]
        if fresh:
            try:
                answers = merge_in_process(self._merge_plan(fresh, view))
            except (Retriable, UnknownOutcome) as error:
                self._events.warning("lake_merge_failed", table=self._table.where, error=str(error))
                answers = ()
            for group, one in zip(fresh, answers, strict=False):
                if one is not None:
                    self._made[_key(group)] = self._merged_file(group, one)
        made = {key: self._made[key] for group in groups if (key := _key(group)) in self._made}
        gone = {name for key in made for name in key}
        left = [(seq, file) for seq, file in batch.files if file.final not in gone]
        return list(made.values()), left

    def _merge_plan(self, groups: list[list[tuple[int, FileRecord]]], view: LogView) -> MergePlan:
        return MergePlan(
            self._files.uri,
            self._files.stores,
            self._files.compression,
            tuple(
                MergeGroup(
                    f"{self._files.root}/data/{merged_name(group)}",
                    tuple(
                        MergeSource(view.layout.final(file.final), int(file.rows), file.crc32c)
                        for _, file in group
                    ),
                )
                for group in groups
            ),
        )

    def _merged_file(self, group: list[tuple[int, FileRecord]], one: MergedOne) -> PlacedFile:
        return PlacedFile(
            uri=f"{self._files.uri}{one.target.removeprefix(self._files.root)}",
            path=one.target,
            rows=one.rows,
            size_bytes=one.size_bytes,
            texts=group[0][1].values,
            seqs=tuple(seq for seq, _ in group),
        )

    def _ready_properties(self, batch: LakeBatch, held: Mapping[str, str]) -> dict[str, str]:
        """What the table says then of complete hours; an older one, announced again, changes none.

        Args:
            batch: Batch that is published.
            held: The table's properties as they are.
        """
        found: dict[str, str] = {}
        if not self._options.ready_property:
            return found
        prefix = f"sluiceway.{self._route.name}"
        if batch.ready:
            newest = max(batch.ready)[0]
            found[f"{prefix}.ready"] = max(newest, held.get(f"{prefix}.ready", newest))
        if batch.watermark_us is not None:
            found[f"{prefix}.watermark"] = str(batch.watermark_us)
        return found

    def _ready_tags(self, batch: LakeBatch) -> dict[str, int]:
        """Names of tags for what is complete with this snapshot, each with its age in ms."""
        keep_ms = self._options.ready_tag_ms
        if keep_ms is None:
            return {}
        return {f"ready-{prefix}": keep_ms for prefix, _ in batch.ready}

    # Looks

    def _expect_rows(self, view: LogView) -> None:
        """What a driver before has seen in the table has to be there still."""
        known = LogView(view.log, min(self._route.effects_through, view.through))
        for record in known.records(0):
            if isinstance(record.body, DataRecord | LaneDataRecord) and record.body.files:
                self._table.expect(record.seq)
                return

    def _read_table(self, ledger: LedgerLog) -> TableLook:
        look = self._table.read(hashes_of(ledger))
        self._looked_s = self._clock()
        if not look.proven:
            if self._options.halt_unproven:
                raise TableHistoryError(
                    "snapshots between ours and the table's newest were expired, so it is unknown "
                    "whether the table was rolled back meanwhile",
                    where=self._table.where,
                    hint="compare with `sluiceway verify JOB`; on_unproven: warn goes on",
                )
            if not self._told_unproven:
                self._told_unproven = True
                self._events.warning(
                    "lineage_unproven",
                    table=self._table.where,
                    hint="`sluiceway verify JOB` compares the rows",
                )
        return look

    def _go_on_at(self, look: TableLook, view: LogView) -> None:
        """Go on where the table stands, which may be earlier than before."""
        if look.next_slot < self._place:
            self._events.warning(
                "lake_table_rolled_back", slot=look.next_slot - 1, was=self._place - 1
            )
            self._names.fell_back(look.next_slot)
        if look.next_slot != self._place:
            self._clear = 0
        self._place = look.next_slot
        self._report_effects(view)

    def _report_effects(self, view: LogView) -> None:
        # Another publisher may know a longer log than this view shows: none of this one's records
        # speaks of later slots.
        if self._place <= view.through:
            self._route.note_effects(self.place())

    def _go_on_after(
        self, batch: LakeBatch, before: TableLook, after: TableLook, view: LogView
    ) -> None:
        self._go_on_at(after, view)
        self._waits, self._made = "", {}
        remove_old_metadata(before.table, after.table, self._events)

    def _log_published(self, batch: LakeBatch, after: TableLook, took_s: float) -> None:
        self._events.info(
            "lake_published",
            table=self._table.where,
            slots=f"{batch.first}..{batch.last}",
            rows=batch.rows,
            files=len(batch.files),
            snapshot=str(0 if after.through is None else after.through.snapshot_id),
            took_ms=round(took_s * 1000),
        )


def _key(group: list[tuple[int, FileRecord]]) -> tuple[str, ...]:
    return tuple(file.final for _, file in group)


def check_required(needed: dict[int, str], footer: object, file: PlacedFile, *, where: str) -> None:
    """A column that became required after a file was written: the file can never have it."""
    held = top_level_ids(footer)
    lacking = [name for field_id, name in needed.items() if field_id not in held]
    if lacking:
        raise TableMismatchError(
            f"column {lacking[0]} is required in the table, and committed files do not have it",
            where=f"{where}, {file.uri}",
            hint="make it optional (`ALTER TABLE ... ALTER COLUMN ... DROP NOT NULL`), and declare "
            "it in the job file",
        )


def batch_notes(batch: LakeBatch) -> dict[str, str]:
    """What a snapshot's summary says of the source, for people and tools; nothing reads it back."""
    found = {}
    if batch.ends and len(batch.ends) <= _MOST_ENDS:
        by_topic: dict[str, dict[str, int]] = {}
        for (topic, partition), end in sorted(batch.ends.items()):
            by_topic.setdefault(topic, {})[str(partition)] = end
        found[_SUMMARY_ENDS] = json.dumps(by_topic, separators=(",", ":"))
    if batch.watermark_us is not None:
        found[_SUMMARY_WATERMARK] = str(batch.watermark_us)
    if batch.swap is not None and batch.swap.inputs:
        inputs = [to_plain(each, SwapInput) for each in batch.swap.inputs]
        found[_SUMMARY_INPUTS] = json.dumps(inputs, separators=(",", ":"))
    return found
