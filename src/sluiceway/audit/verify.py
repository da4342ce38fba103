"""Does the table hold exactly what its ledger says, and does the broker agree?"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from sluiceway.audit.dirty_table_check import DirtyFold
from sluiceway.audit.lane_check import LaneCheck
from sluiceway.audit.offset_check import OriginColumns, offset_problems
from sluiceway.errors import SourceUnavailableError, StateConflictError, TopicNotFoundError
from sluiceway.followers.desired import is_to_be_shown
from sluiceway.followers.ready_effects import SUCCESS
from sluiceway.ledger.file_names import FileRecord, file_origin
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_partitions import name_of
from sluiceway.ledger.folding.fold_state import PartitionState
from sluiceway.ledger.lane_records import LATE, LaneDataRecord, LaneRecord
from sluiceway.ledger.layout import (
    SLOT_DIGITS,
    SYSTEM_FOLDER,
    LedgerLayout,
    is_late_place,
    is_number,
)
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import ExpireRecord, ReplaceRecord, SwapRecord
from sluiceway.ledger.places import is_moved_folder
from sluiceway.ledger.records import DataRecord, EpochRecord, Record
from sluiceway.schedule.source_view import SourceView, view_of_route
from sluiceway.sinks.files.contract import PARQUET_FILES, FileChoice
from sluiceway.sinks.files.reading import count_rows, format_by_name, has_footer
from sluiceway.sinks.partition_path import partition_folder
from sluiceway.sources.contract import SourceClient, SourcePartition
from sluiceway.storage.contract import FileStatus, Storage
from sluiceway.storage.copying import stream_crc32c

_MAX_FOREIGN = 100


@dataclass(frozen=True, slots=True)
class VerifyProblem:
    """One thing that is not as the ledger says.

    Attributes:
        kind: `chain`, `identity`, `file_missing`, `file_changed`, `file_misplaced`,
            `file_twice`, `file_unknown`, `offsets`, `lane`, `source`, `partition`.
        where: Path, slot or source partition.
        message: What was expected and what was found.
    """

    kind: str
    where: str
    message: str


@dataclass(slots=True)
class VerifyReport:
    """What was checked and what was found.

    Attributes:
        dirty_rows: Rows in all dirty files, also in files that a lane has consumed.
        let_go: Dirty and late files that may be gone and are: lanes have read all their rows.
        expanded: Rows after the first row of each record, in keyed tables.
        late_rows: Rows in the late place; the `brought_in` went on into their partitions and do not
            count. `late_files` were written there.
        late_table: Whether it was compared with the late place; None when there is nothing to
            compare.
        replayed: Dirty rows that lanes have read once more, and `purged` those given up.
        swapped: Rows that there are more, or fewer, since prefixes were backfilled or corrected.
        foreign: Files and partitions that this route did not write; listed, not judged.
        partitions: How many have rows; the `unannounced` are not in the catalog until they are
            complete.
        moved: Partitions that a pattern of folders misses because they were compacted.
        unchecked: What could not be compared, and why (offsets gone from the broker).
        lake: Whether it is a lake table: its snapshots were compared, not a metastore or the
            broker.
    """

    records: int = 0
    files: int = 0
    dirty_files: int = 0
    rows: int = 0
    dirty_rows: int = 0
    let_go: int = 0
    late_files: int = 0
    late_rows: int = 0
    late_table: str | None = None
    offsets: int = 0
    gaps: int = 0
    filtered: int = 0
    skipped: int = 0
    expanded: int = 0
    lanes: int = 0
    replayed: int = 0
    purged: int = 0
    brought_in: int = 0
    swapped: int = 0
    partitions: int = 0
    unannounced: int = 0
    moved: int = 0
    deep: bool = False
    problems: list[VerifyProblem] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    lake: bool = False

    @property
    def verified(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def add(self, kind: str, where: str, message: str) -> None:
        """Add a problem."""
        self.problems.append(VerifyProblem(kind, where, message))


class Verifier:
    """Checks one route. Only reads; may run while a driver is live.

    Attributes:
        expires: Whether dirty rows are kept for a limited time; set before `check_table`.
        dirty: The dirty files that the records name.
        late: The late files that the records name.
    """

    def __init__(
        self,
        storage: Storage,
        layout: LedgerLayout,
        *,
        deep: bool = False,
        origin: OriginColumns | None = None,
        columns: Sequence[str] = (),
        choice: FileChoice = PARQUET_FILES,
    ) -> None:
        self._storage = storage
        self._layout = layout
        self._origin = origin
        self._columns = columns
        self._places: dict[str, str] = {}
        self._named: dict[str, FileRecord] = {}
        self._live: dict[str, list[FileRecord]] = {}
        self._missing: dict[str, str] = {}
        self._brought_in: set[str] = set()
        self._complete: set[str] = set()
        self._uncompared = 0
        self._uncounted = 0
        self._choice = choice
        self._lanes = LaneCheck(storage)
        self.expires = False
        self.dirty = DirtyFold(layout)
        self.late: list[FileRecord] = []
        self.report = VerifyReport(deep=deep)
        self.fold = Fold(forgotten={})

    def check_table(self) -> None:
        """Chain, invariants, every file that a record names, and files that none names.

        Raises:
            StorageUnavailableError: The store failed; nothing is concluded.
        """
        # Listed before the log is read: a file published meanwhile is then named by a record.
        present = list(self._walk(self._layout.table_root))
        self._read_log()
        self._complete = self._announced_folders()
        for status in present:
            self._judge_unnamed(status)

    def _read_log(self) -> None:
        log = LedgerLog(self._storage, self._layout)
        log.generations()
        self._layout = log.layout
        report = self.report
        try:
            log.refuse_hole(self._fold_records(log))
        except StateConflictError as error:
            report.add("chain", f"slot {self.fold.next_seq}", str(error))
        if self._uncompared:
            epochs = "1 epoch" if self._uncompared == 1 else f"{self._uncompared} epochs"
            report.unchecked.append(
                f"the offsets in the files of {epochs} were not compared: rows were skipped or "
                "filtered, or the table does not keep topic, partition and offset"
            )
        if self._uncounted:
            report.unchecked.append(
                f"the rows of {self._uncounted} files of text, JSON or CSV, which have no footer, "
                "were not counted: --deep does"
            )
        report.records = self.fold.next_seq
        for noted in self.dirty.files.values():
            if noted.committed.path in self._missing and noted.may_be_gone(expires=self.expires):
                del self._missing[noted.committed.path]
                report.let_go += 1
        for path in self._brought_in & self._missing.keys():
            del self._missing[path]
            report.let_go += 1
        for final, message in self._missing.items():
            report.add("file_missing", final, message)
        there = [state.location for state in self.partitions() if not state.expired]
        report.partitions, report.moved = len(there), sum(map(is_moved_folder, there))
        if report.records == 0:
            report.add("chain", self._layout.log, "there is no ledger")

    def _fold_records(self, ledger: LedgerLog) -> Fold:
        for record, raw in ledger.records():
            self.fold.apply(record, raw)
            self._check_body(record)
        return self.fold

    def _check_body(self, record: Record) -> None:
        body = record.body
        if isinstance(body, DataRecord):
            self._check_data(body)
        elif isinstance(body, ReplaceRecord):
            self._check_replace(body)
        elif isinstance(body, SwapRecord):
            self._check_swap(body)
        elif isinstance(body, ExpireRecord):
            for each in body.partitions:
                self._let_go(each.partition)
        elif isinstance(body, LaneDataRecord):
            self._check_lane_data(body)
        elif isinstance(body, LaneRecord):
            self.report.lanes += 1
            for message in self._lanes.opening_problems(body):
                self.report.add("lane", f"slot {record.seq}", message)
        if self.fold.first_fence is not None:
            self._lanes.add(self.fold.first_fence.ledger, record)
        self.dirty.apply(self.fold, record)

    def _check_lane_data(self, record: LaneDataRecord) -> None:
        report, counts = self.report, record.counts
        if self.fold.lanes.lanes[record.lane].kind == LATE:
            report.late_rows -= int(counts.read)
            report.brought_in += int(counts.written)
            self._check_files(record)
            read = self._lanes.files_read(record)
            self._brought_in |= {self._layout.final(file.final) for file in read}
            for message in self._lanes.copy_problems(record):
                report.add("lane", f"epoch {record.epoch}", message)
            return
        report.replayed += int(counts.read - counts.purged)
        report.purged += int(counts.purged)
        report.filtered += int(counts.filtered)
        report.skipped += int(counts.skipped + counts.superseded)
        self._check_files(record)
        if not report.deep or counts.purged:
            return
        if self._origin is None or counts.filtered or counts.skipped or counts.superseded:
            self._uncompared += 1
            return
        for message in self._lanes.row_problems(record, self._origin, self._places):
            report.add("offsets", f"epoch {record.epoch}", message)

    def _check_replace(self, record: ReplaceRecord) -> None:
        """Removed files may be gone; their replacements hold as many rows."""
        self._let_go(record.partition)
        for file in record.added:
            self._count_file(file, record.partition)

    def _check_swap(self, record: SwapRecord) -> None:
        """Removed files may be gone; others stand for their rows, perhaps more or fewer."""
        self.report.swapped += int(record.rows_after - record.rows_before)
        for each in record.partitions:
            self._let_go(each.partition)
            for file in each.live:
                self._count_file(file, each.partition)
        self._check_dirty_files(record.dirty_files)

    def _let_go(self, partition: str) -> None:
        """Live files of a partition may be gone from now on."""
        for file in self._live.pop(partition, ()):
            self.report.files -= 1
            self.report.rows -= int(file.rows)
            self._missing.pop(self._layout.final(file.final), None)

    def _count_file(self, file: FileRecord, partition: str) -> None:
        self.report.files += 1
        self.report.rows += int(file.rows)
        self._live.setdefault(partition, []).append(file)
        self._check_file(file)

    def _check_data(self, record: DataRecord) -> None:
        report = self.report
        for span in record.ranges:
            report.offsets += int(span.end - span.start)
            report.gaps += int(span.gaps)
        report.filtered += int(record.counts.filtered)
        report.skipped += int(record.counts.skipped)
        self._check_files(record)
        self._check_offsets(record)

    def _check_files(self, record: EpochRecord) -> None:
        report = self.report
        for file in record.files:
            self._count_file(file, self._partition_of(file))
        self._check_dirty_files(record.dirty_files)
        for file in record.late_files:
            report.late_files += 1
            report.late_rows += int(file.rows)
            self.late.append(file)
            self._check_file(file)

    def _check_dirty_files(self, files: Iterable[FileRecord]) -> None:
        for file in files:
            self.report.dirty_files += 1
            self.report.dirty_rows += int(file.rows)
            self._check_file(file)

    def _partition_of(self, file: FileRecord) -> str:
        return name_of(self.fold, file.final.rpartition("/")[0])

    def _check_offsets(self, record: DataRecord) -> None:
        """Deep check: the files hold exactly the offsets that were read."""
        counts = record.counts
        in_files = counts.written + counts.dirty + counts.late == counts.read
        files = (*record.files, *record.dirty_files, *record.late_files)
        readable = all(file.final in self._places for file in files)
        if not (self.report.deep and readable):
            return
        if self._origin is None or not in_files:
            self._uncompared += 1
            return
        for message in offset_problems(
            self._storage, record, self._origin, self._places, self._choice
        ):
            self.report.add("offsets", f"epoch {record.epoch}", message)

    def _check_file(self, file: FileRecord) -> None:
        final = self._layout.final(file.final)
        if final in self._named:
            self.report.add("file_twice", final, "is named by the ledger twice")
        self._named[final] = file
        folder = self._partition_of(file)
        if is_late_place(file.final):
            folder = final.rpartition("/")[0].removeprefix(f"{self._layout.late}/")
        if file.values and folder != partition_folder(self._columns, file.values):
            self.report.add("file_misplaced", final, f"was committed as rows of {file.values}")
        path = final
        status = self._storage.status(final)
        if status is None:
            # A committed file may be unpublished; the next start publishes it.
            path = self._layout.attempt(file.staged)
            status = self._storage.status(path)
        if status is None:
            self._missing[final] = f"a committed file of {file.rows} rows is gone"
        elif status.size_bytes != file.size_bytes:
            self.report.add(
                "file_changed", path, f"has {status.size_bytes} bytes, committed {file.size_bytes}"
            )
        else:
            self._check_content(file, path)

    def _check_content(self, file: FileRecord, path: str) -> None:
        try:
            rows = self._rows_in(path)
        except (pa.ArrowException, ValueError, OSError) as error:
            kind = format_by_name(path) or "data"
            self.report.add("file_changed", path, f"is no readable {kind} file: {error}")
            return
        if rows not in (None, file.rows):
            self.report.add("file_changed", path, f"has {rows} rows, committed {file.rows}")
            return
        if self.report.deep and (found := self._crc32c(path)) != file.crc32c:
            self.report.add("file_changed", path, f"has crc32c {found}, committed {file.crc32c}")
            return
        self._places[file.final] = path

    def _rows_in(self, path: str) -> int | None:
        """Rows of a file; None for text lines, which only a deep check counts."""
        if not (self.report.deep or has_footer(path)):
            self._uncounted += 1
            return None
        with self._storage.open_read(path) as stream:
            return count_rows(path, stream)

    def _crc32c(self, path: str) -> str:
        with self._storage.open_read(path) as stream:
            return stream_crc32c(stream)

    def _walk(self, folder: str) -> Iterator[FileStatus]:
        for status in self._storage.list(folder):
            if not status.is_dir:
                yield status
            elif status.path not in (self._layout.stage, f"{self._layout.root}/cut"):
                yield from self._walk(status.path)

    def _judge_unnamed(self, status: FileStatus) -> None:
        if status.path in self._named:
            return
        folder, _, name = status.path.rpartition("/")
        if name == SUCCESS and folder in self._complete:
            return
        if file_origin(self._layout.route, name) is not None:
            self.report.add(
                "file_unknown", status.path, "bears this route's name; no record names it"
            )
        elif f"/{SYSTEM_FOLDER}/" in status.path:
            self._judge_system_file(status.path)
        else:
            self._list_foreign(status.path)

    def _announced_folders(self) -> set[str]:
        """Folders in which a file marks a partition as complete."""
        folders = [*self.fold.closed, *self.fold.sealed, *self.fold.left]
        folders += [state.location for state in self.partitions()]
        return {self._layout.final(folder) for folder in folders}

    def _judge_system_file(self, path: str) -> None:
        """Report a stray file: readers of dirty rows take whole folders."""
        layout = self._layout
        logs = [n for n, log in enumerate(layout.logs) if path.startswith(f"{log}/")]
        if logs:
            stray = not self._is_slot(path, logs[0])
        elif path.startswith(f"{layout.root}/"):
            stray = path.startswith((f"{layout.root}/dirty/", f"{layout.late}/"))
        else:
            stray = path != layout.owner
        if stray:
            self.report.add(
                "file_unknown", path, "no record names it, and no other program writes here"
            )

    def _is_slot(self, path: str, generation: int) -> bool:
        """Whether a file is a slot's; cut slots stay where the lost room had put them."""
        layout, slot = self._layout, path.rpartition("/")[2].removesuffix(".json")
        if not is_number(slot):
            return False
        folder = layout.log_folder(layout.folder_of(int(slot)), generation)
        return path == f"{folder}/{int(slot):0{SLOT_DIGITS}d}.json"

    def _list_foreign(self, place: str) -> None:
        if len(self.report.foreign) < _MAX_FOREIGN:
            self.report.foreign.append(place)

    def check_source(self, source: SourceClient) -> None:
        """Compare committed ends with the broker's logs.

        Raises:
            SourceUnavailableError: The broker does not answer.
        """
        live = {key: known for key, known in self.fold.sources.items() if not known.retired}
        if not live:
            return
        topics = sorted({topic for topic, _ in live})
        try:
            discovered = source.discover(topics)
        except TopicNotFoundError as error:
            self.report.add("source", error.where or "topics", str(error))
            return
        ends = source.bounds([found.partition for found in discovered])
        by_topic = {
            topic: tuple(each for each in discovered if each.partition.topic == topic)
            for topic in topics
        }
        view = view_of_route(SourceView(by_topic, ends, {}), self.fold)
        identities = {found.partition: found.identity for found in view.of(topics)}
        bounds = view.bounds
        for (topic, number), known in sorted(live.items()):
            partition = SourcePartition(topic, number)
            where = str(partition)
            identity = identities.get(partition)
            if identity is None:
                self.report.add("source", where, "the cluster does not have it any more")
                continue
            if (identity.cluster_id, identity.topic_id) != (known.cluster_id, known.topic_id):
                self.report.add("source", where, "the topic was created again since it was read")
                continue
            place = bounds.get(partition)
            if place is None:
                raise SourceUnavailableError("no leader answers for it", where=where)
            if known.end > place.high_watermark:
                self.report.add(
                    "source",
                    where,
                    f"committed {known.end}, the log ends at {place.high_watermark}",
                )
            if place.start_offset > known.start:
                self.report.unchecked.append(
                    f"{where}: offsets below {place.start_offset} are gone from the broker; "
                    "the ledger alone vouches for them"
                )

    def partitions(self) -> list[PartitionState]:
        """All partitions that the ledger ever had; the fold forgets some."""
        return list({**(self.fold.forgotten or {}), **self.fold.partitions}.values())

    def check_partitions(
        self,
        in_catalog: dict[tuple[str, ...], str],
        catalog_values: Callable[[tuple[str | None, ...]], tuple[str, ...]],
        *,
        on_ready: bool = False,
    ) -> None:
        """Compare the catalog's partitions with the ledger's.

        Args:
            in_catalog: Values -> location, as an absolute path.
            catalog_values: How the catalog writes raw values.
            on_ready: Whether partitions that were never announced may be missing.
        """
        for state in self.partitions():
            if not state.values or state.expired:
                continue
            folder = self._layout.final(state.location)
            found = in_catalog.get(catalog_values(state.values))
            if found is None:
                if is_to_be_shown(self.fold, state, on_ready=on_ready):
                    self.report.add("partition", state.folder, "is not in the catalog")
                else:
                    self.report.unannounced += 1
            elif found.rstrip("/") != folder:
                self.report.add("partition", state.folder, f"the catalog has it at {found}")

    def check_foreign_partitions(self, in_catalog: dict[tuple[str, ...], str]) -> None:
        """Check partitions that the ledger does not know: they must not show its files.

        Args:
            in_catalog: Values -> location, as an absolute path.
        """
        ours = {self._layout.final(state.location) for state in self.partitions()}
        ours.add(f"{self._layout.table_root}/{SYSTEM_FOLDER}")
        names = [name for name, of in self.fold.closed.items() if of.version]
        announced = {self._layout.final(name) for name in (*names, *self.fold.sealed)}
        above = {parent for folder in ours for parent in _parents(folder)}
        for values, location in in_catalog.items():
            place = location.rstrip("/")
            if place in announced:
                continue  # A stretch of time without a row is a partition too.
            if place in above or not ours.isdisjoint((place, *_parents(place))):
                self.report.add("partition", "/".join(values), f"shows our files: {location}")
            else:
                self._list_foreign(f"partition {'/'.join(values)} at {location}")


def _parents(path: str) -> list[str]:
    """Folders above a path or URI, nearest first; the root is empty, as without its slash."""
    found = []
    while "/" in path:
        path = path.rpartition("/")[0]
        found.append(path)
    return found
