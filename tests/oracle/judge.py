"""Holds the decoder, the writer and readers of files against the oracle."""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from sluiceway.formats.contract import Decoded
from sluiceway.formats.csv.decoder import CsvDecoder
from sluiceway.formats.json.decoder import Engine, JsonDecoder
from sluiceway.host.native_module import native_module
from sluiceway.sinks.files.parquet_file import ParquetStagedFile
from sluiceway.storage.local import LocalStorage
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.matrix import MATRIX, Cell, CellOutcome, ColumnKind, JsonKind
from sluiceway.types.policy import Policy
from sluiceway.types.schema import Field, Schema
from tools.fetched_payloads import joined

from .change_logs import FETCHED, next_change_log
from .model import ABSENT, Column, NonFinite, Num, Obj, field_text, line, payload
from .rules import column_rule, outcome
from .type_text import split_type
from .vectors import Vectors

CELLS: dict[tuple[str, str, str], Cell] = {
    (cell.source.value, cell.target.value, cell.variant.label): cell for cell in MATRIX
}
# The native module is judged where it is installed.
ENGINES: tuple[Engine, ...] = (
    *(("native",) if native_module() else ()),
    "library",
    "exact",
)
# Not a fate of values: there is no such column at all.
NESTED = ("array", "map", "struct")
REFUSED = (JsonKind.STRING.value, ColumnKind.BINARY.value, "")
SHOWN = 5


@dataclass(slots=True)
class Verdict:
    """What was found.

    Attributes:
        values: Values judged.
        silent_changes: Values that became others, or rows where there may be none, or the reverse.
        wrong_reason: Dirty rows with another reason or path than they have to.
        written: Values that were read back from files.
        lines: Values that were judged as fields of delimited text too.
        changes: Values that were judged in messages of a change log too.
        cells: Cells of the matrix that a value fell into.
        examples: The first faults, for people.
    """

    values: int = 0
    silent_changes: int = 0
    wrong_reason: int = 0
    written: int = 0
    lines: int = 0
    changes: int = 0
    cells: set[tuple[str, str, str]] = field(default_factory=set)
    examples: list[str] = field(default_factory=list)

    def silent(self, text: str) -> None:
        """Note a value that changed."""
        self.silent_changes += 1
        self._note(text)

    def reason(self, text: str) -> None:
        """Note a wrong reason."""
        self.wrong_reason += 1
        self._note(text)

    def add(self, other: "Verdict") -> None:
        """Take another's findings."""
        self.values += other.values
        self.silent_changes += other.silent_changes
        self.wrong_reason += other.wrong_reason
        self.written += other.written
        self.lines += other.lines
        self.changes += other.changes
        self.cells |= other.cells
        self.examples += other.examples[: SHOWN - len(self.examples)]

    def _note(self, text: str) -> None:
        if len(self.examples) < SHOWN:
            self.examples.append(text)


def kind_of(value: Any) -> JsonKind:
    """Of which kind a value is."""
    if value is ABSENT or value is None:
        return JsonKind.MISSING if value is ABSENT else JsonKind.NULL
    kinds = {
        bool: JsonKind.BOOLEAN,
        Num: JsonKind.NUMBER,
        NonFinite: JsonKind.NON_FINITE,
        str: JsonKind.STRING,
        list: JsonKind.ARRAY,
        Obj: JsonKind.OBJECT,
    }
    return kinds[type(value)]


def cell_of(value: Any, column: Column) -> Cell:
    """The cell that a value falls into: the variant's own, or that of the plain column."""
    source, target = kind_of(value).value, split_type(column.hive)[0]
    return CELLS.get((source, target, column.label)) or CELLS[source, target, ""]


def schema_of(column: Column) -> Schema:
    """The column as the product has it."""
    kind = parse_hive_type(column.hive)
    policy = Policy(**column.policy)
    return Schema((Field("v", kind, column.required, (), column.unit, policy),))


