"""How a store is reached, as values that travel from the driver to its tasks."""

from dataclasses import dataclass

LOCAL = "file"
S3 = "s3"
HDFS = "hdfs"

_KINDS = {
    "file": LOCAL,
    "s3": S3,
    "s3a": S3,
    "s3n": S3,
    "oss": S3,
    "hdfs": HDFS,
    "viewfs": HDFS,
}


def store_kind(scheme: str) -> str:
    """The kind of store that serves a location's scheme; of a plug-in it is the scheme itself."""
    return _KINDS.get(scheme, scheme)


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """How a driver or a task reaches the stores of one kind.

    Attributes:
        kind: `s3`, `hdfs`, or the scheme of a plug-in.
        options: Names and values as text, in order. May hold secrets: never logged.
    """

    kind: str
    options: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"StoreAccess({self.kind!r}, <{len(self.options)} options>)"


@dataclass(frozen=True, slots=True)
class Stores:
    """What a route knows of stores; the scheme of a location says which one it means.

    Attributes:
        accesses: Accesses, at most one a kind. A kind without one is reached by what the
            environment says.
        unclear: Kinds of which the job file has several connections, and names none for the route.
    """

    accesses: tuple[StoreAccess, ...] = ()
    unclear: tuple[str, ...] = ()

    def access(self, kind: str) -> StoreAccess:
        """How stores of a kind are reached."""
        found = (access for access in self.accesses if access.kind == kind)
        return next(found, StoreAccess(kind))


NO_STORES = Stores()
"""Every store is reached as the environment says."""
