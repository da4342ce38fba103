"""Which file format a Hive table has, and how a table of a format is made. Values only, no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass

from sluiceway.catalog.hive_table import (
    PARQUET_INPUT_FORMAT,
    PARQUET_OUTPUT_FORMAT,
    PARQUET_SERDE,
    HiveLayout,
    MetastoreTable,
)
from sluiceway.errors import TableMismatchError
from sluiceway.sinks.files.avro_schema import SCHEMA_LITERAL, SCHEMA_URL, TABLE_NAME
from sluiceway.sinks.files.contract import INT96, TIMESTAMPS, FileChoice, FileFormat
from sluiceway.sinks.files.csv_format import CSV_SETTINGS
from sluiceway.sinks.files.hive_text import ESCAPE_DELIM, TEXT_SETTINGS
from sluiceway.sinks.files.type_check import blank_names, format_problem, name_problem
from sluiceway.sinks.table_options import FOLDER, TableOptions
from sluiceway.types.file_formats import COMPRESSIONS, compression_problem
from sluiceway.types.schema import Schema

_QL = "org.apache.hadoop.hive.ql.io"
_SERDE = "org.apache.hadoop.hive.serde2"
_TEXT_INPUT = "org.apache.hadoop.mapred.TextInputFormat"
_TEXT_OUTPUT = f"{_QL}.HiveIgnoreKeyTextOutputFormat"
_OLD_TEXT_OUTPUT = f"{_QL}.IgnoreKeyTextOutputFormat"
_BY_POSITION = "parquet.column.index.access"


@dataclass(frozen=True, slots=True)
class _Classes:
    """Java classes of a format; the first of several is that of new tables."""

    serdes: tuple[str, ...]
    input_format: str
    output_formats: tuple[str, ...]


_CLASSES: Mapping[FileFormat, _Classes] = {
    FileFormat.PARQUET: _Classes((PARQUET_SERDE,), PARQUET_INPUT_FORMAT, (PARQUET_OUTPUT_FORMAT,)),
    FileFormat.ORC: _Classes(
        (f"{_QL}.orc.OrcSerde",), f"{_QL}.orc.OrcInputFormat", (f"{_QL}.orc.OrcOutputFormat",)
    ),
    FileFormat.TEXT: _Classes(
        (f"{_SERDE}.lazy.LazySimpleSerDe",), _TEXT_INPUT, (_TEXT_OUTPUT, _OLD_TEXT_OUTPUT)
    ),
    FileFormat.JSON: _Classes(
        ("org.apache.hive.hcatalog.data.JsonSerDe", f"{_SERDE}.JsonSerDe"),
        _TEXT_INPUT,
        (_TEXT_OUTPUT, _OLD_TEXT_OUTPUT),
    ),
    FileFormat.CSV: _Classes(
        (f"{_SERDE}.OpenCSVSerde",), _TEXT_INPUT, (_TEXT_OUTPUT, _OLD_TEXT_OUTPUT)
    ),
    FileFormat.AVRO: _Classes(
        (f"{_SERDE}.avro.AvroSerDe",),
        f"{_QL}.avro.AvroContainerInputFormat",
        (f"{_QL}.avro.AvroContainerOutputFormat",),
    ),
}
_COMPRESSION_KEYS = {FileFormat.PARQUET: "parquet.compression", FileFormat.ORC: "orc.compress"}
_ORC_NAMES = {"zlib": "gzip"}
_SETTINGS: Mapping[FileFormat, tuple[str, ...]] = {
    FileFormat.TEXT: TEXT_SETTINGS,
    FileFormat.CSV: CSV_SETTINGS,
    FileFormat.AVRO: (SCHEMA_LITERAL,),
}
_LINES = frozenset({FileFormat.TEXT, FileFormat.JSON, FileFormat.CSV})
_UTF8 = ("", "utf-8", "utf8")


def format_of(layout: HiveLayout) -> FileFormat | None:
    """The format whose classes a layout names; None for any other combination."""
    for file_format, classes in _CLASSES.items():
        if (
            layout.serde in classes.serdes
            and layout.input_format == classes.input_format
            and layout.output_format in classes.output_formats
        ):
            return file_format
    return None


def layout_to_create(
    options: TableOptions, layout: HiveLayout
) -> tuple[HiveLayout, dict[str, str]]:
    """A new table's layout with its format's classes, and the table properties of the format.

    Args:
        options: What the job file says.
        layout: Location and columns.
    """
    file_format = options.file_format or FileFormat.PARQUET
    classes = _CLASSES[file_format]
    compression = options.compression or COMPRESSIONS[file_format][0]
    properties = {}
    if key := _COMPRESSION_KEYS.get(file_format):
        names = {ours: theirs for theirs, ours in _ORC_NAMES.items()}
        stored = names.get(compression, compression) if key == "orc.compress" else compression
        properties[key] = stored.upper()
    settings = {ESCAPE_DELIM: "\\"} if file_format is FileFormat.TEXT else {}
    made = HiveLayout(
        location=layout.location,
        serde=classes.serdes[0],
        input_format=classes.input_format,
        output_format=classes.output_formats[0],
        columns=layout.columns,
        serde_parameters=settings,
    )
    return made, properties


def refused_format(table: MetastoreTable) -> tuple[str, str] | None:
    """Why no rows can be written in a table's format, and what to do; None when they can."""
    layout = table.layout
    file_format = format_of(layout)
    if file_format is None:
        return (
            f"its files are of no format that is written here: SerDe {layout.serde}, input "
            f"format {layout.input_format}, output format {layout.output_format}",
            "this version writes Parquet, ORC, text, JSON, CSV and Avro",
        )
    said = {**table.parameters, **layout.serde_parameters}
    if said.get(_BY_POSITION, "").lower() == "true":
        return f"it has {_BY_POSITION}=true: columns would be found by position", "unset it"
    if file_format is FileFormat.AVRO and said.get(SCHEMA_URL):
        return (
            f"its Avro schema lies at {SCHEMA_URL}",
            f"put the schema itself into the table property {SCHEMA_LITERAL}",
        )
    return _refused_lines(said) if file_format in _LINES else None


