"""ALTER TABLE in the source: a new field of its rows becomes a column of the keyed table."""

from pathlib import Path

from tools.change_source import KEYED_COLUMNS, ChangeSource, Row, tell
from tools.lab_fixture import TopicFactory
from tools.lake_jobs import write_lake_job


class AlteredSource(ChangeSource):
    """A database whose table gets a column."""

    altered = False

    def _values(self, row_id: int) -> Row:
        row = super()._values(row_id)
        return {**row, "Note": f"note {row_id}"} if self.altered else row


def test_a_column_that_the_database_gets_is_in_the_table_from_its_first_row_on(
    bootstrap_servers: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = new_topic(2)
    job = write_lake_job(
        tmp_path,
        bootstrap_servers=bootstrap_servers,
        topic=topic,
        columns=KEYED_COLUMNS,
        partition_by="[]",
        payload="debezium: {}",
        key="key: [id]\n  evolution: add_columns",
    )
    source = AlteredSource(23, partitions=2)
    source.change(150)
    tell(bootstrap_servers, topic, source.take())
    job.catch_up()
    source.altered = True
    for _ in range(2):
        source.change(150)
        tell(bootstrap_servers, topic, source.take())
        job.catch_up()
        found = [(row[0], str(row[1]), row[2]) for row in job.rows("id", "amount", "note")]
        assert found == sorted((r["id"], r["amount"], r.get("Note")) for r in source.rows.values())
    assert any(note is not None for _, _, note in found)
    assert job.verified().problems == []
