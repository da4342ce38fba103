"""Which storage serves a location."""

from sluiceway.storage.contract import Storage
from sluiceway.storage.local import LocalStorage, local_path


def open_storage(location: str) -> tuple[Storage, str]:
    """Storage for a table's location, and the location as that storage names it.

    Called once per driver, task or tool.

    Args:
        location: Path or URI as the metastore holds it.

    Raises:
        UnhealthyEnvironmentError: No storage of this version serves the scheme.
    """
    return LocalStorage(), str(local_path(location))