def _refused_lines(said: Mapping[str, str]) -> tuple[str, str] | None:
    for key in ("skip.header.line.count", "skip.footer.line.count"):
        if said.get(key, "0") not in ("", "0"):
            return f"it has {key}={said[key]}: readers would skip rows of each file", "unset it"
    if said.get("serialization.encoding", "").lower() not in _UTF8:
        return f"its text is {said['serialization.encoding']}", "only UTF-8 is written"
    if said.get("line.delim", "\n") not in ("\n", "10"):
        return f"its lines end with {said['line.delim']!r}", "only line feeds are written"
    return None


def files_of(
    table: MetastoreTable, options: TableOptions, written: Schema, columns: Schema
) -> FileChoice:
    """How new files of a table are written: by its own properties, else as the job file says.

    Args:
        table: A table that `check_writable` has passed.
        options: What the job file says.
        written: Columns that rows have.
        columns: All columns of the table, in order.

    Raises:
        TableMismatchError: The table is of another format than the job file's, or cannot hold
            its columns; says why.
    """
    file_format = format_of(table.layout) or FileFormat.PARQUET
    where = str(table)
    if options.file_format not in (None, file_format):
        raise TableMismatchError(
            f"its files are {file_format}, the job file says {options.file_format}",
            where=where,
            hint="take table.hive.file_format out of the job file, or name another table",
        )
    choice = FileChoice(
        format=file_format,
        compression=_compression(table, file_format, options),
        columns=columns if has_tables_columns(file_format) else None,
        settings=_settings(table, file_format, options),
    )
    if (name := unreadable_names(options, file_format, choice.columns or written)) is not None:
        raise TableMismatchError(
            f"its readers cannot use it: {name}",
            where=where,
            hint="rename the field, or name a table without it",
        )
    problem = format_problem(choice, written)
    if problem is not None:
        raise TableMismatchError(
            f"{file_format} files cannot hold its rows: {problem}",
            where=where,
            hint="change the table, or name one of another format",
        )
    return choice


