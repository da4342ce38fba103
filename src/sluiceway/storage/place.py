"""Whether a table's folder may be made where it is to lie."""

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.storage.contract import Storage


def refuse_missing_parent(storage: Storage, folder: str, *, create: bool) -> None:
    """Refuse a folder whose parent is not there. Called before anything is made in it.

    A disk that is not mounted looks like an empty path: the table would grow on the root disk.

    Args:
        storage: Of the folder.
        folder: Root of a table.
        create: Whether the job file wants missing parents to be made.

    Raises:
        UnhealthyEnvironmentError: The folder above does not exist.
        StorageUnavailableError: The store failed.
    """
    missing = storage.missing_parent(folder)
    if missing is not None and not create:
        raise UnhealthyEnvironmentError(
            f"the folder {missing} does not exist, so the table's folder is not made in it",
            where=folder,
            hint="mount its disk, or correct the location; `table.hive.create_location: true` in "
            "the job file makes all folders that are missing",
        )
