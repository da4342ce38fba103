"""Compaction of an append lake table, while publishing goes on: many small files become few.

A process writes the new files, as long as that takes. One request with a snapshot of the kind
`replace` puts them in the place of the old ones. The request loses to whatever lands meanwhile, and
is built again from the same new files. The files that it replaces have to be live still. Rows that
others have deleted since are deleted in the new file by their places. Only the table shows what
became of a request, so a file that was ever named in one is never removed here.

Each group of files stands alone. A group that cannot be rewritten is logged and put off, and the
others go into the table.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from pyiceberg.manifest import DataFile
from pyiceberg.table.metadata import TableMetadata

from sluiceway.errors import SluicewayError, StorageUnavailableError, TableMismatchError
from sluiceway.observe.failpoints import reach
from sluiceway.observe.log import Log
from sluiceway.sinks.iceberg.compact.compaction_backoff import CompactionBackoff
from sluiceway.sinks.iceberg.compact.replace_request import replace_request
from sluiceway.sinks.iceberg.compact.rewrite_live import (
    GroupAnswer,
    LakeRewritePlan,
    LiveFile,
    NewFile,
    RewriteGroup,
    begin_rewriting,
    remove_new,
)
from sluiceway.sinks.iceberg.compact.small_files import (
    SmallFiles,
    in_one_go,
    partition_name,
    small_files,
    why_left,
)
from sluiceway.sinks.iceberg.data_files import PlacedFile, data_file, read_footer
from sluiceway.sinks.iceberg.keyed.keyed_files import FilePlace
from sluiceway.sinks.iceberg.keyed.table_head import Head, HeadReader
from sluiceway.sinks.iceberg.keyed.upsert_request import TableChange
from sluiceway.sinks.iceberg.publish.lake_table import HashOf, LakeTable, TableLook
from sluiceway.sinks.iceberg.publish.publisher import LakePlace
from sluiceway.storage.locations import path_below
from sluiceway.work.process import Answers

Positions = NDArray[np.int64]
_TRIES = 5
_PROCESS_S = 3_600.0
_NONE = np.empty(0, np.int64)


class Rewriting(Protocol):
    """A process that rewrites files; see `UnattendedProcess`."""

    def is_over(self) -> bool:
        """Whether `answers` returns at once."""

    def answers(self, parts: int, timeout_s: float) -> Answers:
        """What it has made of each group, and why it ended before the rest."""

    def end(self) -> None:
        """End it, whatever it does."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What became of some files of a partition.

    Attributes:
        partition: Its name.
        files: How many there were.
        size_bytes: Size of these together.
        left: Why they are as they were; empty when they are not.
        failed: Why they could not be rewritten; empty when they could. A person should look.
    """

    partition: str
    files: int
    size_bytes: int
    left: str = ""
    failed: str = ""


@dataclass(slots=True, eq=False)
class _Made:
    """A new file on its way into the table.

    Attributes:
        uri: URI as manifests name it; empty when none of its sources has a living row.
        path: Path as the storage names it.
        sources: Old files with what was dead in each when it was rewritten, in order.
        like: Spec and partition of the first of them, as a manifest entry has it.
        sent: Whether a request has named it.
    """

    uri: str
    path: str
    rows: int
    size_bytes: int
    sources: dict[str, LiveFile]
    before_bytes: int
    partition: str
    like: Any
    sent: bool = False


@dataclass(slots=True)
class _Ready:
    """A new file as a request names it, at one head.

    Attributes:
        carry: Its rows that were deleted since it was written.
        added: Its entry; None when it has no row.
    """

    made: _Made
    carry: Positions
    added: DataFile | None


@dataclass(slots=True)
class _Run:
    """A process and what it writes.

    Attributes:
        process: Process that does it.
        groups: Groups in the plan's order.
        plan: Plan that it was given.
        like: Manifest entry of each group's first file.
    """

    process: Rewriting
    groups: list[SmallFiles]
    plan: LakeRewritePlan
    like: list[Any]


@dataclass(slots=True)
class _Kept:
    """What is kept between looks.

    Attributes:
        put_off: Files that failed.
        fruitless: Files of which no two are alike: not tried again.
        run: Under way.
    """

    put_off: CompactionBackoff
    fruitless: set[tuple[str, ...]] = field(default_factory=set)
    run: _Run | None = None


class LakeCompaction:
    """Compacts one table. One thread at a time; safe next to publishers and other compactions.

    Args:
        table: By a catalog object of its own.
        place: Where its files lie.
        ledger: Uuid of the ledger.
        hash_of: Returns the hash of a ledger's record.
        target_bytes: What a file should weigh.
        log: Log for people.
        begin: Begins a process.
        clock: Says when files are tried again.
    """

    def __init__(  # noqa: PLR0913 - what it works on, and how
        self,
        table: LakeTable,
        place: LakePlace,
        ledger: str,
        hash_of: HashOf,
        *,
        target_bytes: int,
        log: Log,
        begin: Callable[[LakeRewritePlan], Rewriting] = begin_rewriting,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._table = table
        self._stores = place.stores
        self._place = FilePlace(place.storage, place.root, place.uri, place.compression)
        self._ledger = ledger
        self._hash_of = hash_of
        self._target_bytes = target_bytes
        self._events = log
        self._begin = begin
        self._heads = HeadReader(self._read_deletes)
        self._kept = _Kept(CompactionBackoff(clock))

    def _read_deletes(self, uri: str) -> Any:
        if not uri.endswith(".parquet"):
            raise TableMismatchError(f"another writer has put the delete file {uri} into it")
        return self._place.read_deletes(uri)

    # Looking

    def plan(self, *, all_of_them: bool) -> tuple[list[SmallFiles], str]:
        """The files that are worth compacting now, else why the whole table is left alone.

        Files that failed are no part of it until their time has come; then their groups are last.

        Raises:
            TableHistoryError: The table was rolled back or replaced.
            TableMismatchError: It was dropped, or dropped and created again.
            MetastoreUnavailableError: The catalog does not answer.
            StorageUnavailableError: The store does not.
        """
        look = self._read_table()
        head, left = self._head(look)
        if left:
            return [], left
        put_off = self._kept.put_off
        put_off.forget_others(head.data.keys())
        later = put_off.paths()
        found = small_files(
            look.table.metadata,
            replace(head, data={uri: e for uri, e in head.data.items() if uri not in later}),
            self._place.uri,
            self._target_bytes,
            all_of_them=all_of_them,
        )
        found = [each for each in found if each.paths not in self._kept.fruitless]
        return sorted(found, key=lambda each: put_off.is_known(each.paths)), ""

    @property
    def put_off(self) -> str:
        """Which files are left alone for a while, and why; empty when none is. Any thread."""
        return self._kept.put_off.said

    def partitions(self) -> dict[str, tuple[int, int]]:
        """Files and bytes of each partition now. Raises as `plan`."""
        look = self._read_table()
        found: dict[str, tuple[int, int]] = {}
        for entry in self._head(look)[0].data.values():
            name = partition_name(entry, look.table.metadata)
            files, size_bytes = found.get(name, (0, 0))
            found[name] = files + 1, size_bytes + int(entry.data_file.file_size_in_bytes)
        return found

    def _read_table(self) -> TableLook:
        return self._table.read(self._hash_of)

    def _head(self, look: TableLook) -> tuple[Head, str]:
        """The head, and why none of its files may be rewritten."""
        try:
            head = self._heads.read(look.table)
        except TableMismatchError as error:
            return Head(), str(error.message)
        except FileNotFoundError as error:
            raise StorageUnavailableError(
                f"a file of the table's metadata is gone: {error}",
                where=self._table.where,
                hint="others have expired the snapshot in this moment; the next look shows it",
            ) from error
        return head, why_left(look.table.metadata, head)

    # Writing

    @property
    def is_under_way(self) -> bool:
        """Whether files are being written, or wait to be put into the table."""
        return self._kept.run is not None

    def begin(self, groups: Sequence[SmallFiles]) -> None:
        """Have files rewritten, as many as fit into one go. Returns at once.

        Args:
            groups: Groups of the last look.

        Raises:
            TaskFailedError: No process can be begun.
        """
        look = self._read_table()
        head, left = self._head(look)
        chosen = [
            group
            for group in in_one_go(list(groups))
            if not left and head.data.keys() >= set(group.paths)
        ]
        if not chosen:
            return
        plan = LakeRewritePlan(
            self._place.uri,
            self._stores,
            self._place.compression,
            tuple(
                RewriteGroup(
                    self._stem(group), tuple(self._live(path, head) for path in group.paths)
                )
                for group in chosen
            ),
        )
        like = [head.data[group.paths[0]] for group in chosen]
        self._kept.run = _Run(self._begin(plan), chosen, plan, like)

    def _stem(self, group: SmallFiles) -> str:
        inside = (path_below(self._place.uri, group.paths[0]) or "").rpartition("/")[0]
        folder = inside if inside.split("/")[0] == "data" else "data"
        return f"{self._place.root}/{folder}/compacted-{uuid4()}"

    def _live(self, uri: str, head: Head) -> LiveFile:
        rows = int(head.data[uri].data_file.record_count)
        return LiveFile(self._place.path_of(uri), rows, self._heads.dead(uri))

    def is_over(self) -> bool:
        """Whether `finish` need not wait for the process."""
        return self._kept.run is None or self._kept.run.process.is_over()

    def finish(self) -> list[Compacted]:
        """Put what was written into the table; groups that have failed leave nothing.

        Raises:
            SluicewayError: As `plan`; or the process has failed. What no request has named is
                removed, the rest are orphans.
        """
        run, self._kept.run = self._kept.run, None
        if run is None:
            return []
        began_s = time.monotonic()
        answers = self._answers(run)
        made: list[_Made] = []
        done: list[Compacted] = []
        for at, answer in enumerate(answers):
            group = run.groups[at]
            if answer.failure is not None:
                done.append(self._failed(group, answer))
                continue
            made += [self._made(run, at, file) for file in answer.files]
            if not answer.files:
                self._kept.fruitless.add(group.paths)
                said = "no two of its small files have the same columns"
                done.append(
                    Compacted(group.partition, len(group.paths), group.size_bytes, left=said)
                )
        reach("lake.rewritten", self._table.where)
        try:
            done += self._put(made)
        except SluicewayError:
            for each in made:
                self._drop(each)
            raise
        self._log_done(done, began_s)
        return done

    def _log_done(self, done: list[Compacted], began_s: float) -> None:
        good = [each for each in done if not each.left and not each.failed]
        failed = sum(bool(each.failed) for each in done)
        self._events.info(
            "lake_compacted",
            table=self._table.where,
            files=sum(each.files for each in good),
            became=len(good),
            size_bytes=sum(each.size_bytes for each in good),
            left=len(done) - len(good) - failed,
            failed=failed,
            put_s=round(time.monotonic() - began_s, 3),
        )

    def _answers(self, run: _Run) -> list[GroupAnswer]:
        """Answers of each group that the process has come to. It is over and writes nothing more.

        Raises:
            SluicewayError: It cannot do its work, whatever the groups are.
        """
        try:
            answers, ended = run.process.answers(len(run.groups), _PROCESS_S)
        except SluicewayError:
            self._clear(run.plan.groups)
            raise
        found: list[GroupAnswer] = list(answers)
        if ended is not None:
            # It was in the midst of this one; all later ones are chosen again.
            self._clear(run.plan.groups[len(found) : len(found) + 1])
            found.append(GroupAnswer(failure=ended))
        return found

    def _clear(self, groups: Sequence[RewriteGroup]) -> None:
        """Remove what was written of groups of which no request has ever named a file."""
        for group in groups:
            try:
                remove_new(group, self._place.storage)
            except SluicewayError as error:
                self._events.info("garbage_left", path=group.stem, error=str(error))

    def _failed(self, group: SmallFiles, answer: GroupAnswer) -> Compacted:
        """Put off the file that is to blame, or all of the group where none is known."""
        paths = group.paths if answer.bad is None else (group.paths[answer.bad],)
        return self._put_off(group.partition, paths, answer.failure, group.size_bytes)

    def _put_off(
        self, partition: str, paths: Sequence[str], error: SluicewayError | None, size_bytes: int
    ) -> Compacted:
        why = "" if error is None else error.message
        if self._kept.put_off.add(paths, why):
            self._events.warning(
                "compaction_failed",
                table=self._table.where,
                partition=partition,
                file=paths[0],
                files=len(paths),
                reason=why,
            )
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        failed = f"{paths[0]}{more}: {why}"
        return Compacted(partition, len(paths), size_bytes, failed=failed)

    def _made(self, run: _Run, at: int, file: NewFile) -> _Made:
        group, plan = run.groups[at], run.plan.groups[at]
        sources = {group.paths[n]: plan.sources[n] for n in file.sources}
        whole = group.size_bytes if len(sources) == len(group.paths) else 0
        uri = f"{self._place.uri}{file.path.removeprefix(self._place.root)}" if file.path else ""
        return _Made(
            uri=uri,
            path=file.path,
            rows=file.rows,
            size_bytes=file.size_bytes,
            sources=sources,
            before_bytes=whole,
            partition=group.partition,
            like=run.like[at],
        )

    def close(self) -> None:
        """End what is under way. Safe to repeat."""
        if self._kept.run is not None:
            self._kept.run.process.end()
            self._kept.run = None

    # Into the table

    def _put(self, made: list[_Made]) -> list[Compacted]:
        """Have new files stand for old ones, each that still can.

        Raises:
            MetastoreUnavailableError: The catalog does not answer; what was sent may have landed.
        """
        done: list[Compacted] = []
        said = ""
        for _ in range(_TRIES):
            look = self._read_table()
            head, left = self._head(look)
            ready: list[_Ready] = []
            for each in made:
                if self._has_landed(each, head):
                    done.append(_compacted(each))
                    continue
                found = left or self._ready(each, head, look.table.metadata)
                if isinstance(found, _Ready):
                    ready.append(found)
                    continue
                self._drop(each)
                done.append(_compacted(each, found) if isinstance(found, str) else found)
            made = [each.made for each in ready]
            if not made:
                return done
            said = self._try(look, head, ready)
        for each in made:
            if self._has_landed(each, self._head(self._read_table())[0]):
                done.append(_compacted(each))
            else:
                self._drop(each)
                done.append(_compacted(each, f"the catalog did not take it: {said}"))
        return done

    def _ready(self, each: _Made, head: Head, metadata: TableMetadata) -> _Ready | Compacted | str:
        """How a request names it; else why it is of no use, or has failed."""
        carry, why = self._carried(each, head)
        if why:
            return why
        try:
            added = self._added(each, metadata) if each.uri else None
        except SluicewayError as error:
            return self._put_off(each.partition, tuple(each.sources), error, each.before_bytes)
        return _Ready(each, carry, added)

    @staticmethod
    def _has_landed(each: _Made, head: Head) -> bool:
        if each.uri:
            return each.uri in head.data
        return each.sent and not each.sources.keys() & head.data.keys()

    def _carried(self, each: _Made, head: Head) -> tuple[Positions, str]:
        """Rows of a new file that were deleted since it was written; else why it is of no use."""
        if not each.sources.keys() <= head.data.keys():
            return _NONE, "others have replaced some of the files meanwhile"
        found, first = [], 0
        for uri, source in each.sources.items():
            now = self._heads.dead(uri)
            if len(np.setdiff1d(source.dead, now)):
                return _NONE, "rows that were deleted are alive again: the table was rolled back"
            kept = np.setdiff1d(np.arange(source.rows), source.dead)
            fresh = np.setdiff1d(now, source.dead)
            found.append(first + np.searchsorted(kept, fresh))
            first += len(kept)
        return np.concatenate(found).astype(np.int64), ""

    def _try(self, look: TableLook, head: Head, ready: list[_Ready]) -> str:
        """Build one request for all of them, send it once."""
        removed = {uri for each in ready for uri in each.made.sources}
        removed |= {
            path
            for path in head.deletes
            if self._is_done_with(self._heads.named_by(path), removed, head)
        }
        added = [each.added for each in ready if each.added is not None]
        deletes = [
            self._place.place_deletes({each.made.uri: each.carry}, each.made.like)
            for each in ready
            if len(each.carry)
        ]
        change = TableChange(added, deletes, frozenset(removed))
        request = replace_request(look.table, change, head.entries, self._ledger)
        reach("lake.replacing", self._table.where)
        for each in ready:
            each.made.sent = True
        return self._table.send(look.table, request)

    @staticmethod
    def _is_done_with(named: frozenset[str], removed: set[str], head: Head) -> bool:
        """Whether a delete file is of files only that go now."""
        live = named & head.data.keys()
        return bool(live) and live <= removed

    def _added(self, each: _Made, metadata: TableMetadata) -> DataFile:
        like = each.like.data_file
        placed = PlacedFile(each.uri, each.path, each.rows, each.size_bytes, (), ())
        footer = read_footer(self._place.storage, each.path)
        spec = metadata.specs()[like.spec_id]
        return data_file(placed, footer, metadata, spec, like.partition)

    def _drop(self, each: _Made) -> None:
        """Remove a file that no request has ever named; a named file may still land."""
        if not each.path or each.sent:
            return
        try:
            self._place.storage.remove(each.path)
        except SluicewayError as error:
            self._events.info("garbage_left", path=each.path, error=str(error))


def _compacted(each: _Made, left: str = "") -> Compacted:
    return Compacted(each.partition, len(each.sources), each.before_bytes, left)