def judge(column: Column, values: Sequence[Any], made: Vectors, *, files: str = "") -> Verdict:
    """Judge a batch of values of one column.

    Args:
        column: The column.
        values: Of any kind.
        made: Where payloads' spelling comes from.
        files: `""`: no file; `pyarrow`: written and read back; `both`: by DuckDB too.
    """
    verdict = Verdict(values=len(values))
    rule = column_rule(column)
    expected = [outcome(rule, column, value) for value in values]
    _judge_matrix(column, values, expected, verdict)
    payloads = [payload(value, made.random) for value in values]
    schema = schema_of(column)
    wanted = pa.array([value for value, reason, _ in expected if not reason], rule.arrow)
    for engine in ENGINES:
        decoder = JsonDecoder(schema, engine=engine)
        for given in (payloads, joined(payloads)) if engine == "native" else (payloads,):
            decoded = decoder.decode(given)
            _judge_decoded(decoded, expected, wanted, (column, payloads), verdict)
    _judge_change_log(column, payloads, expected, wanted, verdict)
    _judge_lines(column, values, made, verdict)
    if files and decoded.rows.num_rows:
        _judge_files(decoded.rows, wanted, column, verdict, duck=files == "both")
    return verdict


def _judge_matrix(
    column: Column, values: Sequence[Any], expected: Sequence[Any], verdict: Verdict
) -> None:
    """The documentation's table against the oracle; policies that are mixed have no cell."""
    mixed = bool(column.policy or column.unit) and not column.label
    if mixed:
        return
    for value, (_, reason, path) in zip(values, expected, strict=True):
        if reason and not path:
            # Of the payload as a whole.
            continue
        cell = cell_of(value, column)
        if (cell.source.value, cell.target.value, cell.variant.label) == REFUSED:
            continue
        verdict.cells.add((cell.source.value, cell.target.value, cell.variant.label))
        fits = not reason or reason in cell.reasons or (reason == "null" and column.required)
        if cell.outcome is CellOutcome.NEVER:
            fits = reason == "wrong_type"
        if not (fits or cell.inner):
            verdict.reason(f"matrix: {reason!r} for {value!r:.80} is not in {cell}")


def _judge_change_log(
    column: Column,
    payloads: Sequence[bytes],
    expected: Sequence[tuple[Any, str, str]],
    wanted: pa.Array,
    verdict: Verdict,
) -> None:
    """The same rows in messages of a change log; formats and paths take turns."""
    log, path = next_change_log()
    schema = schema_of(column)
    if not log.takes(schema):
        return
    messages = [log.before + payload + log.after for payload in payloads]
    decoder = log.open(schema, path)
    decoded = decoder.decode(joined(messages) if path == FETCHED else messages)
    decoded = replace(decoded, rows=decoded.rows.select([log.column]))
    under = [(value, reason, at and f"{log.path}.{at}") for value, reason, at in expected]
    _judge_decoded(decoded, under, log.wanted(wanted), (column, messages), verdict)
    verdict.changes += len(messages)


def _judge_lines(column: Column, values: Sequence[Any], made: Vectors, verdict: Verdict) -> None:
    """The same values as fields of delimited text, where they are all that a line can hold."""
    if split_type(column.hive)[0] in NESTED:
        return
    texts = [text for value in values if (text := field_text(value)) is not ABSENT]
    rule = column_rule(column)
    expected = [outcome(rule, column, text) for text in texts]
    lines = [line(text, made.random) for text in texts]
    wanted = pa.array([value for value, reason, _ in expected if not reason], rule.arrow)
    for path in ("native", "library", "exact"):
        decoder = CsvDecoder(
            schema_of(column),
            {"tombstones": "dirty"},
            exact_only=path == "exact",
            native=path == "native",
        )
        for given in (lines, joined(lines)) if path == "native" else (lines,):
            _judge_decoded(decoder.decode(given), expected, wanted, (column, lines), verdict)
    verdict.lines += len(lines)


