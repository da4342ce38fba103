"""Columns that sampled records propose, and the decisions that a person has to make."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sluiceway.errors import WrongUsageError
from sluiceway.types.key_path import path_text

if TYPE_CHECKING:
    from sluiceway.cli.views.proposal_trial import Trial
    from sluiceway.formats.json.survey import JsonSurvey, ProposedColumn
    from sluiceway.formats.recognise import TopicContents


_YAML_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def column_line(
    name: str,
    type_text: str,
    notes: Sequence[str],
    settings: Sequence[str] = (),
    *,
    as_text: bool = False,
) -> str:
    """A line of a `columns` block; a comment when there is no type.

    Args:
        name: Name of the column.
        type_text: Hive's type text; empty for none.
        notes: Text of the comment at the line's end.
        settings: Further keys of the column, such as `unit: ms`.
        as_text: Values of any kind are kept as text.
    """
    from sluiceway.types.dirty import shown  # noqa: PLC0415 - keeps `--help` quick

    comment = f" {as_comment('; '.join(notes))}" if notes else ""
    if not type_text:
        return f"  # - {{name: {shown(name, 100)}}}{comment}"
    more = "".join(f", {each}" for each in (*settings, *(["on_lossy: text"] * as_text)))
    kind = f'"{type_text}"' if set(type_text) & set("(<,") else type_text
    quoted = f'"{name}"' if name.lower() in _YAML_WORDS else name
    return f"  - {{name: {quoted}, type: {kind}{more}}}{comment}"


def as_comment(text: str) -> str:
    """A comment of YAML. Keys of records may be in it, so what would end its line is escaped."""
    from sluiceway.cli.views.tables import printable  # noqa: PLC0415 - keeps `--help` quick

    return f"# {printable(text)}"


def columns_text(heading: Sequence[str], lines: Sequence[str]) -> str:
    """The block as text.

    Args:
        heading: Comments above the block.
        lines: Lines of the columns; where all are comments, so is the key above them.
    """
    key = "columns:" if any(line.startswith("  - ") for line in lines) else "# columns:"
    return "\n".join([*map(as_comment, heading), key, *lines]) + "\n"


_MOST_NAMED = 3
_WHAT_HAPPENED = {
    "debezium": (
        ("op", "  - {name: op, type: string, path: $.op}"),
        ("changed_at", "  - {name: changed_at, type: timestamp, unit: ms, path: $.source.ts_ms}"),
    ),
    "maxwell": (
        ("op", "  - {name: op, type: string, path: $.type}"),
        ("changed_at", "  - {name: changed_at, type: timestamp, unit: s, path: $.ts}"),
    ),
    "canal": (),
}
"""Columns for kind and time of a change: name -> line."""
READS = "infer reads JSON, and the schemas of Avro, Protobuf and JSON"
CHANGE_LOGS = tuple(_WHAT_HAPPENED)
"""Formats that are read without a schema, other than JSON."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Columns and format that a topic proposes.

    Attributes:
        format_options: The format, such as `json: {registry: REGISTRY}`; empty for plain JSON.
        heading: What was read, and doubts about it.
        before: Lines of columns that the format adds.
        columns: Columns of the payloads.
        rows: How many rows were read for them.
        payloads: The records, to try the columns on.
    """

    format_options: str
    heading: tuple[str, ...]
    before: tuple[str, ...]
    columns: "tuple[ProposedColumn, ...]"
    rows: int
    payloads: "Sequence[bytes | None]" = ()

    def trials(self, lines: Sequence[str]) -> "Mapping[str, Trial]":
        """The outcome of trying a `columns` block's lines on the records."""
        from sluiceway.cli.views.proposal_trial import tried  # noqa: PLC0415 - loads Arrow

        # A registry's header is removed already.
        form = self.format_options.partition(": {registry")[0] or "json"
        form = form if form.endswith("}") else f"{form}: {{}}"
        return tried(form, lines, self.payloads)

    def noted(self, lines: Sequence[str]) -> list[str]:
        """These lines, each with what it makes dirty, unless it already says so."""
        from sluiceway.cli.views.proposal_trial import with_trials  # noqa: PLC0415 - loads Arrow

        return list(with_trials(lines, self.trials(lines)))

    def lines(self) -> list[str]:
        """The items of a `columns` block."""
        return self.noted(
            [*self.before, *(proposed_line(each, self.rows) for each in self.columns)]
        )


def contents_block(contents: "TopicContents", topics: Sequence[str]) -> str:
    """The block as text: the format unless it is plain JSON, one line per column, doubts.

    Raises:
        WrongUsageError: As `propose`.
    """
    found = propose(contents, topics)
    form = f"format: {{{found.format_options}}}\n" if found.format_options else ""
    return form + columns_text(found.heading, found.lines())


def propose(contents: "TopicContents", topics: Sequence[str]) -> Proposal:
    """The proposal of a topic's records.

    Raises:
        WrongUsageError: There are no records, or they show no columns.
    """
    survey, named = contents.plain, _named(topics)
    if not contents.records:
        raise WrongUsageError(
            f"{named} is empty: there is no record to look at",
            hint="write some and repeat it; or take the columns from a schema: --registry URL",
        )
    if contents.is_binary:
        raise _binary(contents, topics)
    if not survey.rows:
        raise WrongUsageError(
            f"no record holds a JSON object: {survey.empty} empty, {survey.broken} other",
            hint=f"{READS}; CSV and other text have no names: write the job file by hand, with "
            "`format: {csv: {}}` and your columns, see docs/guides/sources.md",
        )
    if contents.change_log is not None:
        return _that_works(_changes(contents, named, contents.change_log))
    heading = [f"{survey.rows:,} JSON objects of {named}", *_survey_doubts(survey)]
    options = ""
    if contents.framed:
        heading.append(f"{_framed(contents)}; REGISTRY is the connection of the registry")
        options = "json: {registry: REGISTRY}"
    columns = tuple(survey.columns())
    return _that_works(Proposal(options, tuple(heading), (), columns, survey.rows, contents.kept))


