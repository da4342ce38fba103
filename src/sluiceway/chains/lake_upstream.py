"""How an Iceberg table is reached that a route reads, as options of a source."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from sluiceway.chains.options import HALT, IGNORE
from sluiceway.sinks.lake_options import catalog_place
from sluiceway.sources.contract import TABLE_TOPIC

LAKE_SOURCE = "lake_table"
"""Kind of the source."""

METADATA, FILE_ACCESS = "metadata", "file_access"
"""Options that only readers get, so that no task asks a catalog."""

PLACE = "place"
"""Option with the address of the catalog, without a login."""

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class LakeUpstream:
    """An Iceberg table to read.

    Attributes:
        name: `database.table`, in whatever letter case.
        catalog: Settings of its catalog; may hold secrets.
        columns: Names of what is read, in lower case; none reads all.
        metadata: Its metadata file; empty where the catalog has to be asked.
        file_access: Settings by which the client reads files of the table; may hold secrets.
        start_ms: A new route begins with the rows that were committed then or later, milliseconds
            since 1970; -1 with the rows of now.
        on_correction: What becomes of snapshots that remove or replace rows: `ignore` passes over
            them, all else halts.
    """

    name: str
    catalog: Pairs
    columns: tuple[str, ...] = ()
    metadata: str = ""
    file_access: Pairs = ()
    start_ms: int = -1
    on_correction: str = HALT

    def __repr__(self) -> str:
        return f"LakeUpstream({self.name!r}, <{len(self.catalog)} settings>)"

    @property
    def topic(self) -> str:
        """What stands for a topic."""
        return f"{TABLE_TOPIC}{self.name.lower()}"

    @property
    def passes_over(self) -> bool:
        """Whether snapshots that remove or replace rows are passed over."""
        return self.on_correction == IGNORE

    def texts(self) -> Pairs:
        """The same as options of a source."""
        return (
            ("catalog", json.dumps(dict(self.catalog))),
            ("columns", json.dumps(self.columns)),
            *((("on_correction", self.on_correction),) if self.passes_over else ()),
            (PLACE, catalog_place(dict(self.catalog))),
            *((("start_ms", str(self.start_ms)),) if self.start_ms >= 0 else ()),
            ("table", self.name),
        )

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> "LakeUpstream":
        """What `texts` has made."""
        return cls(
            name=texts["table"],
            catalog=_pairs(texts["catalog"]),
            columns=tuple(json.loads(texts["columns"])),
            metadata=texts.get(METADATA, ""),
            file_access=_pairs(texts.get(FILE_ACCESS, "{}")),
            start_ms=int(texts.get("start_ms", -1)),
            on_correction=texts.get("on_correction", HALT),
        )


def _pairs(text: str) -> Pairs:
    return tuple(sorted(json.loads(text).items()))
