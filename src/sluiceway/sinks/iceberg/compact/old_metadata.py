"""Metadata files that fell off a table's own log of them.

The clients of some catalogs leave them for ever, whatever the table's properties say.
"""

from pyiceberg.table import Table

from sluiceway.observe.log import Log

_ENABLED = "write.metadata.delete-after-commit.enabled"


def remove_old_metadata(before: Table, after: Table, log: Log) -> None:
    """Remove what the newer metadata does not list any more. Called after a publish was seen.

    Where the catalog has done so already nothing is there; what stays is an orphan, never an
    error.
    """
    if after.metadata.properties.get(_ENABLED, "false").lower() != "true":
        return
    listed = {entry.metadata_file for entry in after.metadata.metadata_log}
    listed.add(after.metadata_location)
    known = [entry.metadata_file for entry in before.metadata.metadata_log]
    for location in known:
        if location in listed:
            continue
        try:
            after.io.delete(location)
        except Exception as error:  # noqa: BLE001 - any store's error: an orphan stays
            log.info("garbage_left", path=location, error=str(error))
