"""What `sluiceway partitions forget` asks a driver for; the ledger says what was done of it."""

import hashlib
from dataclasses import dataclass, replace

from sluiceway.types.strict_json import encode

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
        asked = replace(self, operator="", reason="")
        return hashlib.sha256(encode(asked)).hexdigest()[:32]
