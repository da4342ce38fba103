"""The request of a SWAP: the files of its partitions go, its own come, in one snapshot.

Slots are published in order. So all that lies in these partitions was committed before the SWAP,
which has copies of what it does not replace; and what others put there goes too.
"""

from collections.abc import Sequence

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.typedef import Record

from sluiceway.errors import TableMismatchError
from sluiceway.ledger.partition_records import SwapRecord
from sluiceway.sinks.iceberg.commit_request import CommitRequest, SlotBatch
from sluiceway.sinks.iceberg.keyed.upsert_request import TableChange, upsert_request
from sluiceway.sinks.iceberg.partition_fields import find_spec, partition_record
from sluiceway.sinks.lake_options import LakeField

Places = frozenset[tuple[int, Record]]
"""Partitions, each with the id of its spec."""


def replaced_in(swap: SwapRecord, table: Table, fields: Sequence[LakeField]) -> Places:
    """The partitions of a SWAP, under each spec of the table that the route has written with.

    Args:
        swap: The record.
        table: The table as it was loaded.
        fields: Partition fields of the route.
    """
    metadata = table.metadata
    schema, places = metadata.schema(), set[tuple[int, Record]]()
    for spec in metadata.specs().values():
        try:
            find_spec([spec], spec.spec_id, fields, schema)
        except TableMismatchError:
            # No file of this route was ever added under it.
            continue
        places |= {
            (spec.spec_id, partition_record(each.values, fields, spec, schema))
            for each in swap.partitions
        }
    return frozenset(places)


def overwrite_request(
    table: Table, batch: SlotBatch, added: Sequence[DataFile], replaced: Places
) -> CommitRequest:
    """The request that replaces all files of some partitions. Writes the manifests.

    Args:
        table: The table as the catalog has it now.
        batch: The slots.
        added: Files of the new snapshot.
        replaced: Partitions whose files go, of rows and of deletes.
    """
    head = table.metadata.snapshot_by_name(MAIN_BRANCH)
    entries = {
        manifest.manifest_path: manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        for manifest in ([] if head is None else head.manifests(table.io))
    }
    removed = {
        entry.data_file.file_path
        for found in entries.values()
        for entry in found
        if (entry.data_file.spec_id, entry.data_file.partition) in replaced
    }
    return upsert_request(table, batch, TableChange(added, removed=frozenset(removed)), entries)