def has_tables_columns(file_format: FileFormat | None) -> bool:
    """Whether files of a format have all columns of the table, in its order and spelling."""
    # Others find columns by their place, by exact name, or by a schema of the whole table.
    return file_format not in (None, FileFormat.PARQUET)


def creation_problem(options: TableOptions) -> str | None:
    """Why a table of the job file's format and columns could not be filled, or None.

    Called by `validate`, which sees no table, and before a table is created.
    """
    file_format = options.file_format or FileFormat.PARQUET
    compression = options.compression or COMPRESSIONS[file_format][0]
    problem = compression_problem(file_format, compression)
    if problem is None and options.schema is not None:
        layout, _ = layout_to_create(options, HiveLayout("", "", "", "", ()))
        settings = tuple(sorted(layout.serde_parameters.items()))
        choice = FileChoice(file_format, compression, options.schema, settings)
        problem = format_problem(choice, options.schema) or unreadable_names(
            options, file_format, options.schema
        )
    return problem


def unreadable_names(options: TableOptions, file_format: FileFormat, columns: Schema) -> str | None:
    """Why readers of the catalog and the format cannot read a name, or None."""
    in_metastore = options.metastore != "" and not options.metastore.startswith(FOLDER)
    return name_problem(file_format, columns, in_metastore=in_metastore)


def format_warnings(choice: FileChoice, written: Schema) -> tuple[str, ...]:
    """What the user should know of a table's format: which rows become dirty by it.

    Args:
        choice: How its files are written.
        written: Columns that rows have.
    """
    match choice.format:
        case FileFormat.PARQUET if names := blank_names(written):
            return (
                f"Hive's own reader of Parquet does not read the names of {', '.join(names)}; "
                "Spark does",
            )
        case FileFormat.TEXT if not choice.setting(ESCAPE_DELIM):
            return (
                "its text has no escape.delim: rows with a delimiter or a line break in a value "
                "become dirty rows",
            )
        case FileFormat.CSV:
            return (
                "its CSV has no null: rows with a null, or with a line break in a value, become "
                "dirty rows; a column's `default` stands for null",
            )
        case _:
            return ()


def settings_of(layout: HiveLayout, parameters: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The properties of a table or partition that say how its files are read."""
    file_format = format_of(layout)
    keys = () if file_format is None else _SETTINGS.get(file_format, ())
    said = {**parameters, **layout.serde_parameters}
    return tuple((key, said[key]) for key in sorted(keys) if key in said)


FileSettings = tuple[FileFormat | None, tuple[tuple[str, str], ...]]


def file_settings(layout: HiveLayout, parameters: Mapping[str, str]) -> FileSettings:
    """All of a layout by which readers take files; two that are equal take them alike."""
    return format_of(layout), settings_of(layout, parameters)


def _settings(
    table: MetastoreTable, file_format: FileFormat, options: TableOptions
) -> tuple[tuple[str, str], ...]:
    if file_format is FileFormat.PARQUET:
        return ((TIMESTAMPS, options.parquet_timestamps or INT96),)
    own = settings_of(table.layout, table.parameters)
    if file_format is FileFormat.AVRO:
        return (*own, (TABLE_NAME, str(table)))
    return own


def _compression(table: MetastoreTable, file_format: FileFormat, options: TableOptions) -> str:
    allowed = COMPRESSIONS[file_format]
    named = table.parameters.get(_COMPRESSION_KEYS.get(file_format, ""), "").lower()
    own = _ORC_NAMES.get(named, named)
    if own in allowed:
        return own
    wanted = options.compression or allowed[0]
    problem = compression_problem(file_format, wanted)
    if problem is not None:
        raise TableMismatchError(
            problem, where=str(table), hint="change table.hive.compression in the job file"
        )
    return wanted
