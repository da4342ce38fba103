"""A room's own names of topics stay between the connection and the queue."""

from collections.abc import Sequence

from sluiceway.sources.contract import SourceBatch, SourcePartition, Split, SplitEnd, SplitReader
from sluiceway.sources.renamed import RenamedClient, RenamedReader
from tools.made_logs import ACCESS, MadeLog, MadeLogs

HERE, JOB = SourcePartition("a.orders", 0), SourcePartition("orders", 0)
OTHER = SourcePartition("users", 0)
NAMES = {"orders": "a.orders"}
LOGS = MadeLogs({HERE: MadeLog.of(range(5)), OTHER: MadeLog.of(range(9))})


class WholeReader(SplitReader):
    """Reads all in one call."""

    def __init__(self, splits: Sequence[Split]) -> None:
        self.splits = list(splits)
        self.reusable: bool | None = None

    def read(self, timeout_s: float) -> list[SourceBatch]:
        return list(LOGS.read(ACCESS, self.splits))

    def finished(self) -> bool:
        return True

    def ends(self) -> tuple[SplitEnd, ...]:
        return (SplitEnd(5, 5, 0, None),)

    def close(self, *, reusable: bool) -> None:
        self.reusable = reusable


def test_a_client_is_asked_by_the_jobs_names() -> None:
    client = RenamedClient(LOGS, NAMES)
    assert [each.partition for each in client.discover(["orders", "users"])] == [JOB, OTHER]
    assert client.list_topics() == ("orders", "users")
    assert client.bounds([JOB])[JOB].end_offset == 5
    assert client.bounds([OTHER])[OTHER].end_offset == 9
    assert client.offsets_at([JOB], 3) == {JOB: 3}
    assert client.offsets_at_times({JOB: 2, OTHER: 4}) == {JOB: 2, OTHER: 4}
    assert list(client.copy_traits(["orders"])) == ["orders"]
    assert client.gone([JOB]) == {JOB}


def test_rows_have_the_jobs_name_and_splits_the_rooms() -> None:
    opened: list[WholeReader] = []

    def open_inner(splits: list[Split]) -> SplitReader:
        opened.append(WholeReader(splits))
        return opened[-1]

    reader = RenamedReader(open_inner, [Split(JOB, 0, 5)], NAMES)
    assert [split.partition for split in opened[0].splits] == [HERE]
    batches = reader.read(1.0)
    assert [number for batch in batches for number in batch.timestamps_ms()] == [*range(5)]
    assert {topic for batch in batches for topic in batch.records([0]).topics} == {"orders"}
    assert (reader.finished(), reader.ends()[0].rows) == (True, 5)
    reader.close(reusable=True)
    assert opened[0].reusable is True
