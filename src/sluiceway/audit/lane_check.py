"""Do the files that lanes read exist, and do their own files hold the rows that they read?"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from sluiceway.audit.offset_check import (
    DIRTY_COLUMNS,
    OriginColumns,
    add_origins,
    file_origins,
    table_origins,
)
from sluiceway.errors import StorageUnavailableError
from sluiceway.ledger.dirty_files import dirty_sources, late_sources
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.lane_records import LATE, LaneDataRecord, LaneRecord
from sluiceway.ledger.layout import is_late_place, late_folder
from sluiceway.ledger.places import partition_in
from sluiceway.ledger.records import Record
from sluiceway.storage.contract import Storage
from sluiceway.types.log_key import SourceKey
from sluiceway.worker.dirty_reader import read_dirty_rows

Origins = dict[SourceKey, str]


@dataclass(slots=True)
class LaneCheck:
    """The dirty and late files of one ledger, as its records are read in order."""

    storage: Storage
    _sources: dict[str, FileRecord] = field(default_factory=dict)

    def add(self, ledger: str, record: Record) -> None:
        """Keep the files that a record commits for lanes. Called for each, after its check."""
        found = dirty_sources(ledger, record) | late_sources(ledger, record)
        self._sources |= {str(source): file for source, file in found.items()}

    def opening_problems(self, body: LaneRecord) -> list[str]:
        """Ranges of a lane that no record has committed as they are; one message each."""
        problems = []
        for each in body.ranges:
            file = self._sources.get(each.source)
            if file is None:
                problems.append(f"lane {body.lane}: no record has committed {each.source}")
            elif each.stop > file.rows:
                problems.append(
                    f"lane {body.lane}: takes rows up to {each.stop} of {each.source}, which has "
                    f"{file.rows}"
                )
            elif body.kind == LATE and each.stop < file.rows:
                problems.append(f"lane {body.lane}: takes {each.source} in part")
        return problems

    def files_read(self, body: LaneDataRecord) -> list[FileRecord]:
        """The files that an epoch has read, as far as records have committed them."""
        spans = (span for span in body.ranges if span.source in self._sources)
        return [self._sources[span.source] for span in spans]

    def copy_problems(self, body: LaneDataRecord) -> list[str]:
        """Files that an epoch of a lane of late rows has read and does not hold unchanged."""
        wanted = sorted(map(_copied, self.files_read(body)))
        if wanted == sorted(map(_copied, (*body.files, *body.late_files))):
            return []
        return [f"lane {body.lane}: epoch {body.epoch} has other files than it read"]

    def row_problems(
        self, body: LaneDataRecord, columns: OriginColumns, places: Mapping[str, str]
    ) -> list[str]:
        """Rows of a replay's epoch that are not those of the dirty files it read. For `--deep`.

        Args:
            body: The epoch; none of its rows was filtered or skipped.
            columns: Where the table keeps a row's origin.
            places: Final name of a file -> where it is now.

        Returns:
            One message a source partition; empty when all is right, or a file is not to be read.
        """
        wanted = self._origins_of(body, places)
        if wanted is None or any(
            file.final not in places for file in (*body.files, *body.dirty_files)
        ):
            return []
        found: Origins = {}
        names = [columns.topic, columns.partition, columns.offset]
        columns_of = [(file, names) for file in body.files]
        columns_of += [(file, list(DIRTY_COLUMNS)) for file in body.dirty_files]
        for file, kept in columns_of:
            try:
                add_origins(found, file_origins(self.storage, places[file.final], kept))
            except (pa.ArrowException, ValueError, KeyError) as error:
                return [f"{file.final}: {', '.join(kept)} cannot be read: {error}"]
        return [
            f"lane {body.lane}: {topic}[{number}]: the files do not hold the rows that were read"
            for topic, number in sorted(found.keys() | wanted.keys())
            if found.get((topic, number)) != wanted.get((topic, number))
        ]

    def _origins_of(self, body: LaneDataRecord, places: Mapping[str, str]) -> Origins | None:
        """Origins of the rows that the epoch read; None when one of its files cannot be read."""
        wanted: Origins = {}
        for span in body.ranges:
            file = self._sources.get(span.source)
            if file is None or file.final not in places:
                return None
            path, rows = places[file.final], (int(span.start), int(span.end))
            try:
                read = read_dirty_rows(self.storage, path, *rows, columns=DIRTY_COLUMNS)
                for _, batch in read:
                    table = pa.Table.from_batches([batch])
                    add_origins(wanted, table_origins(table, list(DIRTY_COLUMNS)))
            except StorageUnavailableError:
                return None
        return wanted


def _copied(file: FileRecord) -> tuple[str, int, int, str]:
    """What a copy shares with its file: partition, rows, bytes, checksum."""
    late = is_late_place(file.final)
    folder = late_folder(file.final) if late else file.final.rpartition("/")[0]
    return partition_in(folder), int(file.rows), int(file.size_bytes), file.crc32c
