"""How plug-ins are found, and what is told when one is not fit."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sluiceway.cli.job_file import parse_checked_job
from sluiceway.errors import JobFileError, UnhealthyEnvironmentError
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.plugins import PluginGroup, find_implementation, installed_plugins, plugin_names
from sluiceway.sinks.registry import CatalogAccess, open_sink
from sluiceway.sinks.table_options import TableOptions
from sluiceway.sources.registry import SourceAccess, check_access, open_client, open_reader
from sluiceway.storage.access import StoreAccess, Stores
from sluiceway.storage.registry import open_storage
from sluiceway.types.schema import Field, IntegerType, Schema
from tools.plugin_packages import write_package

SCHEMA = Schema((Field("id", IntegerType(64)),))
Install = Callable[..., None]
BUILT_IN = object()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs packages for the time of the test."""
    monkeypatch.syspath_prepend(tmp_path)
    names: list[str] = []

    def put(name: str, group: PluginGroup, entries: dict[str, str], code: str = "") -> None:
        write_package(tmp_path, name, str(group), entries, code)
        names.append(name)
        installed_plugins.cache_clear()

    yield put
    for name in names:
        sys.modules.pop(name, None)
    installed_plugins.cache_clear()


def find(name: str) -> Any:
    return find_implementation(PluginGroup.FORMATS, name, {"json": BUILT_IN})


def test_names_are_those_of_all_packages_and_nothing_is_imported(install: Install) -> None:
    install("plugin_one", PluginGroup.FORMATS, {"b": "x", "a": "x"}, "raise SystemError")
    install("plugin_two", PluginGroup.FORMATS, {"c": "x"})
    install("plugin_three", PluginGroup.STORAGE, {"d": "x"})
    assert plugin_names(PluginGroup.FORMATS) == ("a", "b", "c")
    assert "plugin_one" not in sys.modules


def test_plugin_is_found_by_its_name(install: Install) -> None:
    install("plugin_one", PluginGroup.FORMATS, {"a": "here"}, "here = 'it is'")
    assert find("a") == "it is"
    assert find("json") is BUILT_IN


def test_built_in_that_is_named_is_imported_when_it_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_built_in.py").write_text("here = 'it is'")
    monkeypatch.syspath_prepend(tmp_path)
    built_in = {"json": "own_built_in:here", "raw": "no_such_module:here"}
    assert "own_built_in" not in sys.modules
    assert find_implementation(PluginGroup.FORMATS, "json", built_in) == "it is"
    monkeypatch.delitem(sys.modules, "own_built_in")


def test_unknown_name_lists_what_is_there(install: Install) -> None:
    install("plugin_one", PluginGroup.FORMATS, {"a": "here"})
    with pytest.raises(UnhealthyEnvironmentError, match=r"'cvs' in sluiceway.formats.*a, json"):
        find("cvs")


def test_name_of_two_packages_is_refused_by_their_names(install: Install) -> None:
    install("plugin_one", PluginGroup.FORMATS, {"a": "here"})
    install("plugin_two", PluginGroup.FORMATS, {"a": "here"})
    with pytest.raises(
        UnhealthyEnvironmentError, match=r"2 packages .* 'a' .*plugin_one 1\.0, plugin_two 1\.0"
    ):
        find("a")


def test_name_of_a_built_in_is_refused_whoever_was_first(install: Install) -> None:
    install("plugin_one", PluginGroup.FORMATS, {"json": "here"})
    with pytest.raises(UnhealthyEnvironmentError, match=r"sluiceway, plugin_one 1\.0"):
        find("json")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import no_such_module_here", "ModuleNotFoundError: No module named"),
        ("def broken(", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
        ("other = 1", "AttributeError"),
    ],
)
def test_plugin_that_fails_on_import_names_its_package(
    install: Install, code: str, reason: str
) -> None:
    install("plugin_bad", PluginGroup.FORMATS, {"bad": "here"}, code)
    with pytest.raises(UnhealthyEnvironmentError, match=rf"plugin_bad 1\.0 fails on.*{reason}"):
        find("bad")


