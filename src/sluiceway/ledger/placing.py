"""Final names of a record's files, made from the fold at its own slot (commit rule 4)."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sluiceway.errors import InvariantError
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.lane_records import LaneDataRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.partition_records import ReplaceRecord, SwapRecord
from sluiceway.ledger.places import prefixes
from sluiceway.ledger.records import DataRecord, FilesRecord
from sluiceway.types.strict_json import BigInt


def placed(record: DataRecord, fold: Fold) -> DataRecord:
    """The record for the slot after the fold: where its partitions are, what is closed by then.

    Called by the writer, again after each lost slot: a REPLACE may have moved a partition since
    the epoch was planned (commit rule 4). The staged files stay as they are.

    Args:
        record: Each file with the folder of its partition's first rows. `closed` has all prefixes
            that were closed when it was planned, with the watermark that this took. `counted` has
            the prefixes with all rows of their counts. Rows in other prefixes are not late, and
            refused when those are closed by now (commit rule 6).
        fold: Fold of all records before the slot.
    """
    closed = set(record.closed).difference(fold.sealed)
    newly = sorted(closed - fold.closed.keys())
    record = _aside(record, fold)
    names = {file.final.rpartition("/")[0] for file in record.files}
    late = {prefix for name in names for prefix in prefixes(name) if prefix in closed}
    files = tuple(map(partial(_placed_file, fold), record.files))
    mark = record.watermark
    if mark is not None and not newly:
        mark = replace(mark, bound_us=None)
    return replace(
        record,
        files=files,
        closed=tuple(newly),
        counted=tuple(sorted(set(record.counted).intersection(newly))),
        late_in=tuple(sorted(late)),
        watermark=mark,
    )


def _placed_file(fold: Fold, file: FileRecord) -> FileRecord:
    folder, _, name = file.final.rpartition("/")
    state = fold.partitions.get(folder)
    if state is None or state.location == folder:
        return file
    return replace(file, final=f"{state.location}/{name}")


def _aside(record: DataRecord, fold: Fold) -> DataRecord:
    """Rows of what is sealed go to the late place: their files are named there, and counted.

    Nothing knows where such a partition is, and none of its folders may be given again.
    """
    files, sealed = _parted(record.files, fold)
    if not sealed:
        return record
    rows = sum(int(file.rows) for file in sealed)
    # Rows that the tasks knew to be late are counted as such already.
    known = set(record.closed)
    told = (f for f in sealed if not known.isdisjoint(prefixes(f.final.rpartition("/")[0])))
    reopened = min(int(record.late_rows.reopen), sum(int(file.rows) for file in told))
    counts, late = record.counts, record.late_rows
    reopen, left = late.reopen - reopened, counts.written - rows
    # It is unknown which rows were redirected there. As many as are not among the others were:
    # rather one row counts as redirected twice than not at all.
    redirect = min(int(late.redirect), left - reopen)
    return replace(
        record,
        files=files,
        late_files=(*record.late_files, *_late_files(sealed, fold)),
        counts=replace(counts, written=BigInt(left), late=BigInt(counts.late + rows)),
        late_rows=replace(
            late,
            side=BigInt(late.side + rows),
            redirect=BigInt(redirect),
            reopen=BigInt(reopen),
        ),
    )


def _parted(
    files: Sequence[FileRecord], fold: Fold
) -> tuple[tuple[FileRecord, ...], tuple[FileRecord, ...]]:
    """Files that may go to their partitions, and files whose partition is sealed."""
    if not fold.sealed:
        return tuple(files), ()
    is_sealed = [fold.sealed_above(file.final.rpartition("/")[0]) is not None for file in files]
    return (
        tuple(file for file, sealed in zip(files, is_sealed, strict=True) if not sealed),
        tuple(file for file, sealed in zip(files, is_sealed, strict=True) if sealed),
    )


def _late_files(sealed: Sequence[FileRecord], fold: Fold) -> tuple[FileRecord, ...]:
    if fold.fence is None:
        raise InvariantError("rows are placed in a ledger without a fence")
    layout = LedgerLayout("", fold.fence.route)
    found = []
    for file in sealed:
        folder, _, name = file.final.rpartition("/")
        found.append(replace(file, final=layout.late_relative(folder, name)))
    return tuple(found)


def placed_lane(record: LaneDataRecord, fold: Fold) -> LaneDataRecord:
    """As `placed`, for an epoch of a lane, which closes nothing."""
    files, sealed = _parted(record.files, fold)
    if sealed:
        rows, counts = sum(int(file.rows) for file in sealed), record.counts
        counts = replace(
            counts, written=BigInt(counts.written - rows), late=BigInt(counts.late + rows)
        )
        late_files = (*record.late_files, *_late_files(sealed, fold))
        record = replace(record, files=files, late_files=late_files, counts=counts)
    names = {file.final.rpartition("/")[0] for file in record.files}
    late = {prefix for name in names for prefix in prefixes(name) if prefix in fold.closed}
    files = tuple(map(partial(_placed_file, fold), record.files))
    return replace(record, files=files, late_in=tuple(sorted(late)))


def all_files(record: FilesRecord) -> tuple[FileRecord, ...]:
    """Files that a record gives their final names, clean, dirty and late."""
    if isinstance(record, ReplaceRecord):
        return record.added
    if isinstance(record, SwapRecord):
        return (*record.live, *record.dirty_files)
    return (*record.files, *record.dirty_files, *record.late_files)
