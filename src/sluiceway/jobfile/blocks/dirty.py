"""The block `dirty` of a job file: what a route does about its dirty rows."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from sluiceway.jobfile.blocks.block import Block
from sluiceway.jobfile.blocks.values import PlainTableName, TopicName, duration, wrong
from sluiceway.jobfile.problems import quoted

REASONS = (
    *(
        "broken",
        "encoding",
        "empty",
        "unknown_schema",
        "not_an_object",
        "duplicate_key",
        "missing",
        "null",
    ),
    *("wrong_type", "not_integral", "overflow", "scale", "too_long", "trailing_blanks"),
    *(
        "bad_text",
        "bad_time",
        "not_a_change",
        "key_mismatch",
        "key_changed",
        "order_unknown",
        "unrepresentable",
        "unexpected_field",
        "too_deep",
        "bad_partition_value",
    ),
    *("future_time", "old_time", "sql_failed", "late"),
)
"""Reason codes of dirty rows, as `types.dirty` has them."""

_MOST_ROWS = 1_000_000_000


def _check_ratio(ratio: float) -> float:
    if not 0 <= ratio < 1:
        raise wrong("a share from 0 up to but not 1, such as 0.01", "choose one")
    return ratio


def _parse_rows(value: object) -> object:
    """Leave values below the user's own keys as they are written."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


def _check_rows(rows: int) -> int:
    if not 0 <= rows <= _MOST_ROWS:
        raise wrong(f"a number of rows, 0 to {_MOST_ROWS}", "choose one")
    return rows


def _check_reasons(limits: Mapping[str, int]) -> Mapping[str, int]:
    unknown = sorted(limits.keys() - set(REASONS))
    if unknown:
        todo = f"{', '.join(map(quoted, unknown))} is none; write some of: {', '.join(REASONS)}"
        raise wrong("reasons of dirty rows and numbers", todo)
    return limits


Rows = Annotated[int, AfterValidator(_check_rows)]


class MaxRateSpec(Block):
    """The greatest share of dirty rows.

    Attributes:
        ratio: Largest share of dirty rows among the rows read, between 0 and 1.
        window_ms: Time over which rows count.
        min_rows: Fewest rows read that are judged; with fewer the route never halts.
    """

    ratio: Annotated[float, AfterValidator(_check_ratio)]
    window_ms: Annotated[int, *duration("10s", "1d")] = Field(default=600_000, alias="window")
    min_rows: Rows = 100


class DirtyStoreSpec(Block):
    """A further store of dirty rows; the files next to the ledger are kept too.

    Attributes:
        topic: Kafka topic, which must exist; None sends rows to no topic.
        connection: Name of the Kafka connection of the topic; None is that of the source.
        table: Hive table, `database.table`, in the metastore of the route; created if missing. None
            fills no table.
    """

    topic: TopicName | None = None
    connection: str | None = None
    table: PlainTableName | None = None


_ONE_STORE = "write `{topic: NAME}` or `{table: DATABASE.NAME}`"


def _store(value: object) -> DirtyStoreSpec | None:
    if isinstance(value, dict):
        found = DirtyStoreSpec.model_validate(value)
        if (found.topic is None) == (found.table is None):
            raise wrong("one of the keys topic and table", _ONE_STORE)
        if found.table is not None and found.connection is not None:
            raise wrong("`connection` with a topic only", "remove it: it is the table's own")
        return found
    if value != "beside":
        raise wrong("`beside`, or a mapping with topic or table", _ONE_STORE)
    return None


class DirtySpec(Block):
    """What happens about dirty rows.

    Attributes:
        store: Further store of dirty rows; None keeps them next to the ledger only.
        max_rate: Largest share of dirty rows; above it the route halts. None sets no limit.
        max_rows: Largest number of dirty rows within `window`; above it the route halts. None sets
            no limit.
        reasons: Reason -> largest number of dirty rows with that reason within `window`.
        window_ms: Time over which `max_rows` and `reasons` count.
        retention_ms: How long dirty rows are kept after their commit; None keeps them for ever.
    """

    store: Annotated[DirtyStoreSpec | None, BeforeValidator(_store)] = None
    max_rate: MaxRateSpec | None = None
    max_rows: Rows | None = None
    reasons: Annotated[
        Mapping[str, Annotated[Rows, BeforeValidator(_parse_rows)]],
        AfterValidator(_check_reasons),
    ] = Field(default_factory=dict)
    window_ms: Annotated[int, *duration("10s", "1d")] = Field(default=600_000, alias="window")
    retention_ms: Annotated[int, *duration("1h", "36500d")] | None = Field(
        default=None, alias="retention"
    )
