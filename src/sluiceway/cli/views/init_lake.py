"""The lines of `init` for a lake table: its catalog, its partitions, its key."""

import json
from collections.abc import Sequence
from dataclasses import replace

from sluiceway.cli.views.init_text import RECORD_TIME, JobText, TablePlace
from sluiceway.cli.views.proposed_columns import Proposal, quoted
from sluiceway.errors import WrongUsageError

FROM_TOPIC_KEY = "from_topic_key"
_CATALOGS = {
    "sqlite": "sql",
    "postgresql": "sql",
    "http": "rest",
    "https": "rest",
    "thrift": "hive",
}
"""Kinds of catalogs by the scheme of their address."""
_KEYED_META = ("partition", "offset")


def lake_place(catalog: str, warehouse: str | None) -> TablePlace:
    """A table of an Iceberg catalog.

    Args:
        catalog: Address of the catalog.
        warehouse: Place of its tables; None leaves it to the catalog.

    Raises:
        WrongUsageError: The kind of catalog is unknown, or it needs a warehouse.
    """
    scheme = catalog.partition(":")[0].partition("+")[0]
    kind = _CATALOGS.get(scheme)
    if kind is None:
        raise WrongUsageError(
            f"`{catalog[:60]}` is no address of an Iceberg catalog",
            hint="sqlite:////DIR/catalog.db, http://HOST:PORT or thrift://HOST:PORT",
        )
    if kind == "sql" and warehouse is None:
        raise WrongUsageError(
            "a catalog in a database does not say where its tables are",
            hint="say it: --warehouse file:///DIR, s3a://BUCKET/DIR or hdfs://HOST/DIR",
        )
    told = f"uri: {quoted(catalog)}"
    told += f", warehouse: {quoted(warehouse)}" if warehouse is not None else ""
    return TablePlace("iceberg", "lake", f"iceberg: {{{kind}: {{{told}}}}}")


def by_transform(job: JobText) -> JobText:
    """Partitions by the hour of the event time; unchanged where that is no column of its own."""
    if job.time is None or job.time == RECORD_TIME or job.time.is_inner:
        return job
    return replace(
        job, partitions=(f"{{column: {job.time.field}, transform: hour}}",), time=None
    ).with_notes("hours that are announced when complete: `sluiceway init --ready`")


def keyed_rows(
    job: JobText,
    change_log: str | None,
    proposal: Proposal,
    key: str,
    record_keys: Sequence[bytes | None],
) -> JobText:
    """A table with the newest row of each key, from JSON.

    Args:
        job: The job, with its format.
        change_log: Kind of the topic's change log; None for whole rows.
        proposal: Columns of the rows.
        key: Columns, separated by commas, or `FROM_TOPIC_KEY`.
        record_keys: Keys of some records.

    Raises:
        WrongUsageError: No row has such a column, or the job file has to be written by hand.
    """
    if change_log == "canal":
        raise WrongUsageError(
            f"{job.topic} holds changes of Canal, and one message may hold several rows",
            hint="write the job file as in docs/guides/keyed-tables.md, Canal",
        )
    names = _names(key)
    known = [column.name for column in proposal.columns]
    if missing := [name for name in names if name not in known]:
        raise WrongUsageError(
            f"--key: no row has a field `{missing[0][:60]}`",
            hint=f"rows have: {', '.join(known[:20])}",
        )
    lines = [_key_line(names)]
    if change_log is None:
        lines += _key_format(names, record_keys)
    # Kind and time of a change are no part of the current row.
    columns = replace(proposal, before=()).lines()
    return _without_hours(job, lines, ("columns:", *columns))


def keyed_by_registry(job: JobText, key: str) -> JobText:
    """As `keyed_rows`, for whole rows in a registry's format; `job` has its columns."""
    return _without_hours(job, [_key_line(_names(key))], job.columns)


def _without_hours(job: JobText, key: Sequence[str], columns: Sequence[str]) -> JobText:
    return replace(
        job,
        key=tuple(key),
        columns=tuple(columns),
        partitions=(),
        time=None,
        meta=_KEYED_META,
    )


def _names(key: str) -> list[str]:
    """Columns; none for `FROM_TOPIC_KEY`."""
    if key.strip() == FROM_TOPIC_KEY:
        return []
    names = [name.strip() for name in key.split(",")]
    if not all(names):
        raise WrongUsageError(
            "--key has a column without a name", hint="--key id, --key shop,id or from_topic_key"
        )
    return names


def _key_line(names: Sequence[str]) -> str:
    shown = f"[{', '.join(names)}]" if names else FROM_TOPIC_KEY
    return f"key: {shown} # A row replaces the older one of its key."


def _key_format(names: Sequence[str], keys: Sequence[bytes | None]) -> list[str]:
    """The format of the records' own keys, where it is not the default."""
    told = [each for each in keys if each is not None]
    if told and all(_is_json(key, dict) for key in told):
        return []
    if told and len(names) == 1:
        return _bare_key(told)
    if told or not names:
        raise WrongUsageError(
            "the records' own keys do not name their columns" if told else "no record has a key",
            hint="name one column: --key COLUMN; or see key_order in docs/guides/keyed-tables.md",
        )
    return ["key_order: by_partition # DOUBT: records have no key; is one in one partition always?"]


def _bare_key(keys: Sequence[bytes]) -> list[str]:
    """The format of keys that hold only the value of one column."""
    if all(_is_json(key, str) for key in keys):
        return []
    for size, name in ((8, "int64"), (4, "int32")):
        # Numbers below 16 million begin with a zero byte, and no text does.
        if all(len(key) == size for key in keys) and any(key[0] == 0 for key in keys):
            return [f"key_format: {name} # The records' own keys are that column in {size} bytes."]
    return ["key_format: text # The records' own keys are the text of that column."]


def _is_json(key: bytes, kind: type) -> bool:
    try:
        return isinstance(json.loads(key), kind)
    except ValueError:
        return False
