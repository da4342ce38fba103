"""The rows of an Iceberg table as a log, by the snapshots of its branch main.

A snapshot that appends has the offsets from the `total-records` of its parent up to its own. One
that replaces files has none. So offsets stay when older snapshots expire. A route begins with the
rows of one snapshot, its base: these have the offsets from 0 on, in the order of their files.

A route that passes over removed rows reads up to the snapshot that removes some, and no row of it.
That snapshot is the base of a new log, which begins after its rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import (
    ADDED_DELETE_FILES,
    ADDED_POSITION_DELETES,
    ADDED_RECORDS,
    DELETED_DATA_FILES,
    DELETED_RECORDS,
    TOTAL_RECORDS,
    Operation,
    Snapshot,
)

from sluiceway.errors import NotInThisVersionError, OffsetsLostError, TableMismatchError
from sluiceway.sources.contract import Removal, Split
from sluiceway.sources.table_losses import NEW_ROUTE, SAFE, rolled_back, rows_removed


class StepKind(StrEnum):
    """What a snapshot does to the rows of its parent."""

    BASE = "base"
    ADDS = "adds"
    KEEPS = "keeps"
    REMOVES = "removes"


@dataclass(frozen=True, slots=True)
class LakeStep:
    """A snapshot.

    Attributes:
        number: Its sequence number.
        begin: Offset of its first row.
        end: Offset after its last row.
    """

    number: int
    begin: int
    end: int
    kind: StepKind
    snapshot: Snapshot


class LakeLog:
    """The log as one metadata file has it.

    Args:
        metadata: Metadata of the table.
        where: The table, for errors.
        passes_over: Whether a log ends at a snapshot that removes rows, and another one follows.

    Attributes:
        end: Offset after the newest row.
        newest: Sequence number of the newest snapshot; 0 without one.
        removed: That of the newest snapshot that has removed rows and is not passed over; -1
            without one.
        removals: Snapshots that are passed over, oldest first.
        ids: Sequence number -> id of each snapshot that the table has, also after a rollback.

    Raises:
        NotInThisVersionError: The table, or its newest snapshot, is of format version 1.
        TableMismatchError: A snapshot does not count its rows.
    """

    def __init__(self, metadata: TableMetadata, where: str, *, passes_over: bool = False) -> None:
        if metadata.format_version < 2:  # noqa: PLR2004 - sequence numbers begin there
            raise _version_one("it is of Iceberg's format version 1", where)
        self._where = where
        self.ids = {each.sequence_number or 0: each.snapshot_id for each in metadata.snapshots}
        self._steps = list(_steps(metadata, where))[::-1]
        newest = self._steps[-1] if self._steps else None
        if newest is not None and not newest.number:
            raise _version_one("its newest snapshot is of Iceberg's format version 1", where)
        self.end = 0 if newest is None else newest.end
        self.newest = 0 if newest is None else newest.number
        removing = [step for step in self._steps if step.kind is StepKind.REMOVES]
        passed = [step for step in removing if passes_over and not _begins_again(step)]
        halting = (step.number for step in removing if step not in passed)
        self.removed = max(halting, default=-1)
        ends = [*(step.begin for step in passed[1:]), self.end]
        self.removals = tuple(
            replace(_removal(step), rows=max(end - step.end, 0))
            for step, end in zip(passed, ends, strict=False)
        )

    def after(self, split: Split) -> list[LakeStep]:
        """Snapshots with rows of a split, oldest first; the first one may have read rows too.

        Args:
            split: Its `newest_slot` is the sequence number of the route's base; -1, as in a sample,
                takes the newest snapshot. Its `leader_epoch` is that of the snapshot with the last
                row that was read.

        Raises:
            OffsetsLostError: Rows were removed, or a snapshot is gone that is needed.
        """
        base = self.newest if split.newest_slot < 0 else split.newest_slot
        if self.removed > base:
            raise rows_removed(self._where, self.removed, self.ids, split.start_offset)
        steps, is_over = self._since(base)
        last_read = base if split.leader_epoch is None else split.leader_epoch
        for number in (base, last_read):
            self._prove(number)
        reaches_back_to = steps[0].begin if steps else is_over.begin if is_over else self.end
        start = split.start_offset
        if start < reaches_back_to:
            raise self._lost(
                f"row {start} cannot be read: the snapshots that are left begin at row "
                f"{reaches_back_to}, older ones have expired"
            )
        if (
            split.leader_epoch is not None
            and steps
            and last_read < steps[0].number
            and start > steps[0].begin
        ):
            # All rows up to that snapshot lie below the oldest that is left.
            raise self._lost(
                f"row {start} has come after snapshot {last_read}, and was read before"
            )
        with_rows = (step for step in steps if step.kind is not StepKind.KEEPS)
        return [step for step in with_rows if step.end > split.start_offset]

    def number_below(self, offset: int, base: int) -> int | None:
        """Sequence number of the snapshot with the row before an offset; None where it is gone."""
        steps, _ = self._since(base)
        within = (step.number for step in steps if step.begin < offset <= step.end)
        return next(within, None)

    def before(self, timestamp_ms: int) -> tuple[int, int]:
        """The newest snapshot before a time: its sequence number, and the offset after its rows.

        Args:
            timestamp_ms: Milliseconds since 1970.

        Raises:
            OffsetsLostError: A snapshot has expired, and it may be of that time or later.
        """
        found = (0, 0)
        for step in self._steps:
            if (step.snapshot.timestamp_ms or 0) >= timestamp_ms:
                break
            found = step.number, step.end
        if not found[0] and self._steps and self._steps[0].begin:
            raise OffsetsLostError(
                "its snapshots do not reach back to the time of the start",
                where=self._where,
                hint="write a later time, `earliest` or `latest` into source.start",
            )
        return found

    def number_through(self, offset: int, base: int) -> int:
        """Sequence number of the newest snapshot whose rows lie below an offset; -1 for none."""
        steps, _ = self._since(base)
        return max((each.number for each in steps if each.end <= offset), default=-1)

    def end_of(self, base: int) -> int:
        """Offset after the newest row of the log that begins with a base."""
        _, is_over = self._since(base)
        return self.end if is_over is None else is_over.begin

    def _since(self, base: int) -> tuple[list[LakeStep], LakeStep | None]:
        """Snapshots of the log that begins with a base, and the one after them that ends it."""
        found = [step for step in self._steps if step.number >= base]
        passed = next((each.slot for each in self.removals if each.slot > base), None)
        is_over = next((step for step in found if step.number == passed), None)
        if is_over is not None:
            found = found[: found.index(is_over)]
        if found and found[0].number == base:
            found[0] = replace(found[0], begin=0, kind=StepKind.BASE)
        return found, is_over

    def _prove(self, number: int) -> None:
        """See that a snapshot is one of the table still, or may have expired."""
        numbers = {step.number for step in self._steps}
        if number not in numbers and number > min(numbers, default=number):
            what = f"snapshot {number}, whose rows were read, is none of its history now"
            raise rolled_back(self._where, number, self.ids, what)

    def _lost(self, message: str) -> OffsetsLostError:
        return OffsetsLostError(message, where=self._where, hint=WAY_OUT)


WAY_OUT = f"{SAFE}, and this route reads no further: {NEW_ROUTE}"


def _steps(metadata: TableMetadata, where: str) -> Iterator[LakeStep]:
    """From the newest one back to the oldest that is there."""
    snapshot = metadata.snapshot_by_name(MAIN_BRANCH)
    while snapshot is not None:
        parent_id = snapshot.parent_snapshot_id
        parent = None if parent_id is None else metadata.snapshot_by_id(parent_id)
        end = _total(snapshot, where)
        gained = _count(snapshot, ADDED_RECORDS) - _count(snapshot, DELETED_RECORDS)
        # Some clients forget a parent when it expires, so a snapshot without one is not the first.
        begin = end - gained if parent is None else _total(parent, where)
        number = snapshot.sequence_number or 0
        kind = _kind(snapshot, end - begin)
        if parent_id is None and number > 1 and not begin and end:
            # CREATE OR REPLACE TABLE begins again, with the uuid of the table before.
            kind = StepKind.REMOVES
        yield LakeStep(number, begin, end, kind, snapshot)
        snapshot = parent


def _kind(snapshot: Snapshot, gained: int) -> StepKind:
    operation = None if snapshot.summary is None else snapshot.summary.operation
    if operation is Operation.REPLACE:
        return StepKind.REMOVES if gained else StepKind.KEEPS
    # An overwrite of what had no rows is an append in all but its name.
    removing = (ADDED_DELETE_FILES, DELETED_DATA_FILES, DELETED_RECORDS)
    if gained < 0 or any(_count(snapshot, key) for key in removing):
        return StepKind.REMOVES
    return StepKind.ADDS if gained else StepKind.KEEPS


def _begins_again(step: LakeStep) -> bool:
    """Whether nothing says what the table had before: it may be CREATE OR REPLACE TABLE."""
    return step.snapshot.parent_snapshot_id is None and not step.begin


def _removal(step: LakeStep) -> Removal:
    counts = (DELETED_RECORDS, ADDED_POSITION_DELETES)
    removed = sum(_count(step.snapshot, key) for key in counts)
    added = _count(step.snapshot, ADDED_RECORDS)
    return Removal(step.number, step.begin, step.end, removed, added)


def _count(snapshot: Snapshot, key: str) -> int:
    found = {} if snapshot.summary is None else snapshot.summary.additional_properties
    return int(found.get(key, 0))


def _total(snapshot: Snapshot, where: str) -> int:
    if snapshot.summary is None or TOTAL_RECORDS not in snapshot.summary.additional_properties:
        raise TableMismatchError(
            f"its snapshot {snapshot.snapshot_id} does not say how many rows the table has "
            f"({TOTAL_RECORDS})",
            where=where,
            hint="write the table by a client that counts, such as Spark, Flink or PyIceberg",
        )
    return _count(snapshot, TOTAL_RECORDS)


def _version_one(what: str, where: str) -> NotInThisVersionError:
    return NotInThisVersionError(
        f"{what}, which is not read in this version",
        where=where,
        hint="set the table's property format-version to 2, and append to it once",
    )
