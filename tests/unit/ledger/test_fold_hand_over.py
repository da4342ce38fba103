"""A SOURCES record that leaves a table for the topics that have filled it."""

from dataclasses import replace

import pytest

from sluiceway.errors import InvariantError
from sluiceway.ledger.records import HandOverCause, PinnedPartition, SourcesRecord
from sluiceway.types.strict_json import BigInt
from tools.ledger_records import fence, fold_of, sources

ABOVE = "a" * 32
TABLE, TOPIC = "table:ods.raw", "orders"


def _pin(topic: str, start: int, how: str, *, of: str, retired: bool = False) -> PinnedPartition:
    return PinnedPartition(topic, 0, "c1", of, BigInt(start), how, retired)


FOLLOWING = SourcesRecord((TABLE,), "", "earliest", (_pin(TABLE, 0, "earliest", of=ABOVE),))
HANDED = SourcesRecord(
    (TOPIC,),
    "",
    "latest",
    (
        _pin(TABLE, 0, "retired", of=ABOVE, retired=True),
        _pin(TOPIC, 7, "handed_over", of="t1"),
    ),
    because=HandOverCause(ABOVE, 3),
)


def test_topics_begin_where_the_table_ends() -> None:
    fold = fold_of(fence(), FOLLOWING, HANDED)
    assert fold.sources[TABLE, 0].retired
    assert (fold.sources[TOPIC, 0].end, fold.sources[TOPIC, 0].retired) == (7, False)


@pytest.mark.parametrize(
    "wrong",
    [
        replace(HANDED, because=None),
        replace(HANDED, because=HandOverCause("b" * 32, 3)),
        replace(HANDED, partitions=HANDED.partitions[1:]),
        replace(
            HANDED,
            partitions=(HANDED.partitions[0], replace(HANDED.partitions[1], how="earliest")),
        ),
    ],
    ids=["without-a-cause", "of-another-ledger", "table-still-read", "by-another-start"],
)
def test_table_and_topics_change_places_in_one_record(wrong: SourcesRecord) -> None:
    with pytest.raises(InvariantError, match="rule 5"):
        fold_of(fence(), FOLLOWING, wrong)


def test_route_that_reads_topics_is_handed_nothing() -> None:
    with pytest.raises(InvariantError, match="rule 5"):
        fold_of(fence(), sources(0), replace(HANDED, partitions=HANDED.partitions[1:]))
