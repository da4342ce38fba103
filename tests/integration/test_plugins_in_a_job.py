"""A job whose source, format, catalog and storage are plug-ins, on real servers."""

import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from sluiceway.audit.job_status import job_status
from sluiceway.audit.run_verify import verify_route
from sluiceway.audit.source_offsets import route_offsets
from sluiceway.observe.log import stderr_log
from sluiceway.plugins import PluginGroup, installed_plugins
from sluiceway.sinks.partition_path import DEFAULT_PARTITION
from tools.job_files import JobFile, event, write_job
from tools.lab_fixture import TopicFactory
from tools.plugin_packages import write_package
from tools.region_partitioner import PACKAGE_CODE as REGIONS
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

PACKAGE = "plugin_of_everything"
CODE = '''
from dataclasses import replace

from sluiceway.formats.contract import RowDecoder
from sluiceway.formats.json.decoder import JsonDecoder
from sluiceway.sinks.hive.table import InspectedHiveTable
from sluiceway.sinks.hive.table import HiveTableSink
from sluiceway.sources.contract import Source
from sluiceway.sources.kafka.source import KafkaSource
from tools.mapped_storage import open_mapped


class Stream(Source):
    """Kafka under other names of the options."""

    def check(self, options):
        if set(options) != {"brokers"}:
            raise ValueError("stream has the option brokers")

    def open_client(self, options, *, request_timeout_s):
        return KafkaSource().open_client(_kafka(options), request_timeout_s=request_timeout_s)

    def open_reader(self, splits, options, *, owner):
        return KafkaSource().open_reader(splits, _kafka(options), owner=owner)


def _kafka(options):
    return {"bootstrap.servers": options["brokers"]}


class Shifted(RowDecoder):
    """JSON whose every byte is one too high."""

    def __init__(self, schema):
        self._json = JsonDecoder(schema)

    @property
    def arrow_schema(self):
        return self._json.arrow_schema

    def decode(self, payloads):
        return self._json.decode([p and bytes((b - 1) % 256 for b in p) for p in payloads])


def shifted(schema, options):
    return Shifted(schema)


class Catalog(HiveTableSink):
    """Tables whose folders are named by a scheme that the storage plug-in serves."""

    def open(self):
        return _moved(super().open(), "file:", "mapped:")

    def mark_ledger(self, state, ledger):
        super().mark_ledger(_moved(state, "mapped:", "file:"), ledger)

    def apply(self, partitions):
        assert all(p.location.startswith("mapped:/") for p in partitions)
        plain = [replace(p, location=p.location.removeprefix("mapped:")) for p in partitions]
        return super().apply(plain)


    def find(self):
        return _identity(super().find(), "file:", "mapped:")

    def inspect(self):
        table = super().inspect()
        table.identity = _identity(table.identity, "file:", "mapped:")
        table.__class__ = Seen
        return table


class Seen(InspectedHiveTable):
    def state(self):
        return _moved(super().state(), "file:", "mapped:")

    def partitions(self, wanted):
        return _shown(super().partitions(wanted))

    def other_partitions(self, wanted):
        return _shown(super().other_partitions(wanted))


def _shown(found):
    return {
        values: replace(each, location=each.location.replace("file:", "mapped:", 1))
        for values, each in found.items()
    }


def _moved(state, old, new):
    return replace(state, identity=_identity(state.identity, old, new))


def _identity(identity, old, new):
    return replace(identity, location=identity.location.replace(old, new, 1))


def catalog(table, options):
    assert table.metastore == ""
    return Catalog(replace(table, metastore=options["address"]))
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    groups = {
        PluginGroup.SOURCES: {"stream": "Stream"},
        PluginGroup.FORMATS: {"shifted": "shifted"},
        PluginGroup.SINKS: {"catalog": "catalog"},
        PluginGroup.STORAGE: {"mapped": "open_mapped"},
    }
    folder = tmp_path / "installed"
    folder.mkdir()
    for number, (group, entries) in enumerate(groups.items()):
        write_package(folder, f"{PACKAGE}_{number}", str(group), entries, CODE)
    monkeypatch.syspath_prepend(folder)
    installed_plugins.cache_clear()
    yield
    installed_plugins.cache_clear()
    for number in range(len(groups)):
        sys.modules.pop(f"{PACKAGE}_{number}", None)


@pytest.mark.usefixtures("package")
def test_rows_come_through_plugins_once(
    bootstrap_servers: str,
    metastore_uri: str,
    warehouse: Path,
    new_topic: TopicFactory,
    tmp_path: Path,
) -> None:
    topic = new_topic(2)
    job = write_job(
        tmp_path, bootstrap_servers=bootstrap_servers, metastore_uri=metastore_uri, topic=topic
    )
    text = job.path.read_text()
    for old, new in (
        (f'{{kafka: {{bootstrap_servers: "{bootstrap_servers}"}}}}', "{stream: {brokers: '%s'}}"),
        (f'{{metastore: {{uri: "{metastore_uri}"}}}}', "{catalog: {address: '%s'}}"),
        ("{json: {tombstones: skip}}", "{shifted: {}}"),
    ):
        assert old in text
        value = bootstrap_servers if "kafka" in old else metastore_uri
        text = text.replace(old, new % value if "%s" in new else new)
    job.path.write_text(text)
    writer = TopicWriter(bootstrap_servers)
    run = RouteRun(JobFile(job.path, job.table))
    for start in (0, 40):
        numbers = range(start, start + 40)
        for partition in (0, 1):
            values = [_shifted(event(n)) for n in numbers if n % 2 == partition]
            writer.write(topic, values, partition=partition)
        run.catch_up()
    database, _, table = job.table.partition(".")
    files = [str(p) for p in (warehouse / f"{database}.db" / table).glob("dt=*/hr=*/*.parquet")]
    rows = duckdb.execute("SELECT id FROM read_parquet(?) ORDER BY id", [files]).fetchall()
    assert [row[0] for row in rows] == list(range(80))
    # Commands that look find the table through the plug-in as well.
    report = run.verified()
    assert (report.rows, report.offsets) == (80, 80)
    (folder,) = {str(Path(file).parent) for file in files}
    Path(folder).rename(f"{folder}-away")
    assert not verify_route(run.config(), deep=False).verified
    Path(f"{folder}-away").rename(folder)
    offsets = route_offsets(run.config())
    assert [each.committed_end for each in offsets.partitions] == [40, 40]
    assert (offsets.problems, offsets.broker_error) == ((), None)
    (seen,) = job_status(run.job.spec, stderr_log()).routes
    assert seen.fold is not None
    assert seen.fold.counts.written == 80


@pytest.fixture
def regions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "installed"
    folder.mkdir()
    entries = {"regions": "open_regions"}
    write_package(folder, "regions_plugin", str(PluginGroup.PARTITIONERS), entries, REGIONS)
    monkeypatch.syspath_prepend(folder)
    installed_plugins.cache_clear()
    yield
    installed_plugins.cache_clear()
    sys.modules.pop("regions_plugin", None)


@pytest.mark.usefixtures("regions")
def test_rows_are_where_a_partitioner_says(
    bootstrap_servers: str, metastore_uri: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = new_topic(1)
    regions = "partitioner: {regions: {buckets: 2}}"
    job = write_job(
        tmp_path,
        bootstrap_servers=bootstrap_servers,
        metastore_uri=metastore_uri,
        topic=topic,
        partition_by=f"[{{name: region, {regions}}}, {{name: bucket, {regions}}}]",
        event_time="",
    )
    cities = ["de-berlin", "de-bonn", "nowhere", None, "a/b-c", ".."]
    rows = [event(number, city=city) for number, city in enumerate(cities)]
    TopicWriter(bootstrap_servers).write(topic, rows)
    run = RouteRun(job)
    run.catch_up()
    assert set(run.partitions()) == {
        "de/0", "de/1", f"{DEFAULT_PARTITION}/1", "a/b/0", "../1",
    }  # fmt: skip
    folders = {f"{path.parent.parent.name}/{path.parent.name}" for path in _data_files(run)}
    assert folders == {
        "region=de/bucket=0", "region=de/bucket=1", f"region={DEFAULT_PARTITION}/bucket=1",
        "region=a%2Fb/bucket=0", "region=../bucket=1",
    }  # fmt: skip
    assert run.dirty("reason, message, path") == [
        ("bad_partition_value", "nowhere is in no region", "")
    ]
    run.assert_verified()


def _data_files(run: RouteRun) -> list[Path]:
    return [path for path in run.root().rglob("*.parquet") if "_sluiceway" not in path.parts]


def _shifted(payload: bytes) -> bytes:
    return bytes((byte + 1) % 256 for byte in payload)
