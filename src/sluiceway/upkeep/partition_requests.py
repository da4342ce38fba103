"""Requests of `compact`, `backfill` and `partitions forget` to the driver, and its answers.

Mail, never truth, as all requests: what was done stands in the ledger, and asking for it again
finds it done.
"""

import hashlib
from dataclasses import dataclass, replace
from enum import StrEnum

from sluiceway.ledger.partition_records import SwapCounts
from sluiceway.types.strict_json import BigInt, encode
from sluiceway.worker.plan import TaskFailure

COMPACT = "compact"


def request_id(asked: object) -> str:
    """What a request is known by: a hash of what it asks for, without who asks and why."""
    return hashlib.sha256(encode(asked)).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class CompactRequest:
    """Partitions whose files are to be merged.

    Attributes:
        version: Version of the request's form.
        ledger: Uuid of the ledger that the partitions are of.
        kind: `compact`.
        operator: `user@host`.
        partitions: Names, or folders above some; empty for all that are closed.
    """

    version: int
    ledger: str
    kind: str
    operator: str
    partitions: tuple[str, ...]

    @property
    def id(self) -> str:
        """The same for the same partitions, whoever asks."""
        return request_id(replace(self, operator=""))


class CompactionOutcome(StrEnum):
    """What became of a partition."""

    COMPACTED = "compacted"
    LEFT = "left"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PartitionDone:
    """A partition of a request that was handled.

    Attributes:
        outcome: A `CompactionOutcome`.
        reason: Why it was left as it is, or failed.
        wall_ms: Time in which its files were rewritten.
        cpu_ms: CPU time of the process that did it.
    """

    partition: str
    outcome: str
    reason: str
    files_before: int
    files_after: int
    bytes_before: BigInt
    bytes_after: BigInt
    wall_ms: int
    cpu_ms: int


@dataclass(frozen=True, slots=True)
class CompactAnswer:
    """How far a request is.

    Attributes:
        finished: Whether nothing more will be done.
        partitions: Partitions in the order in which they were handled.
        waiting: How many are still to be handled.
    """

    finished: bool
    partitions: tuple[PartitionDone, ...]
    waiting: int


BACKFILL = "backfill"


class RowOrigin(StrEnum):
    """What a backfill reads."""

    LEDGER = "ledger"
    FILES = "files"
    TABLE = "table"
    INPUTS = "inputs"
    OFFSETS = "offsets"


@dataclass(frozen=True, slots=True)
class BackfillRequest:
    """Rows of a prefix that are to be replaced by rows that are read again.

    Attributes:
        version: Version of the request's form.
        ledger: Uuid of the ledger that the prefix is of.
        kind: `backfill`.
        operator: `user@host`.
        reason: In the operator's words.
        prefix: Folder, `dt=20261120/hr=08`.
        origin: A `RowOrigin`. `ledger`: what made the prefix, from the queue. `files`: what `names`
            lists. `table`: what the table of the one name has. `inputs`: what the table that the
            route reads has of what was read of it. `offsets`: what the prefix has, and what the
            queue has of it from before the offsets at which the route began.
        names: Files to read, absolute, or the table; else none.
        accept_rows: Number of rows that the prefix may have afterwards, without the rows that come
            meanwhile; -1 for as many as before.
    """

    version: int
    ledger: str
    kind: str
    operator: str
    reason: str
    prefix: str
    origin: str
    names: tuple[str, ...]
    accept_rows: BigInt

    @property
    def id(self) -> str:
        """The same for the same work, whoever asks."""
        return request_id(replace(self, operator="", reason=""))


@dataclass(frozen=True, slots=True)
class BackfillAnswer:
    """What became of a request.

    Attributes:
        finished: Whether nothing more will be done.
        slot: Slot of the SWAP; -1 without one.
        rows_before: Rows of the prefix before.
        rows_after: Rows afterwards, with the rows that came meanwhile.
        counts: Where the rows went that were read.
        dirty_reasons: Dirty rows by reason.
        failure: Why nothing was changed; None when it was.
    """

    finished: bool
    slot: int
    rows_before: BigInt
    rows_after: BigInt
    counts: SwapCounts
    dirty_reasons: dict[str, int]
    failure: TaskFailure | None


FORGET = "forget"
MOST_FORGOTTEN = 1_000


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A partition to let go of, as it was at the decision.

    Attributes:
        version: How often it had moved. Letting go of it raises this, so that asking twice never
            lets go of rows that have come in between.
    """

    partition: str
    version: int


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """Partitions that their owner gives up.

    Attributes:
        version: Version of the request's form.
        ledger: Uuid of the ledger that the partitions are of.
        kind: `forget`.
        operator: `user@host`.
        reason: In the operator's words.
        drop: Whether the driver removes their files, after the readers' grace.
    """

    version: int
    ledger: str
    kind: str
    operator: str
    reason: str
    drop: bool
    partitions: tuple[Forgotten, ...]

    @property
    def id(self) -> str:
        """The same for the same partitions, whoever asks."""
        return request_id(replace(self, operator="", reason=""))


UpkeepRequest = CompactRequest | BackfillRequest | ForgetRequest
"""What is asked about partitions."""
