"""What a table held at a slot, as `sluiceway at` and `sluiceway.read_at` answer."""

from collections.abc import Iterable
from dataclasses import dataclass

from sluiceway.audit.pick_route import table_name
from sluiceway.audit.read_point import (
    PointRequest,
    SourceEnd,
    TableRows,
    parse_point,
    rows_place,
)
from sluiceway.errors import WrongUsageError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.row_places import LetGo


@dataclass(frozen=True, slots=True)
class PointFile:
    """Rows of one file.

    Attributes:
        path: Path of the file, as its storage names it.
        first_row: Number of the first row, counted from 0.
        rows: How many rows from there on.
        partition: `dt=20261120/hr=08`; empty in a table without partitions.
    """

    path: str
    first_row: int
    rows: int
    partition: str


@dataclass(frozen=True, slots=True)
class TablePoint:
    """What a table held at a slot.

    Attributes:
        table: `database.table`.
        ledger: Uuid of its ledger.
        slot: The last slot that is included; -1 when no row is.
        rows: Rows in the spans of all files.
        files: Today's files, by partition and in row order.
        let_go: Partitions whose rows of then are no longer in the table.
        spark_offsets: `startingOffsets` of Spark's Kafka source, by topic and partition.
        flink_offsets: `scan.startup.specific-offsets` of Flink's Kafka connector, by topic.
        group_offsets: Lines `topic,partition,offset` for `kafka-consumer-groups --from-file`.
    """

    table: str
    ledger: str
    slot: int
    rows: int
    files: tuple[PointFile, ...]
    let_go: tuple[LetGo, ...]
    spark_offsets: dict[str, dict[str, int]]
    flink_offsets: dict[str, str]
    group_offsets: list[str]


def point_request(slot: int | None, time: str | None) -> PointRequest:
    """The point of a slot or a time.

    Raises:
        WrongUsageError: Both are given, or the time is none.
    """
    if slot is not None and time is not None:
        raise WrongUsageError("a slot and a time exclude each other", hint="leave one out")
    return PointRequest(slot=slot) if time is None else parse_point(time)


def table_point(config: RouteConfig, asked: PointRequest) -> TablePoint:
    """Read what a table held at a point, from the ledger alone.

    Raises:
        RequestRefusedError: The slot is not published, or no driver has ever run.
        NotInThisVersionError: It is a lake table.
        SluicewayError: The ledger cannot be read.
    """
    rows = TableRows(rows_place(config))
    found = rows.at(asked)
    ends = rows.ends_at(found.slot)
    layout = rows.ledger.log.layout
    files = tuple(
        PointFile(layout.final(each.file.final), each.first_row, each.rows, each.partition)
        for each in found.files
    )
    return TablePoint(
        table=table_name(config),
        ledger=found.ledger,
        slot=found.slot,
        rows=sum(each.rows for each in files),
        files=files,
        let_go=found.let_go,
        spark_offsets=spark_offsets(ends),
        flink_offsets=flink_offsets(ends),
        group_offsets=group_offsets(ends),
    )


def spark_offsets(ends: Iterable[SourceEnd]) -> dict[str, dict[str, int]]:
    """As Spark's Kafka source takes `startingOffsets`."""
    found: dict[str, dict[str, int]] = {}
    for end in ends:
        found.setdefault(end.topic, {})[str(end.partition)] = end.offset
    return found


def flink_offsets(ends: Iterable[SourceEnd]) -> dict[str, str]:
    """By topic, as Flink's Kafka connector takes `scan.startup.specific-offsets`."""
    found: dict[str, list[str]] = {}
    for end in ends:
        found.setdefault(end.topic, []).append(f"partition:{end.partition},offset:{end.offset}")
    return {topic: ";".join(parts) for topic, parts in found.items()}


def group_offsets(ends: Iterable[SourceEnd]) -> list[str]:
    """Lines that `kafka-consumer-groups --reset-offsets --from-file` takes."""
    return [f"{end.topic},{end.partition},{end.offset}" for end in ends]
