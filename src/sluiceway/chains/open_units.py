"""Opens a table whose units a route computes: of Hive, with a ledger or without, or of Iceberg."""

from collections.abc import Mapping
from functools import partial

from sluiceway.chains.lake_upstream import LAKE_SOURCE, LakeUpstream
from sluiceway.chains.options import UpstreamOptions, missing
from sluiceway.chains.unit_tables import LedgerUnits, ListedUnits, UnitTable
from sluiceway.chains.units import UnitRule, UnitWhen
from sluiceway.errors import (
    NotInThisVersionError,
    SourceUnavailableError,
    TableMismatchError,
    TableNotFoundError,
)
from sluiceway.sinks.files.contract import FileFormat
from sluiceway.sinks.registry import readable_table
from sluiceway.sinks.table_options import ReadableTable

_READABLE = (FileFormat.PARQUET, FileFormat.ORC)

UnitUpstream = UpstreamOptions | LakeUpstream
"""How a table is reached whose units are read."""


def unit_upstream(options: Mapping[str, str], kind: str) -> UnitUpstream:
    """How it is reached, by the options and the kind of a source."""
    return LakeUpstream.of(options) if kind == LAKE_SOURCE else UpstreamOptions.of(options)


def readable_unit_table(options: UnitUpstream) -> ReadableTable:
    """The table as its catalog has it.

    Raises:
        TableNotFoundError: It does not exist.
        MetastoreUnavailableError: Its catalog does not answer.
        NotInThisVersionError: Spark does not read its files as they are.
    """
    if isinstance(options, LakeUpstream):
        # Who reads Hive tables only pays for no client of Iceberg.
        from sluiceway.chains.lake_units import lake_table, readable  # noqa: PLC0415

        return readable(lake_table(options).metadata, options.topic)
    try:
        return readable_table(options.table())
    except TableNotFoundError as error:
        raise missing(options.topic) from error


def open_unit_table(options: UnitUpstream, rule: UnitRule) -> UnitTable:
    """The table as it is now: with a ledger, or without one. Called at each START.

    Args:
        options: How it is reached.
        rule: What the route computes of it.

    Raises:
        TableNotFoundError: It does not exist.
        SourceUnavailableError: No driver has ever run for it, whose announcements are waited for.
        MetastoreUnavailableError: Its catalog does not answer.
        TableMismatchError: Its partition columns do not begin with the unit.
        NotInThisVersionError: Spark does not read its files as they are.
    """
    if isinstance(options, LakeUpstream):
        # Likewise.
        from sluiceway.chains.lake_units import LakeUnits  # noqa: PLC0415

        return LakeUnits(options, rule)
    table = readable_unit_table(options)
    if table.file_format not in _READABLE:
        raise NotInThisVersionError(
            "units of a table are read from Parquet and ORC files only",
            where=options.topic,
            hint="let a route write the table as Parquet",
        )
    names = [name.lower() for name, _ in table.partition_columns]
    if names[: len(rule.columns)] != list(rule.columns):
        raise TableMismatchError(
            f"the table that is read is partitioned by {', '.join(names) or 'nothing'}",
            where=options.topic,
            hint=f"`source.unit` is {list(rule.columns)}: name its leading partition columns",
        )
    by_ledger = partial(
        LedgerUnits, options.root or table.location, options.stores, rule, table, options.topic
    )
    if rule.when is UnitWhen.READY:
        return by_ledger()
    try:
        return by_ledger()
    except SourceUnavailableError:
        # No route of ours fills it.
        return ListedUnits(options, rule, table)
