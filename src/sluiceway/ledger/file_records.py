"""Files as records name them."""

from dataclasses import dataclass

from sluiceway.types.strict_json import BigInt


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One committed file.

    Attributes:
        staged: `<attempt folder>/<name>`, relative to stage/.
        final: Relative to the table's folder.
        values: Raw partition values, null for the default partition; none for dirty files.
        bounds: Column -> (least, greatest) as text, for simple types only.
    """

    staged: str
    final: str
    values: tuple[str | None, ...]
    rows: BigInt
    size_bytes: BigInt
    crc32c: str
    bounds: dict[str, tuple[str, ...]]
