"""Which failures of a metastore mean that a location cannot be written, and are no outage."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sluiceway.catalog.connection import ServerFailure
from sluiceway.errors import MetastoreUnavailableError, UnhealthyEnvironmentError

# Its own words and those of the file systems below it. A full disk or a name node that is away
# have others, and are waited for.
_REFUSALS = re.compile(
    r"permission denied|access ?control ?exception|read-only file ?system|not a directory"
    r"|parentnotdirectory|filealreadyexists|java\.io\.filenotfoundexception"
    r"|mkdirs failed|unable to create (one|database path)",
    re.IGNORECASE,
)


@contextmanager
def location_refusals(what: str, location: str) -> Iterator[None]:
    """Tell a location that the metastore cannot make from a metastore that fails.

    Args:
        what: What is created there, for the message.
        location: Where; empty for the metastore's own default.

    Raises:
        UnhealthyEnvironmentError: The metastore says that the location cannot be written.
    """
    try:
        yield
    except MetastoreUnavailableError as error:
        cause = error.__cause__
        said = cause.message or "" if isinstance(cause, ServerFailure) else ""
        if not _REFUSALS.search(said):
            raise
        raise UnhealthyEnvironmentError(
            f"the metastore cannot make the folder of {what}: {said}",
            where=location or "the metastore's warehouse",
            hint="give its user the right to write there, or set another `location`",
        ) from error
