"""Locations: one place, many spellings; where a table's folder may be made."""

from pathlib import Path

import pytest

from sluiceway.catalog.connection import parse_metastore_uris
from sluiceway.errors import JobFileError, UnhealthyEnvironmentError
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.loader import load_job
from sluiceway.storage.local import LocalStorage
from sluiceway.storage.locations import (
    is_absolute_location,
    normalise_location,
    path_below,
    qualify_location,
    refuse_missing_parent,
    same_location,
)
from tools.table_on_disk import table_on_disk


@pytest.mark.parametrize(
    "spelling",
    [
        "/x/y",
        "/x/y/",
        "//x//y",
        "file:/x/y",
        "file:///x/y",
        "FILE:///x/y//",
        "file://localhost/x/y",
    ],
)
def test_normalise_file_spellings_are_one_path(spelling: str) -> None:
    if spelling == "//x//y":  # an authority and a path, not a path
        assert normalise_location(spelling) == "://x/y"
        return
    assert normalise_location(spelling) == "/x/y"


def test_normalise_percent_is_part_of_the_name() -> None:
    assert normalise_location("file:/t/q=a%2Fb") == "/t/q=a%2Fb"
    assert not same_location("file:/t/q=a%2Fb", "/t/q=a/b")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("hdfs://ns/x", "HDFS://ns/x/", True),
        ("hdfs://ns/x", "hdfs://namenode:8020/x", False),
        ("hdfs://ns/x", "/x", False),
        ("s3a://b/x", "s3://b/x", True),
        ("s3a://b/x", "oss://b/x", False),
        ("hdfs://nn:8020/x", "hdfs://nn/x", True),
        ("hdfs://nn:9000/x", "hdfs://nn/x", False),
        ("hdfs:///x", "hdfs://nn:8020/x", True),
        ("hdfs:/x", "hdfs://ns/x", True),
        ("hdfs:///x", "viewfs:///x", False),
        ("hdfs:///x", "/x", False),
        ("file://host/x", "/x", False),
        ("/x/q=08:00", "file:/x/q=08:00", True),
        ("/X", "/x", False),
        ("/", "file:///", True),
    ],
)
def test_same_location_compares_places(one: str, other: str, *, same: bool) -> None:
    assert same_location(one, other) is same


@pytest.mark.parametrize(
    ("location", "name", "inside"),
    [
        ("file:///w/t", "file:/w/t/data/a.parquet", "data/a.parquet"),
        ("file:/w/t/", "/w/t/data/a=%2F", "data/a=%2F"),
        ("/w/t", "file://localhost/w/t/x", "x"),
        ("s3a://b/t", "s3://b/t/data/x", "data/x"),
        ("s3n://b/t", "s3n://b/t/data//x", "data//x"),
        ("hdfs://nn/t", "hdfs://nn:8020/t/x", "x"),
        ("hdfs:///t", "hdfs://nn/t/x", "x"),
        ("file:///w/t", "file:///w/t", None),
        ("file:///w/t", "file:///w/tt/x", None),
        ("s3a://b/t", "s3a://c/t/x", None),
        ("hdfs://a/t", "hdfs://b/t/x", None),
        ("/w/t", "s3a://w/t/x", None),
        ("/", "file:/x", "x"),
    ],
)
def test_a_file_is_below_its_folder_however_they_are_spelt(
    location: str, name: str, inside: str | None
) -> None:
    assert path_below(location, name) == inside


@pytest.mark.parametrize(
    ("location", "table", "expected"),
    [
        ("/t/p", "file:/t", "file:///t/p"),
        ("/t/p", "hdfs://ns/t", "hdfs://ns/t/p"),
        ("/t/p", "/t", "/t/p"),
        ("s3a://b/p", "hdfs://ns/t", "s3a://b/p"),
    ],
)
def test_qualify_takes_the_tables_file_system(location: str, table: str, expected: str) -> None:
    assert qualify_location(location, table) == expected


@pytest.mark.parametrize(
    ("location", "absolute"),
    [("/x", True), ("file:/x", True), ("hdfs://ns/x", True), ("x/y", False), ("file:x", False)],
)
def test_is_absolute_location(location: str, *, absolute: bool) -> None:
    assert is_absolute_location(location) is absolute


def test_parse_metastore_uris_reads_several() -> None:
    assert parse_metastore_uris("thrift://a:9083, thrift://[::1]:1/") == (("a", 9083), ("::1", 1))


@pytest.mark.parametrize("text", ["", "a:9083", "thrift://a", "thrift://:1", "http://a:1"])
def test_parse_metastore_uris_odd_text_raises(text: str) -> None:
    with pytest.raises(JobFileError, match="expected thrift://"):
        parse_metastore_uris(text)


def test_folder_below_one_that_is_missing_is_refused_and_comes_back_by_itself(
    tmp_path: Path,
) -> None:
    table = tmp_path / "disk" / "ods.db" / "orders"
    with pytest.raises(UnhealthyEnvironmentError, match=r"ods\.db does not exist") as refused:
        refuse_missing_parent(LocalStorage(), f"file:{table}", create=False)
    assert refused.value.mendable
    assert "create_location: true" in refused.value.hint
    assert list(tmp_path.iterdir()) == []
    # The disk is mounted.
    table.parent.mkdir(parents=True)
    refuse_missing_parent(LocalStorage(), f"file:{table}", create=False)


def test_folder_below_one_that_is_missing_is_taken_when_the_job_file_says_so(
    tmp_path: Path,
) -> None:
    table = tmp_path / "disk" / "orders"
    assert LocalStorage().missing_parent(str(table)) == str(table.parent)
    refuse_missing_parent(LocalStorage(), str(table), create=True)


def test_job_file_says_whether_missing_folders_are_made(tmp_path: Path) -> None:
    job = table_on_disk(tmp_path).job
    text = job.read_text()
    assert text.count("name: ods.orders,") == 1
    for said, created in (("", False), (" create_location: true,", True)):
        job.write_text(text.replace("name: ods.orders,", f"name: ods.orders,{said}"))
        (route,) = load_job(job).spec.routes
        assert compile_route(route).table.create_location is created