def _judge_decoded(
    decoded: Decoded,
    expected: Sequence[tuple[Any, str, str]],
    wanted: pa.Array,
    shown: tuple[Column, list[bytes]],
    verdict: Verdict,
) -> None:
    column, payloads = shown
    dirty = {row.index: row for row in decoded.dirty}
    for index, (value, reason, path) in enumerate(expected):
        row = dirty.get(index)
        if (row is not None) != bool(reason):
            text = reason or f"{value!r:.80}"
            came = f"{row.reason}: {row.message}" if row else "a row"
            verdict.silent(f"{column} {payloads[index]!r:.200}: expected {text}, got {came}")
        elif row is not None and (row.reason.value, row.path) != (reason, path):
            came = f"{row.reason} at {row.path}, expected {reason} at {path}"
            verdict.reason(f"{column} {payloads[index]!r:.200}: {came}")
    if len(decoded.rows) != len(wanted):
        return
    for place in differences(decoded.rows.column(0), wanted):
        row_number = decoded.indices[place].as_py()
        came = f"{decoded.rows.column(0)[place]} for {wanted[place]}"
        verdict.silent(f"{column} {payloads[row_number]!r:.200}: {came}")


def differences(found: pa.Array, wanted: pa.Array) -> list[int]:
    """Positions at which two arrays differ, to the bit: NaN is NaN, and -0.0 is not 0.0."""
    if found.type != wanted.type:
        return list(range(len(wanted)))
    holds_floats = "float" in str(found.type) or "double" in str(found.type)
    if not holds_floats and found.equals(wanted):
        return []
    pairs = zip(found.to_pylist(), wanted.to_pylist(), strict=True)
    return [place for place, (one, other) in enumerate(pairs) if repr(one) != repr(other)]


def _judge_files(
    rows: pa.RecordBatch, wanted: pa.Array, column: Column, verdict: Verdict, *, duck: bool
) -> None:
    with tempfile.TemporaryDirectory(prefix="oracle-", dir=_memory_folder()) as folder:
        path = str(Path(folder) / "values.parquet")
        file = ParquetStagedFile(LocalStorage().create_staged(path), rows.schema)
        file.write(rows)
        file.close()
        read = pq.read_table(path, coerce_int96_timestamp_unit="us")
        _compare(read.column(0).combine_chunks(), wanted, f"pyarrow: {column}", verdict)
        if duck:
            found = _duck().sql(f"SELECT v FROM '{path}'").to_arrow_table()  # noqa: S608
            _compare(found.column(0).combine_chunks(), wanted, f"duckdb: {column}", verdict)
    verdict.written += len(wanted)


@cache
def _duck() -> Any:
    """One connection a process: to open one takes longer than to read a file."""
    return duckdb.connect(config={"threads": 1})


def _memory_folder() -> str | None:
    # What is judged is the content, and a memory disk is not waited for.
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108


def _compare(found: Any, wanted: pa.Array, reader: str, verdict: Verdict) -> None:
    if isinstance(found, pa.ChunkedArray):
        found = pa.concat_arrays(found.chunks) if found.num_chunks else wanted.slice(0, 0)
    try:
        found = found.cast(wanted.type)
    except pa.ArrowException as error:
        verdict.silent(f"{reader}: {error}")
        return
    if len(found) != len(wanted):
        verdict.silent(f"{reader}: {len(found)} rows in place of {len(wanted)}")
        return
    for place in differences(found, wanted):
        verdict.silent(f"{reader}: {found[place]} for {wanted[place]}")


def judge_refused() -> Verdict:
    """Whether the one cell that no value can fall into is what it says."""
    verdict = Verdict(cells={REFUSED})
    try:
        JsonDecoder(schema_of(Column("binary")))
    except ValueError:
        return verdict
    verdict.silent("a binary column without a format was taken")
    return verdict


def left_out(verdict: Verdict) -> list[str]:
    """Cells that nothing fell into."""
    missing = set(CELLS) - verdict.cells
    return sorted(f"{source} -> {target} {label}".strip() for source, target, label in missing)
