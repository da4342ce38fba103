"""DATA: an epoch that follows the committed ends, and whose rows all are accounted for."""

from collections.abc import Iterable

from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding import fold_counts, fold_partitions, fold_watermark
from sluiceway.ledger.folding.fold_sources import check_tail
from sluiceway.ledger.folding.fold_state import FoldState, SourceState, is_contained, require
from sluiceway.ledger.layout import is_late_place
from sluiceway.ledger.records import DataRecord, EpochRecord, RangeRecord, Record


def check_data(fold: FoldState, body: DataRecord, record: Record) -> None:
    """Refuse an epoch that does not follow, or does not add up."""
    slot = f"slot {record.seq}"
    require(
        body.epoch > fold.last_epoch,
        "I9",
        f"{slot} has epoch {body.epoch} after {fold.last_epoch}",
    )
    for span in body.ranges:
        check_range(fold, span, slot)
    keys = {(span.topic, span.partition) for span in body.ranges}
    require(len(keys) == len(body.ranges), "I2", f"{slot} names a source partition twice")
    _check_sums(body, slot)
    written = (*body.files, *body.dirty_files, *body.late_files)
    check_own_files(written, record.term, body.epoch, slot)
    check_late_places(body, slot)
    kept = body.clock_us == 0 or body.clock_us >= fold.clock_us
    require(kept, "rule 23", f"{slot} has clock {body.clock_us} after {fold.clock_us}")
    fold_partitions.check_places(fold, body, record)
    fold_counts.check_counted(fold, body, record)
    fold_watermark.check_watermark(fold, body, record)


def check_late_places(body: EpochRecord, slot: str) -> None:
    """Refuse rows in the late place that are not called late, or late ones elsewhere."""
    for file in body.files:
        require(not is_late_place(file.final), "I4", f"{slot} hides rows in {file.final}")
    for file in body.late_files:
        require(is_late_place(file.final), "I4", f"{slot} has late rows in {file.final}")


def check_own_files(files: Iterable[FileRecord], term: int, epoch: int, slot: str) -> None:
    """Refuse files that another epoch staged, or whose final names leave the table."""
    own = f"{term}-{epoch}-"
    for file in files:
        own_folder = file.staged.startswith(own) and file.staged.count("/") == 1
        require(own_folder and is_contained(file.staged), "I9", f"{slot} names {file.staged}")
        require(is_contained(file.final), "I4", f"{slot} names {file.final}")


def check_range(fold: FoldState, span: RangeRecord, slot: str) -> None:
    """Refuse a range that does not begin at the committed end of its own log."""
    where = f"{slot}: {span.topic}[{span.partition}]"
    known = fold.sources.get((span.topic, span.partition))
    require(known is not None and not known.retired, "rule 5", f"{where} is not pinned")
    if known is None:
        return
    same = (known.cluster_id, known.topic_id) == (span.cluster_id, span.topic_id)
    require(same, "P7", f"{where} is another log of the same name")
    require(
        span.start == known.end,
        "I2",
        f"{where} starts at {span.start}, the committed end is {known.end}",
    )
    require(
        span.end >= span.start and span.end - span.start == span.rows + span.gaps,
        "P6",
        f"{where} [{span.start}, {span.end}) has {span.rows} rows and {span.gaps} gaps",
    )
    among = 0 <= span.corrected <= span.gaps
    require(among, "P6", f"{where} has {span.corrected} corrected rows among {span.gaps} gaps")
    _check_copies(known, span, where)
    require(not span.tail or span.rows > 0, "P6", f"{where} has a tail of no rows")
    check_tail(span.tail, where)


def _check_copies(known: SourceState, span: RangeRecord, where: str) -> None:
    """Refuse copies of no log, or an origin end that falls: its rows would be there twice."""
    among = 0 <= span.copies <= span.gaps
    require(among, "P6", f"{where} has {span.copies} copies among {span.gaps} gaps")
    least = None if known.origin is None else known.origin.end
    if least is None or span.origin_end is None:
        fits = least is None and span.origin_end is None and span.copies == 0
    else:
        fits = span.origin_end >= least
    require(fits, "P6", f"{where} has the origin end {span.origin_end} after {least}")


def _check_sums(body: DataRecord, slot: str) -> None:
    counts = body.counts
    require(counts.balanced(), "P6", f"{slot} does not balance: {counts}")
    read = sum(span.rows for span in body.ranges)
    require(read == counts.read, "P6", f"{slot} read {counts.read}, its ranges {read}")
    written = sum(file.rows for file in body.files)
    require(written == counts.written, "P6", f"{slot} wrote {counts.written}, files {written}")
    dirty = sum(file.rows for file in body.dirty_files)
    require(dirty == counts.dirty, "P6", f"{slot} has {counts.dirty} dirty, files {dirty}")
    late, told = sum(file.rows for file in body.late_files), body.late_rows
    require(
        late == counts.late == told.side,
        "P6",
        f"{slot} has {counts.late} late, files {late}, aside {told.side}",
    )
    among = 0 <= told.dirty <= counts.dirty and 0 <= told.redirect + told.reopen <= counts.written
    require(among, "P6", f"{slot} has late rows {told.as_counts()} among {counts}")


def apply_data(fold: FoldState, body: DataRecord, record: Record) -> None:
    """Its ends are committed, and its files are in their partitions."""
    fold.last_epoch = body.epoch
    fold.data_seq = record.seq
    read_at_us = None if body.watermark is None else int(body.watermark.read_at_us)
    for span in body.ranges:
        fold.sources[(span.topic, span.partition)].advance(span, read_at_us)
    fold_watermark.apply_watermark(fold, body, record)
    fold_partitions.apply_places(fold, body, record)
    fold_counts.apply_closed(fold, body)
    fold.counts = fold.counts.plus(body.counts)
    fold.late_rows = fold.late_rows.plus(body.late_rows)
    fold.clock_us = max(fold.clock_us, int(body.clock_us))
    fold.unpublished[record.seq] = body
    fold.data_records += 1
