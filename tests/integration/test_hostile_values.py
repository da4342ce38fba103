"""Hostile partition values end to end: real topic, folders, metastore and readers."""

import json
import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from sluiceway.sinks.partition_path import DEFAULT_PARTITION, partition_value_problem
from tools import independent_reader as reader
from tools.hostile_payloads import hostile_payloads
from tools.job_files import JobFile, write_job
from tools.lab_fixture import TopicFactory
from tools.raw_metastore import raw_client
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

# One server of its own for all of them.
pytestmark = pytest.mark.slow

# Databases that pad texts (Derby, MySQL) take "x" and "x " for one partition name: the metastore
# refuses the second, which docs/guides/guarantees.md says.
PAYLOADS = tuple(each for each in hostile_payloads() if not each.endswith(" "))
COLUMNS = """\
    - {name: id, type: bigint, required: true}
    - {name: city, type: string}
"""


@pytest.fixture(scope="module")
def filled(
    bootstrap_servers: str,
    metastore_uri: str,
    new_topic: TopicFactory,
    tmp_path_factory: pytest.TempPathFactory,
) -> JobFile:
    """A table partitioned by the text itself; two rows of each."""
    topic = new_topic(1)
    job = write_job(
        tmp_path_factory.mktemp("job"),
        bootstrap_servers=bootstrap_servers,
        metastore_uri=metastore_uri,
        topic=topic,
        columns=COLUMNS,
        partition_by="[{name: place, column: city}]",
        event_time="",
    )
    rows = [
        json.dumps({"id": number, "city": payload}, ensure_ascii=number % 2 == 0).encode()
        for number, payload in enumerate([*PAYLOADS, *PAYLOADS])
    ]
    TopicWriter(bootstrap_servers).write(topic, rows)
    RouteRun(job).catch_up()
    return job


def _fine() -> set[str]:
    """Payloads that can be a folder; all others have to be dirty."""
    return {each for each in PAYLOADS if partition_value_problem("place", each) is None}


def test_payloads_are_many_and_most_of_them_can_be_folders() -> None:
    assert len(PAYLOADS) >= 500
    assert len(_fine()) >= 500


def test_every_payload_is_a_partition_of_its_own_below_the_table(
    filled: JobFile, metastore_uri: str
) -> None:
    root = RouteRun(filled).root()
    database, _, name = filled.table.partition(".")
    with raw_client(metastore_uri) as client:
        found = {
            tuple(each.values): Path(urlsplit(each.sd.location).path if "%" not in each.sd.location
                                     else each.sd.location.removeprefix("file:"))
            for each in client.get_partitions(database, name, -1)
        }  # fmt: skip
    assert {values[0] for values in found} == _fine()
    folders = {entry.name for entry in os.scandir(root) if entry.is_dir()} - {"_sluiceway"}
    assert len(folders) == len(_fine())
    assert all(folder.startswith("place=") for folder in folders)
    files = {path.parent for path in root.rglob("*.parquet") if "_sluiceway" not in path.parts}
    assert files == {root / folder for folder in folders}


def test_nothing_is_written_beside_the_table(filled: JobFile, warehouse: Path) -> None:
    root = RouteRun(filled).root()
    assert warehouse in root.parents
    topic = filled.route.topics[0]
    strays = [
        Path(base, name)
        for base, _, names in os.walk(warehouse)
        for name in names
        if topic in name and root not in Path(base, name).parents
    ]
    assert strays == []


def test_both_verifiers_find_every_row_once_with_its_own_text(
    filled: JobFile, bootstrap_servers: str, metastore_uri: str
) -> None:
    RouteRun(filled).assert_verified()
    database, _, name = filled.table.partition(".")
    expectation = reader.Expectation(
        required=frozenset({"id"}),
        event_time=("id",),
        partition_by={"place": "column:city"},
        tombstones="skip",
    )
    report = reader.verify(
        bootstrap_servers, metastore_uri, database, name, filled.route.topics, expectation
    )
    assert report.details == ()
    assert report.ok
    assert report.written == 2 * len(_fine())
    assert report.dirty == 2 * (len(PAYLOADS) - len(_fine()))


def test_second_run_adds_no_partition_and_finds_its_own(
    filled: JobFile, bootstrap_servers: str
) -> None:
    before = RouteRun(filled).partitions()
    (topic,) = filled.route.topics
    more = [json.dumps({"id": 1, "city": each}).encode() for each in ("..", "a/b", "%2e", "'")]
    TopicWriter(bootstrap_servers).write(topic, [*more, b'{"id": 2}'])
    RouteRun(filled).catch_up()
    after = RouteRun(filled).partitions()
    assert after.keys() - before.keys() == {DEFAULT_PARTITION}
    assert before.items() <= after.items()
