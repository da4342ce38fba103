"""Holds the decoders of formats with schemas against the oracle, cell by cell."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count
from typing import Any

import pyarrow as pa

from sluiceway.formats.contract import Decoded, RowDecoder
from sluiceway.types.matrix import CellOutcome
from sluiceway.types.schema import Schema
from sluiceway.types.typed_matrix import FormatCell
from tools.fetched_payloads import joined

from .change_logs import FETCHED, PATHS
from .columns import column_of, variants
from .judge import Verdict, _judge_files, differences, schema_of
from .model import ABSENT, Column
from .rules import Rule, column_rule, holds_bad_text, takes_bad_text
from .typed_model import typed_outcome
from .vectors import Vectors

Cells = dict[tuple[str, str, str], FormatCell]

_TURNS = count()


@dataclass(frozen=True, slots=True)
class Sample:
    """A payload under test.

    Attributes:
        kind: Of the value in it.
        value: As the oracle has it.
        payload: As a producer writes it.
    """

    kind: StrEnum
    value: Any
    payload: bytes


@dataclass(frozen=True, slots=True)
class TypedFormat:
    """A format to judge.

    Attributes:
        name: For the report and the cells.
        matrix: The product's; empty for a format that has the one of JSON.
        open: A decoder for columns and a path of `PATHS`; called after `samples`.
        samples: Column, values, how many of each kind, share of odd ones -> payloads.
        inside: Steps before a value's path in JSON; empty for other formats.
    """

    name: str
    matrix: Sequence[FormatCell]
    open: Callable[[Schema, str], RowDecoder]
    samples: Callable[[Column, Vectors, int, float], list[Sample]]
    inside: str = ""

    @property
    def cells(self) -> Cells:
        """The matrix by source, target and variant."""
        return {
            (cell.source.value, cell.target.value, cell.variant.label): cell for cell in self.matrix
        }


def run_typed_round(of: TypedFormat, number: int, each: int, kinds: Sequence[str] = ()) -> Verdict:
    """Judge some values of each kind in columns of each type; see `typed_judged`."""
    total = Verdict()
    for verdict in typed_judged(of, number, each, kinds):
        total.add(verdict)
    return total


def typed_judged(
    of: TypedFormat, number: int, each: int, kinds: Sequence[str] = ()
) -> Iterator[Verdict]:
    """A round, column by column: who looks for one silent change may stop at it.

    Args:
        of: The format.
        number: The seed.
        each: Values of a kind.
        kinds: Names of column types to judge alone; none means all.
    """
    made = Vectors(number)
    cells = of.cells
    for place, (kind, variant) in enumerate(variants()):
        if kinds and kind.value not in kinds:
            continue
        column = column_of(kind, variant, made.random)
        if not of.inside:
            column = _column(column, variant.policy.format)
        if "timezone" in column.policy and made.random.random() < 0.5:
            # The native module reads local times of this zone alone.
            column = replace(column, policy={**column.policy, "timezone": "UTC"})
        for oddness in (0.05, 0.6):
            samples = of.samples(column, made, each, oddness)
            files = (place + number) % 8 == 0
            yield _judge(of, cells, column, samples, files=files)


def _column(column: Column, wanted: str | None) -> Column:
    """JSON has no bytes, so its oracle gives every binary column a format; here none is needed."""
    if column.hive != "binary" or wanted is not None:
        return column
    return replace(column, policy={k: v for k, v in column.policy.items() if k != "format"})


def _judge(
    of: TypedFormat, cells: Cells, column: Column, samples: list[Sample], *, files: bool
) -> Verdict:
    verdict = Verdict(values=len(samples))
    rule = column_rule(column) if column.hive != "binary" else _binary_rule(column)
    expected = [_expected(of, rule, column, sample) for sample in samples]
    for sample, (_, reason, _) in zip(samples, expected, strict=True):
        _judge_cell(of, cells, column, sample, reason, verdict)
    path = PATHS[next(_TURNS) % len(PATHS)]
    decoder = of.open(schema_of(column), path)
    payloads = [sample.payload for sample in samples]
    decoded = _decode_fetched(decoder, payloads) if path == FETCHED else decoder.decode(payloads)
    dirty = {row.index: row for row in decoded.dirty}
    for index, (value, reason, path) in enumerate(expected):
        row, sample = dirty.get(index), samples[index]
        shown = f"{of.name} {path} {column} {sample.kind} {sample.value!r:.200}"
        if (row is not None) != bool(reason):
            came = f"{row.reason}: {row.message}" if row else "a row"
            verdict.silent(f"{shown}: expected {reason or repr(value)[:80]}, got {came}")
        elif row is not None and (row.reason.value, row.path) != (reason, path):
            verdict.reason(f"{shown}: {row.reason} at {row.path}, expected {reason} at {path}")
    wanted = pa.array([value for value, reason, _ in expected if not reason], rule.arrow)
    if len(decoded.rows) == len(wanted):
        for place in differences(decoded.rows.column(0), wanted):
            sample = samples[decoded.indices[place].as_py()]
            came = f"{decoded.rows.column(0)[place]} for {wanted[place]}"
            verdict.silent(f"{of.name} {path} {column} {sample.kind} {sample.value!r:.200}: {came}")
    if files and decoded.rows.num_rows:
        _judge_files(decoded.rows, wanted, column, verdict, duck=False)
    return verdict


def _decode_fetched(decoder: RowDecoder, payloads: Sequence[bytes]) -> Decoded:
    """Decode payloads one by one where they were fetched to: each has a schema of its own."""
    found = [decoder.decode(joined([payload])) for payload in payloads]
    return Decoded(
        pa.concat_batches([one.rows for one in found]),
        pa.array([at for at, one in enumerate(found) for _ in range(len(one.rows))], pa.int64()),
        tuple(replace(row, index=at) for at, one in enumerate(found) for row in one.dirty),
        sum(one.skipped for one in found),
    )


def _binary_rule(column: Column) -> Rule:
    return column_rule(column) if "format" in column.policy else Rule(pa.binary(), lambda _: None)


def _expected(of: TypedFormat, rule: Rule, column: Column, sample: Sample) -> tuple[Any, str, str]:
    if sample.value is None or sample.value is ABSENT:
        reason = "missing" if sample.value is ABSENT else "null"
        found = (None, reason, "v") if column.required else (None, "", "")
    elif of.inside and not takes_bad_text(column) and holds_bad_text(sample.value):
        return None, "encoding", ""
    else:
        found = typed_outcome(rule, column, sample.value)
    value, reason, path = found
    return value, reason, f"{of.inside}.{path}" if of.inside and path else path


def _judge_cell(
    of: TypedFormat, cells: Cells, column: Column, sample: Sample, reason: str, verdict: Verdict
) -> None:
    if not cells:
        return
    target = column.hive.partition("(")[0].partition("<")[0]
    key = (sample.kind.value, target, column.label)
    key = key if key in cells else (sample.kind.value, target, "")
    cell = cells[key]
    verdict.cells.add((f"{of.name} {key[0]}", key[1], key[2]))
    fits = not reason or reason in cell.reasons or (reason == "null" and column.required)
    if cell.outcome is CellOutcome.NEVER:
        fits = reason == "wrong_type"
    if cell.outcome is CellOutcome.EXACT and reason not in ("", "null", "missing"):
        fits = False
    if not (fits or cell.inner):
        verdict.reason(f"matrix: {reason!r} for {sample} in {column} is not in {cell}")


def typed_left_out(formats: Sequence[TypedFormat], verdict: Verdict) -> list[str]:
    """Cells of some formats that nothing fell into."""
    wanted = {(f"{of.name} {source}", *rest) for of in formats for source, *rest in of.cells}
    missing = wanted - verdict.cells
    return sorted(f"{source} -> {target} {label}".strip() for source, target, label in missing)
