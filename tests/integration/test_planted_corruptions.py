"""Both verifiers against a real table that is damaged in every way that `tools` knows."""

import json
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from sluiceway.audit.run_verify import verify_route
from tools import independent_reader as reader
from tools.corruption import Corruption
from tools.file_corruptions import FILE_CORRUPTIONS
from tools.independent_ledger import ledger_faults
from tools.job_files import JobFile, write_job
from tools.lab_fixture import TopicFactory
from tools.ledger_corruptions import LOG_CORRUPTIONS, METASTORE_CORRUPTIONS
from tools.planted_table import PlantedTable
from tools.raw_metastore import raw_client
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

CORRUPTIONS = (*FILE_CORRUPTIONS, *LOG_CORRUPTIONS, *METASTORE_CORRUPTIONS)
HOUR_MS = 3_600_000
START_MS = 1_795_161_600_000
COLUMNS = """\
    - {name: id, type: bigint, required: true}
    - {name: ts, type: bigint, required: true}
    - {name: city, type: string}
    - {name: amount, type: "decimal(18,2)"}
    - {name: ratio, type: double}
    - {name: seen, type: timestamp, unit: ms}
    - {name: geo, type: "struct<lat:double,name:string>"}
    - {name: tags, type: "array<string>"}
"""
EXPECTATION = reader.Expectation(
    required=frozenset({"id", "ts"}), time_units={"seen": "ms"}, tombstones="dirty"
)


def _payload(number: int) -> bytes:
    """Rows 0, 1 and 2 of each hour hold what careless readers change."""
    place = number // 3 % 4
    text = json.dumps(
        {
            "id": 2**53 + 1 + 2 * number,
            "ts": START_MS + number % 3 * HOUR_MS + number,
            "city": [None, "Bern", "", "K\u00f6ln"][place],
            "ratio": [-0.0, 0.1, 1e300, 3.5][place],
            "seen": START_MS + number * 1001,
            "geo": [{"lat": -0.0, "name": "x"}, {"lat": 1.5, "name": None}, None, {}][place],
            "tags": [[], ["a", None], None, ["b"]][place],
            "amount": "@",
        }
    )
    return text.replace('"@"', f"{number}.25").encode()


@pytest.fixture(scope="module")
def job(
    bootstrap_servers: str,
    metastore_uri: str,
    new_topic: TopicFactory,
    tmp_path_factory: pytest.TempPathFactory,
) -> JobFile:
    topic = new_topic(2)
    made = write_job(
        tmp_path_factory.mktemp("job"),
        bootstrap_servers=bootstrap_servers,
        metastore_uri=metastore_uri,
        topic=topic,
        columns=COLUMNS,
        tombstones="dirty",
    )
    writer = TopicWriter(bootstrap_servers)
    for first in (0, 24):
        for partition in (0, 1):
            rows = [_payload(first + number) for number in range(24)]
            writer.write(topic, [*rows, b'{"id": 1, "broken', None], partition=partition)
        RouteRun(made).catch_up()
    return made


@pytest.fixture(scope="module")
def once(
    job: JobFile, metastore_uri: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PlantedTable]:
    database, _, name = job.table.partition(".")
    with raw_client(metastore_uri) as client:
        root = RouteRun(job).root()
        kept = tmp_path_factory.mktemp("kept") / "table"
        table = PlantedTable(root, job.route.route, database, name, client, kept)
        table.keep()
        yield table


@pytest.fixture
def table(once: PlantedTable) -> Iterator[PlantedTable]:
    yield once
    once.restore()


@pytest.fixture(scope="module")
def rows(job: JobFile, bootstrap_servers: str) -> list[reader.BrokerRecord]:
    return list(reader.broker_records(bootstrap_servers, job.route.topics))


def _verified(job: JobFile, *, deep: bool) -> set[str]:
    report = verify_route(job.route, deep=deep)
    kinds = {problem.kind for problem in report.problems}
    return kinds | ({"foreign"} if report.foreign and not kinds else set())


def _read(
    table: PlantedTable, job: JobFile, rows: list[reader.BrokerRecord], uri: str
) -> dict[str, Any]:
    raw = table.client.get_table(table.database, table.name)
    named = raw.parameters.get("sluiceway.ledger", "")
    found: dict[str, Any] = {}
    faults = ledger_faults(table.root, table.route, job=job.route.job, named=named)
    if faults:
        found["ledger"] = faults
    try:
        view = reader.table_view(uri, database=table.database, table=table.name)
        report = reader.check(rows, view, EXPECTATION)
    except duckdb.Error as error:
        return found | {"unreadable": str(error)}
    counts = json.loads(report.line())
    return found | {
        key: value
        for key, value in counts.items()
        if value and key not in ("read", "written", "dirty", "tombstones")
    }


def test_both_verifiers_accept_the_table_as_it_is(
    table: PlantedTable, job: JobFile, rows: list[reader.BrokerRecord], metastore_uri: str
) -> None:
    assert _verified(job, deep=True) == set()
    assert _verified(job, deep=False) == set()
    assert _read(table, job, rows, metastore_uri) == {}
    table.reseal()
    assert _verified(job, deep=True) == set(), "a log written anew from its values is the same"


@pytest.mark.parametrize("corruption", CORRUPTIONS, ids=lambda one: one.name)
def test_planted_corruption_is_seen(
    table: PlantedTable,
    job: JobFile,
    rows: list[reader.BrokerRecord],
    metastore_uri: str,
    corruption: Corruption,
) -> None:
    corruption.plant(table)
    for wanted, deep in ((corruption.deep, True), (corruption.quick, False)):
        found = _verified(job, deep=deep)
        assert wanted is None or (wanted in found if wanted else not found)
    seen = _read(table, job, rows, metastore_uri)
    assert corruption.reader in seen if corruption.reader else not seen


def test_corruptions_are_many_and_a_blind_spot_has_a_reason() -> None:
    assert len(CORRUPTIONS) >= 50
    assert len({one.name for one in CORRUPTIONS}) == len(CORRUPTIONS)
    blind = [one for one in CORRUPTIONS if not (one.deep and one.quick and one.reader)]
    assert [one.name for one in blind if not one.why] == []
