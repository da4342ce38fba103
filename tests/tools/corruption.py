"""One kind of damage to a table, as data, and who must see it."""

from dataclasses import dataclass

from tools.plants import Plant


@dataclass(frozen=True, slots=True)
class Corruption:
    """One kind of damage.

    Attributes:
        plant: Does it.
        deep: Kind of problem that `sluiceway verify --deep` names. Empty: it cannot see it; None:
            it may or may not, a file's size differs by chance.
        quick: The same without `--deep`.
        reader: Fault that the independent reader counts, `ledger` by its view of the log.
        why: Why one of them does not see it.
    """

    name: str
    plant: Plant
    deep: str | None
    quick: str | None
    reader: str
    why: str = ""


READS_NO_CONTENT = "without --deep only sizes and row counts are compared"
FORGED = "files and ledger agree with each other; only the broker knows better"
ROWS_ARE_RIGHT = "every row is where it belongs"
