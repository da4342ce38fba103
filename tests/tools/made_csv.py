"""Layouts of lines, columns for them, and lines, sound and odd, from a seed."""

import random

from sluiceway.formats.csv.decoder import CsvDecoder
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.policy import Policy
from sluiceway.types.schema import Field, Schema

_KINDS = (
    *("string", "string", "bigint", "int", "tinyint", "double", "float", "decimal(9,2)", "date"),
    *("timestamp", "boolean", "varchar(3)", "char(3)"),
)
_DELIMITERS = (",", ",", ",", "\\t", "|", "||", "\\u0001", "é", "a")
_POLICIES = (
    *(Policy(), Policy(), Policy(), Policy(trim=True), Policy(on_bad_text="replace")),
    *(Policy(on_overflow="clamp", on_lossy="truncate"), Policy(non_finite="keep")),
)
_SOUND = {
    "string": ("x", "北京", "a b"),
    "date": ("2026-11-20",),
    "timestamp": ("2026-11-20T08:00:00Z", "2026-11-20 08:00:00.5+08:00"),
    "boolean": ("true", "false"),
    "varchar(3)": ("abc", "é"),
    "char(3)": ("ab", "abc"),
}
_NUMBERS = ("7", "-3", "100", "12")
_ODD = (
    *("", " 7", "12.5", "1e3", "+7", "007", "NaN", "9" * 30, "2026-02-30", "abcdef", "ab ", "\\N"),
    *("\0", "\udcff", "true ", "0.125", "300", "\\", "\\t", "\r", "\n", "\ufeff", "''", "'"),
)


class MadeCsv:
    """A layout, and columns for its fields.

    Args:
        pick: The seed.
    """

    def __init__(self, pick: random.Random) -> None:
        self._pick = pick
        self._delimiter = pick.choice(_DELIMITERS)
        self._mark = {"\\t": "\t", "\\u0001": "\1"}.get(self._delimiter, self._delimiter)
        self._quote = pick.choice(('"', '"', '"', "'", "none", "«"))
        self._kinds = [pick.choice(_KINDS) for _ in range(pick.randrange(1, 7))]
        self._options = {
            "delimiter": self._delimiter,
            "quote": self._quote,
            "escape": pick.choice(("doubled", "doubled", "\\")),
            "null_text": pick.choice(("", "", "\\N", "null")),
            "missing": pick.choice(("dirty", "null")),
            "unknown_fields": pick.choice(("dirty", "ignore")),
        }
        names = [f"c{n}" for n in range(len(self._kinds))]
        if pick.random() < 0.3:
            self._options["fields"] = ",".join(names)
        kept = [n for n in names if pick.random() < 0.8] if "fields" in self._options else names
        pick.shuffle(kept) if "fields" in self._options else None
        fields = [self._field(name) for name in kept or names]
        self.columns = Schema(tuple(fields))

    def decoder(self, path: str) -> CsvDecoder:
        """The decoder of its lines by a path: `native`, `library` or `exact`."""
        return CsvDecoder(
            self.columns, self._options, exact_only=path == "exact", native=path == "native"
        )

    def payload(self, oddness: float = 0.1) -> bytes:
        """A line; `oddness` is the share of odd fields."""
        pick = self._pick
        texts = [self._text(kind, oddness) for kind in self._kinds]
        if pick.random() < oddness * 0.3:
            texts = pick.choice((texts[:-1], [*texts, "x"], []))
        line = self._mark.join(texts) + pick.choice(("", "", "\n", "\r\n"))
        return line.encode("utf-8", "surrogateescape")

    def _field(self, name: str) -> Field:
        pick = self._pick
        kind = self._kinds[int(name[1:])]
        unit = pick.choice((None, "ms")) if kind == "timestamp" else None
        policy = pick.choice(_POLICIES)
        return Field(name, parse_hive_type(kind), pick.random() < 0.2, (), unit, policy)

    def _text(self, kind: str, oddness: float) -> str:
        pick = self._pick
        odd = pick.random() < oddness
        text = pick.choice(_ODD if odd else _SOUND.get(kind, _NUMBERS))
        if self._quote != "none" and pick.random() < 0.2:
            quote = self._quote
            inner = pick.choice(("", self._mark, "\r\n", quote * 2)) if odd else ""
            return f"{quote}{text}{inner}{quote if pick.random() > oddness * 0.2 else ''}"
        return text
