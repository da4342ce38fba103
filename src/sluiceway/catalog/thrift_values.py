"""Between the metastore's thrift structs and our values. No other layer sees thrift types."""

import copy
from typing import Any

from pymetastore.hive_metastore import ttypes

from sluiceway.catalog.hive_table import (
    HiveColumn,
    HiveLayout,
    HivePartition,
    MetastoreTable,
    NewPartition,
)

# With such statistics of a table or partition, Hive answers count(*) without reading files.
STATS_ACCURATE = "COLUMN_STATS_ACCURATE"


def table_value(raw: Any) -> MetastoreTable:
    """Our value of a thrift `Table`."""
    return MetastoreTable(
        database=raw.dbName,
        name=raw.tableName,
        kind=raw.tableType or "MANAGED_TABLE",
        layout=_layout_value(raw.sd),
        partition_columns=_columns_value(raw.partitionKeys),
        parameters=dict(raw.parameters or {}),
        created_at_s=raw.createTime or 0,
    )


def partition_value(raw: Any) -> HivePartition:
    """Our value of a thrift `Partition`."""
    return HivePartition(
        values=tuple(raw.values),
        layout=_layout_value(raw.sd),
        parameters=dict(raw.parameters or {}),
    )


def raw_table(table: MetastoreTable) -> Any:
    """A thrift `Table` to create, from our value."""
    layout = table.layout
    storage = ttypes.StorageDescriptor(
        cols=_raw_columns(layout.columns),
        location=layout.location or None,
        inputFormat=layout.input_format,
        outputFormat=layout.output_format,
        compressed=False,
        numBuckets=-1,
        serdeInfo=ttypes.SerDeInfo(
            name=table.name,
            serializationLib=layout.serde,
            parameters={"serialization.format": "1", **layout.serde_parameters},
        ),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )
    return ttypes.Table(
        tableName=table.name,
        dbName=table.database,
        owner="sluiceway",
        sd=storage,
        partitionKeys=_raw_columns(table.partition_columns),
        parameters=dict(table.parameters),
        tableType=table.kind,
    )


def raw_partition(table: Any, partition: NewPartition) -> Any:
    """A thrift `Partition` with the storage of the thrift `Table` and its own location."""
    storage = copy.copy(table.sd)
    storage.location = partition.location
    return ttypes.Partition(
        values=list(partition.values),
        dbName=table.dbName,
        tableName=table.tableName,
        sd=storage,
        parameters={},
    )


def _layout_value(sd: Any) -> HiveLayout:
    if sd is None:  # views may come without storage
        return HiveLayout("", "", "", "", ())
    serde = sd.serdeInfo
    skew = sd.skewedInfo
    return HiveLayout(
        location=sd.location or "",
        serde=(serde.serializationLib if serde else "") or "",
        input_format=sd.inputFormat or "",
        output_format=sd.outputFormat or "",
        columns=_columns_value(sd.cols),
        serde_parameters=dict((serde.parameters if serde else None) or {}),
        bucket_count=max(sd.numBuckets or 0, len(sd.bucketCols or ())),
        sort_columns=tuple(order.col for order in sd.sortCols or ()),
        skewed_columns=tuple((skew.skewedColNames if skew else None) or ()),
        sub_directories=bool(sd.storedAsSubDirectories),
        storage_parameters=dict(sd.parameters or {}),
    )


def _columns_value(raw: Any) -> tuple[HiveColumn, ...]:
    return tuple(HiveColumn(column.name, column.type) for column in raw or ())


def _raw_columns(columns: tuple[HiveColumn, ...]) -> list[Any]:
    return [ttypes.FieldSchema(name=column.name, type=column.type) for column in columns]
