"""Topics of whole rows into keyed tables, on Kafka: the table is what each key was last."""

import json
from pathlib import Path

import pytest

from sluiceway.cli.app import run_command
from tools.change_source import KEYED_COLUMNS, RowSource, tell
from tools.driver_kills import drive, drive_until_killed
from tools.lab_fixture import TopicFactory
from tools.lake_jobs import LakeJob, write_lake_job
from tools.test_plan import slow_after

CSV = 'csv: {fields: "id,name,amount,city"}'


def write_job(
    folder: Path,
    servers: str,
    topic: str,
    payload: str = "json: {}",
    key: str = "key: [id]",
    more: str = "",
) -> LakeJob:
    return write_lake_job(
        folder,
        bootstrap_servers=servers,
        topic=topic,
        columns=KEYED_COLUMNS,
        partition_by="[{column: id, transform: 'bucket[2]'}]",
        payload=payload,
        key=key,
        more=more,
    )


def found(job: LakeJob) -> list[tuple[object, ...]]:
    rows = job.rows("id", "name", "amount", "city")
    return sorted((r[0], r[1], str(r[2]), r[3]) for r in rows)


@pytest.mark.parametrize(
    ("point", "payload", "key", "source"),
    slow_after(
        2,
        [
            ("lake.resolved", "json: {}", "key: [id]", RowSource(3, 2)),
            (
                "lake.placed",
                "json: {}",
                "key: [id]\n  key_format: text",
                RowSource(4, 2, bare_key=lambda number: str(number).encode()),
            ),
            (
                "lake.resolved",
                "json: {}",
                "key: [id]\n  key_format: int64",
                RowSource(7, 2, bare_key=lambda number: number.to_bytes(8, "big", signed=True)),
            ),
            (
                "lake.placed",
                "json: {}",
                "key: [id]",
                RowSource(8, 2, bare_key=lambda number: str(number).encode()),
            ),
            ("lake.send.reply", CSV, "key: [id]", RowSource(5, 2, form="csv")),
            ("publish.file", "json: {}", "key: from_topic_key", RowSource(6, 2)),
        ],
    ),
    ids=["json", "text_keys", "int64_keys", "bare_json_keys", "csv", "told_key"],
)
def test_a_compacted_topic_is_the_table_whenever_the_driver_dies(  # noqa: PLR0913, PLR0917 - a cell
    point: str,
    payload: str,
    key: str,
    source: RowSource,
    bootstrap_servers: str,
    new_topic: TopicFactory,
    tmp_path: Path,
) -> None:
    topic = new_topic(2)
    job = write_job(tmp_path, bootstrap_servers, topic, payload, key)
    for number in range(2):
        source.change(150)
        tell(bootstrap_servers, topic, source.take())
        drive_until_killed(job, tmp_path / f"marks-{number}", point)
        assert drive(job) == 0
        assert found(job) == source.wanted()
    assert job.verified().problems == []
    assert run_command(["maintain", str(job.path), "--keep", "1d"]) == 0
    assert found(job) == source.wanted()


def test_a_row_that_where_leaves_out_goes_and_a_null_without_key_is_dirty(
    bootstrap_servers: str,
    new_topic: TopicFactory,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = new_topic(1)
    job = write_job(tmp_path, bootstrap_servers, topic, more="where: \"city <> 'Lyon'\"")

    def put(key: bytes | None, city: str | None) -> None:
        row = {"id": 1, "name": "n", "amount": "1.00", "city": city}
        told = None if city is None else json.dumps(row).encode()
        tell(bootstrap_servers, topic, {0: [(key, told)]})  # type: ignore[list-item]
        job.catch_up()

    put(b'{"id":1}', "Oslo")
    assert [row[3] for row in found(job)] == ["Oslo"]
    put(b'{"id":1}', "Lyon")
    assert found(job) == []
    put(b'{"id":1}', "Rome")
    for key in (None, b"one", b'{"nr":1}'):
        put(key, None)
    assert [row[3] for row in found(job)] == ["Rome"]
    assert job.verified().problems == []
    # Nobody can tell which row they delete, now or later.
    capsys.readouterr()
    assert run_command(["dirty", "replay", str(job.path), "-o", "json"]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    lane = json.loads(line)
    lane = lane.get("lanes", [lane])[0]
    assert (lane["read"], lane["dirty"], lane["written"]) == (3, 3, 0)


def test_dirty_rows_that_are_replayed_undo_no_later_row_and_no_delete(
    bootstrap_servers: str,
    new_topic: TopicFactory,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = new_topic(1)
    job = write_job(tmp_path, bootstrap_servers, topic)
    whole = job.path.read_text()
    city = "{name: city, type: string"
    job.path.write_text(whole.replace(city, f"{city}, required: true"))

    def put(number: int, city: str | None, *, gone: bool = False) -> None:
        row = {"id": number, "name": "n", "amount": "1.00", "city": city}
        told = None if gone else json.dumps(row).encode()
        tell(bootstrap_servers, topic, {0: [(b'{"id":%d}' % number, told)]})

    for number in range(1, 4):
        put(number, "Oslo")
    for number in range(1, 5):
        put(number, None)
    put(1, "Rome")
    put(2, None, gone=True)
    job.catch_up()
    assert [row[:1] + row[3:] for row in found(job)] == [(1, "Rome"), (3, "Oslo")]
    job.path.write_text(whole)
    capsys.readouterr()
    assert run_command(["dirty", "replay", str(job.path), "-o", "json"]) == 0
    lane = json.loads(capsys.readouterr().out.splitlines()[0])
    lane = lane.get("lanes", [lane])[0]
    assert (lane["read"], lane["superseded"], lane["written"]) == (4, 2, 2)
    job.catch_up()
    assert [row[:1] + row[3:] for row in found(job)] == [(1, "Rome"), (3, None), (4, None)]
    assert job.verified().problems == []
