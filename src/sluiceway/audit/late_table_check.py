"""Does the table over a route's late place show each late file once?"""

from collections.abc import Iterable, Iterator

from sluiceway.audit.dirty_table_check import Found
from sluiceway.audit.plain_counts import counted
from sluiceway.errors import SluicewayError
from sluiceway.ledger.file_records import FileRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.sinks.partition_path import catalog_values
from sluiceway.sinks.side_tables import LateRowsTable
from sluiceway.storage.locations import same_location


def late_table_problems(
    table: LateRowsTable, layout: LedgerLayout, files: Iterable[FileRecord]
) -> Iterator[Found]:
    """Compare the late files with what readers of the table see; closes the table.

    Partitions that readers do not see may be on their way, or were dropped by somebody; the rows
    are in the late place all the same.

    Args:
        table: Over the late place.
        layout: Of the route's own table.
        files: All late files that the records name.
    """
    try:
        if not table.find():
            yield "", str(table), "the table of late rows is not there yet"
            return
        yield from _problems(table, layout, files)
    except SluicewayError as error:
        yield "", str(table), f"the table of late rows: {error}"
    finally:
        table.close()


def _problems(
    table: LateRowsTable, layout: LedgerLayout, files: Iterable[FileRecord]
) -> Iterator[Found]:
    folders = {
        catalog_values(file.values): layout.final(file.final).rpartition("/")[0]
        for file in files
        if file.values
    }
    shown = table.shown()
    for values, location in sorted(shown.items()):
        wanted = folders.get(values)
        if wanted is None or not same_location(location, wanted):
            where = f"{table} {'/'.join(values)}"
            yield "late table", where, f"shows {location}, expected {wanted or 'no such partition'}"
    unseen = len(folders.keys() - shown.keys())
    if unseen:
        yield "", str(table), f"not seen there: {counted(unseen, 'partition')} of late rows"