def test_format_with_a_fault_of_its_own_is_told_as_such(install: Install) -> None:
    code = "def opened(schema, options):\n    raise KeyError('x')\n"
    install("plugin_bad", PluginGroup.FORMATS, {"bad": "opened"}, code)
    with pytest.raises(UnhealthyEnvironmentError, match=r"'bad' of sluiceway\.formats fails"):
        open_decoder(FormatChoice("bad"), SCHEMA)


def test_format_that_opens_something_else_is_told_as_such(install: Install) -> None:
    install("plugin_bad", PluginGroup.FORMATS, {"bad": "opened"}, "opened = lambda *_: 'x'")
    with pytest.raises(UnhealthyEnvironmentError, match="opens a str, not a RowDecoder"):
        open_decoder(FormatChoice("bad"), SCHEMA)


def test_storage_serves_its_scheme(install: Install) -> None:
    code = """\
from sluiceway.storage.local import LocalStorage


def opened(location, options):
    return LocalStorage(), location.replace("MEMFS", "memfs") + options.get("suffix", "")
"""
    install("plugin_store", PluginGroup.STORAGE, {"memfs": "opened"}, code)
    assert open_storage("MEMFS://t")[1] == "memfs://t"
    assert open_storage("memfs://t")[1] == "memfs://t"
    assert open_storage("/plain")[1] == "/plain"
    stores = Stores((StoreAccess("memfs", (("suffix", "-x"),)), StoreAccess("s3")))
    assert open_storage("memfs://t", stores)[1] == "memfs://t-x"
    with pytest.raises(UnhealthyEnvironmentError, match="one of file, hdfs, memfs, s3, got gs://b"):
        open_storage("gs://b/t")


def test_storage_that_names_its_places_like_local_ones_is_refused(install: Install) -> None:
    code = "def opened(location, options):\n    return None, '/w/t'\n"
    install("plugin_store", PluginGroup.STORAGE, {"memfs": "opened"}, code)
    with pytest.raises(UnhealthyEnvironmentError, match="as /w/t, which is not its scheme"):
        open_storage("memfs://t")


def test_source_is_opened_from_options_alone(install: Install) -> None:
    code = """\
from unittest.mock import create_autospec

from sluiceway.sources.contract import Source, SourceClient


class Queue(Source):
    def check(self, options):
        if "where" not in options:
            raise ValueError("expected the option where")

    def open_client(self, options, *, request_timeout_s):
        client = create_autospec(SourceClient, instance=True)
        client.list_topics.return_value = (options["where"], request_timeout_s)
        return client

    def open_reader(self, splits, options, *, owner):
        return None


odd = print
"""
    install("plugin_queue", PluginGroup.SOURCES, {"queue": "Queue", "odd": "odd"}, code)
    access = SourceAccess("queue", (("where", "here"),))
    check_access(access)
    listed: Any = open_client(access, 3.0).list_topics()
    assert listed == ("here", 3.0)
    with pytest.raises(UnhealthyEnvironmentError, match="opens a NoneType, not a SplitReader"):
        open_reader(access, [], owner="o")
    with pytest.raises(ValueError, match="expected the option where"):
        check_access(SourceAccess("queue", ()))
    with pytest.raises(UnhealthyEnvironmentError, match="opens a NoneType, not a Source"):
        check_access(SourceAccess("odd", ()))


def test_sink_is_opened_from_the_table_and_the_options(install: Install) -> None:
    code = """\
from unittest.mock import create_autospec

from sluiceway.sinks.contract import TableSink


def opened(table, options):
    sink = create_autospec(TableSink, instance=True)
    sink.open.return_value = (table.table, dict(options))
    return sink
"""
    install("plugin_catalog", PluginGroup.SINKS, {"glue": "opened"}, code)
    table = TableOptions("", "ods", "t", SCHEMA, ())
    state: Any = open_sink(CatalogAccess("glue", (("region", "x"),)), table).open()
    assert state == ("t", {"region": "x"})


