"""Reads again what made a prefix: what that is, whether it is still there, and the reading."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sluiceway.chains.lake_upstream import LAKE_SOURCE
from sluiceway.chains.options import ROOT, UpstreamOptions
from sluiceway.chains.units import UNITS
from sluiceway.chains.upstream import UpstreamLedger
from sluiceway.errors import (
    NotInThisVersionError,
    OffsetsLostError,
    RequestRefusedError,
    TaskFailedError,
)
from sluiceway.formats.registry import FormatChoice
from sluiceway.jobfile.compile.compile import META_TYPES
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold_state import FoldState
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import SwapInput, SwapRecord
from sluiceway.ledger.row_places import COUNTED_ONLY, RowBook
from sluiceway.sinks.partition_path import parse_partition_folder
from sluiceway.sinks.registry import readable_table
from sluiceway.sinks.table_options import ReadableTable, TableOptions
from sluiceway.sources.contract import (
    AS_OF,
    Correction,
    LogBounds,
    SourceClient,
    SourceIdentity,
    SourcePartition,
    Split,
)
from sluiceway.sources.registry import SourceAccess
from sluiceway.types.log_key import SourceKey
from sluiceway.types.policy import NO_POLICY
from sluiceway.types.schema import Field, Schema
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.earlier_rows import before_first
from sluiceway.upkeep.prefix_history import PrefixHistory, QueueRange, add_earlier, history_of
from sluiceway.work.process import ProcessWork
from sluiceway.work.request import ClusterWork, WorkRunner
from sluiceway.worker.backfill_task import BackfillFiles, BackfillPlan, backfill_request
from sluiceway.worker.plan import RoutePlan
from sluiceway.worker.row_rules import NO_CHOICES

_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class LostRange:
    """Offsets that a prefix was made of and that the broker does not have any more.

    Attributes:
        why: In words.
    """

    topic: str
    partition: int | str
    start: int
    end: int
    why: str

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}] [{self.start}, {self.end}): {self.why}"


@dataclass(frozen=True, slots=True)
class ReadSoFar:
    """How far a ledger has read its sources, as its driver's thread sees it.

    Attributes:
        starts: Where each source partition begins.
        ends: Committed ends.
        swaps: Prefix -> slot of its last SWAP.
        slots: Number of slots.
        dirty_rows: Dirty rows that are open.
    """

    starts: Mapping[SourcePartition, int]
    ends: Mapping[SourcePartition, int]
    swaps: Mapping[str, int]
    slots: int
    dirty_rows: int

    @classmethod
    def of(cls, fold: FoldState) -> "ReadSoFar":
        """As the fold has it now."""
        known = {SourcePartition(*k): each for k, each in fold.sources.items() if not each.retired}
        return cls(
            {partition: each.start for partition, each in known.items()},
            {partition: each.end for partition, each in known.items()},
            dict(fold.swaps),
            fold.next_seq,
            fold.dirty_rows_open,
        )


def with_kept(made: BackfillFiles, kept: int, files: Sequence[FileRecord] = ()) -> BackfillFiles:
    """What was made, with rows that stay: they count as read and written.

    Args:
        made: What was read and written.
        kept: Number of the rows that stay.
        files: Copies of their files, staged; none where rows are counted only.
    """
    counts = replace(
        made.counts,
        read=BigInt(made.counts.read + kept),
        written=BigInt(made.counts.written + kept),
    )
    return replace(made, files=(*files, *made.files), counts=counts)


class Rereading:
    """Of one route. Any thread may ask it; one at a time reads.

    Args:
        source: What the broker has now.
        plan: The route's plan, by today's job file.
        ledger: Uuid of the ledger.
        cluster: Executors; None where one machine does all.
        table: The route's own table: tables that are read are in its catalog. None reads none.
    """

    def __init__(
        self,
        source: SourceClient,
        plan: Callable[[], RoutePlan],
        ledger: str,
        cluster: ClusterWork | None = None,
        table: TableOptions | None = None,
    ) -> None:
        self._source = source
        self._plan = plan
        self._ledger = ledger
        self._cluster = cluster
        self._table = table
        self.cancelled = threading.Event()

    def history(self, log: LedgerLog, prefix: str, before: int) -> PrefixHistory:
        """What made a prefix in slots below `before`.

        Raises:
            NotInThisVersionError: The table has a key, or SQL makes its rows.
            RequestRefusedError: Late rows of the prefix are in their own place, or only a part of
                it has rows from before the start.
            LedgerCorruptError: A record cannot be read.
            StorageUnavailableError: The store failed.
        """
        self._refuse_made_rows(prefix)
        found = self._with_none_aside(log, prefix, before)
        if found.earlier_slot >= 0 and not found.earlier:
            raise RequestRefusedError(
                "a part of it has rows from before the offsets at which the route began, by slot "
                f"{found.earlier_slot}",
                where=prefix,
                hint="name its partitions, each on its own",
            )
        return found

    def _with_none_aside(self, log: LedgerLog, prefix: str, before: int) -> PrefixHistory:
        records = (record for record, _ in log.records())
        found = history_of(records, log.layout, self._ledger, prefix, before)
        if found.aside:
            slot, rows = next(iter(sorted(found.aside.items())))
            raise RequestRefusedError(
                f"{rows} late rows of slot {slot} are in their own place, and look like "
                "the others when they are read again",
                where=prefix,
                hint="bring them in first: `sluiceway late replay JOB`",
            )
        return found

    def _refuse_made_rows(self, prefix: str) -> None:
        plan, what = self._plan(), ""
        if plan.key is not None:
            what = "rows of a table with a key"
        elif plan.sql is not None:
            what = "rows that transform.sql makes"
        elif plan.source.kind == LAKE_SOURCE:
            what = "rows of an Iceberg table"
        elif UNITS in dict(plan.source.options):
            raise RequestRefusedError(
                "units that transform.sql computes are not read",
                where=prefix,
                hint="have the SQL run again: `--from inputs`",
            )
        if what:
            raise NotInThisVersionError(
                f"{what} are not read again by `backfill` in this version", where=prefix
            )

    def earlier(self, log: LedgerLog, prefix: str, before: int) -> PrefixHistory:
        """What the queue has from before the offsets at which the route began.

        Args:
            log: The log.
            prefix: Prefix of partitions.
            before: Slot from which on records do not count.

        Raises:
            RequestRefusedError: There is nothing, or rows from there may be in the table already.
            SluicewayError: As `history`, or the source does not answer.
        """
        if self._table is not None and self._table.lake is not None:
            raise NotInThisVersionError(
                "rows from before the start are added to Hive tables only in this version",
                where=prefix,
            )
        known = self.history(log, prefix, before)
        if known.earlier_slot >= 0:
            raise RequestRefusedError(
                "rows from before the offsets at which the route began are in it already, by slot "
                f"{known.earlier_slot}",
                where=prefix,
                hint="take a prefix below it that has none yet, or read all of it again: "
                "`--from ledger`",
            )
        found = PrefixHistory(left_out=known.earlier_dirty)
        begun = list(before_first(record for record, _ in log.records() if record.seq < before))
        here = self._source.discover(sorted({each.topic for each in begun}))
        same = {each.partition: each.identity for each in here}
        bounds = self._source.bounds(list(same))
        for each in begun:
            place = SourcePartition(each.topic, each.partition)
            if place not in bounds or same[place] != SourceIdentity(each.cluster_id, each.topic_id):
                continue
            start = bounds[place].start_offset
            if start < each.end:
                earlier = replace(each, start=start)
                add_earlier(found, earlier)
                found.earlier.append(earlier)
        if not found.earlier:
            raise RequestRefusedError(
                "the queue has nothing from before the offsets at which the route began",
                where=prefix,
                hint="`sluiceway offsets show JOB` shows where it began",
            )
        return found

    def lost(self, history: PrefixHistory) -> list[LostRange]:
        """What the broker does not have any more.

        Raises:
            SourceUnavailableError: The broker does not answer.
        """
        topics = sorted({topic for topic, _ in history.ranges})
        here = {found.partition: found.identity for found in self._source.discover(topics)}
        bounds = self._source.bounds(list(here))
        lost = []
        for (topic, number), ranges in sorted(history.ranges.items()):
            partition = SourcePartition(topic, number)
            identity = here.get(partition)
            for each in ranges:
                if identity is None:
                    why, end = "there is no such log", each.end
                elif (identity.cluster_id, identity.topic_id) != (each.cluster_id, each.topic_id):
                    why, end = "the log of this name is another one", each.end
                else:
                    why, end = _outside(each, bounds.get(partition))
                if why:
                    lost.append(LostRange(topic, number, each.start, end, why))
        return lost

    def read(self, history: PrefixHistory, prefix: str, staged: str) -> BackfillFiles:
        """Read it all, and stage the rows of the prefix.

        Args:
            history: What made the prefix.
            prefix: Prefix of partitions.
            staged: Staged folder; empty to count only.

        Raises:
            SluicewayError: Why it cannot be done.
        """
        splits = tuple(
            Split(SourcePartition(topic, number), each.start, each.end, origin=each.origin)
            for (topic, number), ranges in sorted(history.ranges.items())
            for each in ranges
        )
        return self._run(
            BackfillPlan(
                self._plan(), prefix, staged, splits, tuple(history.left_out), tuple(history.spans)
            )
        )

    def read_files(self, paths: Sequence[str], prefix: str, staged: str) -> BackfillFiles:
        """Read files that have the table's own columns, and stage the rows of the prefix.

        Args:
            paths: Absolute paths on the table's store.
            prefix: Prefix of partitions.
            staged: Staged folder; empty to count only.

        Raises:
            SluicewayError: Why it cannot be done.
        """
        self._refuse_made_rows(prefix)
        splits = (Split(SourcePartition("files", 0), 0),)
        plan = BackfillPlan(as_written(self._plan()), prefix, staged, splits, files=tuple(paths))
        return self._run(plan)

    def _run(self, plan: BackfillPlan) -> BackfillFiles:
        if plan.route.sql is not None:
            # Its tasks land rows; a prefix would be replaced by nothing.
            raise NotInThisVersionError(
                "rows of a route with SQL are not read again in this version",
                where=plan.prefix,
                hint="leave them: `on_correction: ignore` where a table is the source",
            )
        cluster = self._cluster
        runner: WorkRunner = ProcessWork("reads rows again")
        if cluster is not None and cluster.is_usable():
            runner = cluster
        (answer,) = runner.run([backfill_request(plan)], self._check)
        if answer.failure is not None:
            raise answer.failure
        made: BackfillFiles = answer.value
        return made

    def due(self, read: ReadSoFar, log: LedgerLog) -> list[Correction]:
        """Corrections of what is read that no SWAP of this ledger has brought yet.

        Args:
            read: How far this ledger is.
            log: The log.

        Raises:
            SourceUnavailableError: The source does not answer.
            LedgerCorruptError: A record cannot be read.
            StorageUnavailableError: The store failed.
        """
        return due_corrections(self._source, read, log)

    def refuse_twice(self, log: LedgerLog, read: ReadSoFar, prefix: str, before: int) -> None:
        """Refuse to rebuild a prefix while rows of it may be somewhere else too.

        Args:
            log: The log.
            read: How far this ledger is.
            prefix: Prefix of partitions.
            before: Slot from which on records do not count.

        Raises:
            RequestRefusedError: Late rows of it are in their own place, or dirty rows are open.
            LedgerCorruptError: A record cannot be read.
            StorageUnavailableError: The store failed.
        """
        _refuse_dirty(read.dirty_rows, prefix)
        self._with_none_aside(log, prefix, before)

    def as_of_ends(self, correction: Correction, ends: Mapping[SourceKey, int]) -> Correction:
        """The same correction, up to these committed ends.

        Raises:
            TaskFailedError: By now a slot with rows of the prefix is read in part.
        """
        places = {SourcePartition(*key): end for key, end in ends.items()}
        for each in self._source.corrections(dict.fromkeys(places, 0), places):
            if each.prefix == correction.prefix:
                return each
        raise TaskFailedError("more rows of it are being read", where=correction.prefix)

    def read_corrected(self, correction: Correction, staged: str) -> BackfillFiles:
        """Read what a prefix of the source had at a slot, and stage its rows.

        Args:
            correction: What was replaced, and the slot.
            staged: Staged folder.

        Raises:
            SluicewayError: Why it cannot be done.
        """
        plan = self._plan()
        topic = next(iter(self._source.list_topics()))
        source = replace(
            plan.source,
            options=(*plan.source.options, _as_of(correction.as_of, correction.prefix)),
        )
        return self._read_rows(replace(plan, source=source), topic, correction.prefix, staged)

    def inputs(self, log: LedgerLog, read: ReadSoFar, prefix: str) -> SwapInput:
        """What the table that the route reads had for a prefix, up to the committed ends.

        Args:
            log: The log.
            read: How far this ledger is.
            prefix: Prefix of partitions.

        Raises:
            RequestRefusedError: The route reads no table, or rows would come twice.
            SluicewayError: As `history`, or the source does not answer.
        """
        if UNITS in dict(self._plan().source.options):
            raise RequestRefusedError(
                "the driver that was asked has no Spark to compute the unit",
                where=prefix,
                hint="stop it and give the command again, or start it by `sluiceway run JOB`",
            )
        self.history(log, prefix, read.slots)
        found = self._source.slot_read(read.ends, prefix)
        if found is None:
            raise RequestRefusedError(
                "the route reads no table",
                where=prefix,
                hint="read the queue again: `--from ledger`",
            )
        _refuse_dirty(read.dirty_rows, prefix, "; or read `--from ledger`")
        return SwapInput(found[0], prefix, 0, found[1])

    def read_inputs(self, read: SwapInput, staged: str) -> BackfillFiles:
        """Read what `inputs` has found, and stage its rows; as `read_corrected`."""
        return self.read_corrected(
            Correction(read.ledger, read.prefix, read.slot, read.slot), staged
        )

    def read_table(self, name: str, prefix: str, staged: str) -> tuple[BackfillFiles, SwapInput]:
        """Read what another table of ours has for a prefix, at its newest published slot.

        Args:
            name: `database.table`, in the catalog of the route's own table.
            prefix: Prefix of partitions.
            staged: Staged folder; empty to count only.

        Returns:
            The rows, and the slot.

        Raises:
            RequestRefusedError: It is the route's own table, or has other partitions or columns.
            TableNotFoundError: There is no such table.
            SluicewayError: Why it cannot be done.
        """
        self._refuse_made_rows(prefix)
        if self._table is None or self._table.lake is not None:
            raise NotInThisVersionError(
                "rows of another table are read for Hive tables only in this version", where=prefix
            )
        plan = as_written(self._plan())
        meta = {each.column for each in self._plan().meta}
        columns = [each.name for each in plan.schema.fields if each.name not in meta]
        options = UpstreamOptions(
            name=name.lower(),
            metastore=self._table.metastore,
            metastore_options=self._table.metastore_options,
            stores=self._table.stores,
        )
        root = options.found_root()
        held = readable_table(options.table())
        _refuse_other_columns(options, held, prefix, columns)
        upstream = UpstreamLedger(root, options.stores, RowBook(COUNTED_ONLY))
        if upstream.ledger == self._ledger:
            raise RequestRefusedError(
                "it is the table itself", where=name, hint="read it again: `--from ledger`"
            )
        upstream.read_on()
        slot = upstream.book.slot
        texts = (*options.texts(), (ROOT, root), _as_of(slot, prefix))
        plan = replace(plan, source=SourceAccess("table", texts))
        made = self._read_rows(plan, options.topic, prefix, staged)
        return made, SwapInput(upstream.ledger, prefix, 0, slot)

    def _read_rows(self, plan: RoutePlan, topic: str, prefix: str, staged: str) -> BackfillFiles:
        splits = (Split(SourcePartition(topic, 0), 0),)
        return self._run(BackfillPlan(plan, prefix, staged, splits))

    def _check(self) -> None:
        if self.cancelled.is_set():
            raise TaskFailedError("it was given up: its route is left")


def _as_of(slot: int, prefix: str) -> tuple[str, str]:
    return AS_OF, f"{slot}:{prefix}"


def _refuse_other_columns(
    options: UpstreamOptions, held: ReadableTable, prefix: str, wanted: Sequence[str]
) -> None:
    folders = [name.lower() for name, _ in held.partition_columns]
    asked = [name.lower() for name, _ in parse_partition_folder(prefix)]
    if folders[: len(asked)] != asked:
        raise RequestRefusedError(
            f"its partition columns are {', '.join(folders) or 'none'}",
            where=options.name,
            hint=f"a table is read whose partitions begin with {', '.join(asked)}",
        )
    names = {*folders, *(name.lower() for name, _ in held.columns)}
    missing = [name for name in wanted if name.lower() not in names]
    if missing:
        raise RequestRefusedError(
            f"it has no column {', '.join(missing)}",
            where=options.name,
            hint="a table is read that has all columns of the route's table by their names",
        )


def as_written(plan: RoutePlan) -> RoutePlan:
    """A route's plan for rows that have its table's columns by their names, and nothing else.

    Nothing is computed or left out again, and what the queue had in addition is a column too.
    """
    columns = [each.field for each in plan.choices.columns if each.written]
    meta = [Field(each.column, META_TYPES[each.kind]) for each in plan.meta]
    fields = [replace(each, path=(), policy=NO_POLICY) for each in columns or plan.schema.fields]
    return replace(
        plan,
        schema=Schema((*fields, *meta)),
        choices=NO_CHOICES,
        meta=(),
        format=FormatChoice("table"),
        samples="none",
    )


def _refuse_dirty(rows: int, prefix: str, more: str = "") -> None:
    if rows:
        raise RequestRefusedError(
            f"{rows} dirty rows are open; rows that are read by inputs do not say whether they are "
            "among them",
            where=prefix,
            hint="first bring them in, `sluiceway dirty replay JOB`, or give them up, "
            f"`sluiceway dirty purge JOB`{more}",
        )


def due_corrections(source: SourceClient, read: ReadSoFar, log: LedgerLog) -> list[Correction]:
    """As `Rereading.due`, of any source."""
    found = source.corrections(read.starts, read.ends)
    return [each for each in found if not is_brought(read.swaps, log, each)]


def is_brought(swaps: Mapping[str, int], log: LedgerLog, correction: Correction) -> bool:
    """Whether a SWAP of this ledger has the correction, or a later one."""
    slot = swaps.get(correction.prefix)
    found = None if slot is None else log.read_slot(slot)
    if found is None or not isinstance(found[0].body, SwapRecord):
        return False
    return any(
        each.ledger == correction.ledger and each.slot >= correction.slot
        for each in found[0].body.inputs
    )


def refuse_lost(lost: Sequence[LostRange], prefix: str) -> None:
    """Refuse to go on without these.

    Raises:
        OffsetsLostError: There are some; names them.
    """
    if not lost:
        return
    shown = "; ".join(map(str, lost[:_MOST_NAMED]))
    more = f"; and {len(lost) - _MOST_NAMED} more" if len(lost) > _MOST_NAMED else ""
    raise OffsetsLostError(
        f"the broker has lost what made the rows: {shown}{more}",
        where=prefix,
        hint="nothing was changed. Give the rows from files: `sluiceway backfill JOB PREFIX "
        "--from files GLOB`",
    )


def _outside(each: QueueRange, bounds: LogBounds | None) -> tuple[str, int]:
    """Why a range is not there, and where what is lost of it ends."""
    if bounds is None:
        return "no leader answers for it", each.end
    if each.start < bounds.start_offset:
        return f"the log begins at {bounds.start_offset}", min(each.end, bounds.start_offset)
    if each.end > bounds.end_offset:
        return f"the log ends at {bounds.end_offset}", each.end
    return "", each.end