def _that_works(found: Proposal) -> Proposal:
    """The proposal, with text for types that records do not fit, and all that stays dirty noted.

    A type that only a few records do not fit stays; its line says how many.
    """
    lines = [proposed_line(column, found.rows) for column in found.columns]
    trials = found.trials(lines)
    heading = found.heading
    if "" in trials and found.format_options:
        heading = (*heading, trials[""].doubt)
    columns = tuple(_or_text(found, column, trials.get(column.name)) for column in found.columns)
    return replace(found, heading=heading, columns=columns)


def _or_text(found: Proposal, column: "ProposedColumn", trial: "Trial | None") -> "ProposedColumn":
    """The column, or a text column where too many records do not fit it and all fit text."""
    from sluiceway.formats.json.survey import WINS  # noqa: PLC0415 - keeps `--help` quick

    few = trial is None or trial.dirty * 100 <= (100 - WINS) * trial.rows
    if trial is None or few or column.as_text:
        return column
    doubts = (f"kept as text: as {column.type} {trial.text}",)
    text = replace(column, type="string", as_text=True, zoned=False, times=(), doubts=doubts)
    return column if found.trials([proposed_line(text, found.rows)]).get(column.name) else text


def _named(topics: Sequence[str]) -> str:
    return ", ".join(topics[:_MOST_NAMED]) + (", ..." if len(topics) > _MOST_NAMED else "")


def _survey_doubts(survey: "JsonSurvey") -> list[str]:
    doubts = []
    if survey.empty or survey.broken:
        doubts.append(f"DOUBT: {survey.empty:,} records were empty, {survey.broken:,} no object")
    if survey.keys_are_data:
        doubts.append("DOUBT: more keys than are shown here; are they data?")
    return doubts


def _framed(contents: "TopicContents") -> str:
    ids = sorted(contents.schema_ids)
    shown = ", ".join(map(str, ids[:_MOST_NAMED])) + (", ..." if len(ids) > _MOST_NAMED else "")
    word = f"{'schema' if len(ids) == 1 else 'schemas'} {shown}" if ids else "by GUIDs in headers"
    return f"{contents.framed:,} of {contents.records:,} in Confluent's wire format, {word}"


def _binary(contents: "TopicContents", topics: Sequence[str]) -> WrongUsageError:
    return WrongUsageError(
        f"these are Avro or Protobuf, whose columns only a schema has: {_framed(contents)}",
        hint=f"`sluiceway infer {topics[0]}-value --registry URL` proposes their columns; the job "
        "file reads them by `format: {avro: {registry: REGISTRY}}`, or `protobuf`",
    )


def _changes(contents: "TopicContents", named: str, kind: str) -> Proposal:
    """The block of a change log: the change, then the changed row."""
    kinds = contents.changes[kind]
    told = ", ".join(f"{marker} {count:,}" for marker, count in sorted(kinds.items()))
    heading = [f"{kinds.total():,} changes of {kind} in {named}: {told}"]
    others = contents.plain.rows - kinds.total()
    if others:
        heading.append(
            f"DOUBT: {others:,} messages are no such change; "
            "`other_messages: skip` leaves known kinds out"
        )
    if contents.plain.broken:
        heading.append(f"DOUBT: {contents.plain.broken:,} records were no object")
    if kind == "debezium" and not contents.with_schema:
        heading.append(
            "DOUBT: no schema comes with them: decimals may be base64 here, times and dates numbers"
        )
    if kind == "canal":
        columns, rows = contents.plain.columns(), contents.plain.rows
    else:
        columns = contents.row_columns()
        rows = contents.rows[kind].rows if columns else 0
    taken = {column.name.lower() for column in columns}
    before = [line for name, line in _WHAT_HAPPENED[kind] if name not in taken]
    return Proposal(
        f"{kind}: {{}}", tuple(heading), tuple(before), tuple(columns), rows, contents.kept
    )


def proposed_line(column: "ProposedColumn", rows: int) -> str:
    """A column as an item of the block, with its doubts.

    Args:
        column: The column that was found.
        rows: How many rows were read.
    """
    notes = []
    if column.rows < rows:
        missing = rows - column.rows - column.nulls
        notes.append(
            f"in {column.rows:,} of {rows:,}, null in {column.nulls:,}, not in {missing:,}"
        )
    notes += [f"DOUBT: {doubt}" for doubt in column.doubts]
    settings = column_settings(column)
    return column_line(column.name, column.type, notes, settings, as_text=column.as_text)


def column_settings(column: "ProposedColumn") -> list[str]:
    """The settings that a column needs to read the records, without name and type."""
    settings = [f"path: {quoted(path_text([column.key]))}"] if column.key else []
    return settings + (["timezone: UTC"] if column.zoned else [])


def quoted(text: str) -> str:
    """A text of any kind as YAML."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