def test_options_are_never_shown() -> None:
    options = (("password", "hush"),)
    for value in (
        FormatChoice("a", options),
        SourceAccess("a", options),
        CatalogAccess("a", options),
    ):
        assert "hush" not in repr(value)


JOB = """\
version: 1
name: small
connections:
  main: {queue: {where: here, password: "${env:WORD}"}}
  lake: {glue: {region: 7}}
source: {connection: main, topics: [t]}
format: {lines: {depth: 012, strict: true}}
table:
  hive: {connection: lake, name: ods.t}
  columns: [{name: id, type: bigint}]
  partition_by: []
"""


@pytest.fixture
def packages(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORD", "hush")
    source = """\
from sluiceway.sources.contract import Source


class Queue(Source):
    def check(self, options):
        if options["where"] != "here":
            raise ValueError("where has to be here")

    def open_client(self, options, *, request_timeout_s):
        return None

    def open_reader(self, splits, options, *, owner):
        return None
"""
    lines = """\
from sluiceway.formats.json.decoder import JsonDecoder


def opened(schema, options):
    if options.get("strict") != "true":
        raise ValueError("strict is true here")
    return JsonDecoder(schema)
"""
    install("plugin_queue", PluginGroup.SOURCES, {"queue": "Queue"}, source)
    install("plugin_catalog", PluginGroup.SINKS, {"glue": "opened"}, "opened = print")
    install("plugin_store", PluginGroup.STORAGE, {"s3": "opened"}, "opened = print")
    install("plugin_lines", PluginGroup.FORMATS, {"lines": "opened", "ion": "opened"}, lines)


def load(text: str) -> Any:
    job = parse_checked_job(text.encode(), Path("job.yaml"))
    return compile_route(job.spec.routes[0])


@pytest.mark.usefixtures("packages")
def test_job_file_names_plugins_and_their_options_as_they_are_written() -> None:
    config = load(JOB)
    assert config.format == FormatChoice("lines", (("depth", "012"), ("strict", "true")))
    assert config.source == SourceAccess("queue", (("password", "hush"), ("where", "here")))
    assert config.catalog == CatalogAccess("glue", (("region", "7"),))
    assert config.table.metastore == ""
    assert load(JOB.replace("{lines:", "{ion:")).format.name == "ion"
    place = "{connection: lake, name: ods.t, location: 's3://bucket/t'}"
    moved = load(JOB.replace("{connection: lake, name: ods.t}", place))
    assert moved.table.location == "s3://bucket/t"


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("{lines:", "{line:", "7:10: unknown key `line`; did you mean `lines`?"),
        ("strict: true", "strict: no-no", "7:17: expected a format that reads the columns"),
        ("where: here", "where: gone", "4:10: connections.main: where has to be here; correct"),
        ("{depth: 012, strict: true}", "[a]", "7:17: expected a mapping"),
        ("depth: 012", "depth: [1]", "expected text, a number, true or false"),
        ("}}\ntable", "}, json: {}}\ntable", "expected exactly one of json, "),
        (
            "connection: main",
            "connection: lake",
            "expected the name of a kafka or rocketmq or queue",
        ),
        (
            "connection: lake",
            "connection: main",
            "expected the name of a metastore or folder or glue",
        ),
        ('"${env:WORD}"', "plain", "expected `password` from a reference, got plain text"),
    ],
)
def test_what_is_wrong_with_a_plugin_in_a_job_file_is_told_where(
    old: str, new: str, problem: str
) -> None:
    assert old in JOB
    with pytest.raises(JobFileError) as told:
        load(JOB.replace(old, new))
    assert problem in told.value.message


def test_job_file_without_the_plugin_is_not_valid() -> None:
    with pytest.raises(JobFileError, match="unknown key `lines`; known here: json"):
        load(JOB)
