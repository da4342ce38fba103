"""A route that needs no further look fits indeed: nothing that would read its rows refuses it."""

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from sluiceway.cli.job_file import inspect_checked_job
from sluiceway.cli.views.row_checks import unfit_rows
from sluiceway.jobfile.compile.unnamed_routes import surely_fits

EXAMPLE = Path(__file__).parents[2] / "examples" / "orders.yaml"
TYPES = st.sampled_from(
    [
        *("boolean", "tinyint", "int", "bigint", "float", "double", "decimal(18,2)", "string"),
        *("varchar(5)", "char(3)", "binary", "date", "timestamp", "timestamp_ntz"),
        *("array<int>", "array<binary>", "map<string,int>", "map<int,string>", "map<date,int>"),
        *("struct<a:int,b:string>", "struct<a:array<struct<c:decimal(5,1)>>>"),
    ]
)
NAMES = ["a", "b", "ts", "dt"]
COLUMNS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(NAMES), "type": TYPES},
        optional={
            "required": st.booleans(),
            "unit": st.sampled_from(["s", "ms"]),
            "trim": st.booleans(),
            "default": st.sampled_from([1, "x"]),
            "transient": st.booleans(),
            "path": st.sampled_from(["x", "x.y"]),
        },
    ),
    min_size=1,
    max_size=4,
)
TIMES = st.none() | st.fixed_dictionaries(
    {"field": st.sampled_from([*NAMES, "a.b", "$record_time"])},
    optional={"unit": st.sampled_from(["s", "ns", "iso8601"]), "timezone": st.just("Asia/Tokyo")},
)
PARTS = st.lists(
    st.one_of(
        st.fixed_dictionaries({"name": st.just("day"), "event_time": st.just("yyyyMMdd")}),
        st.fixed_dictionaries({"name": st.just("day"), "record_time": st.just("yyyy-MM")}),
        st.fixed_dictionaries({"name": st.just("kind"), "constant": st.just("x")}),
        st.sampled_from(NAMES).map(lambda name: {"name": name, "column": name}),
    ),
    max_size=2,
)
FORMATS = st.sampled_from(
    [
        {"json": {}},
        {"json": {"unknown_fields": "dirty"}},
        {"json": {"engine": "library"}},
        {"csv": {}},
    ]
)
STORED = st.sampled_from([{}, {"file_format": "parquet"}, {"file_format": "orc"}])


@pytest.fixture(autouse=True, scope="module")
def _environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLUICEWAY_KAFKA", "k1:9092")
        patch.setenv("SLUICEWAY_METASTORE", "thrift://hms:9083")
        yield


@settings(max_examples=200, deadline=None)
@given(COLUMNS, TIMES, PARTS, FORMATS, STORED, st.none() | st.just("a is null"))
def test_what_surely_fits_is_refused_by_nothing_that_reads_the_rows(
    columns: list[dict[str, Any]],
    times: dict[str, Any] | None,
    parts: list[dict[str, Any]],
    payload: dict[str, Any],
    stored: dict[str, str],
    where: str | None,
) -> None:
    told: dict[str, Any] = YAML(typ="safe").load(EXAMPLE)
    told["table"] |= {"columns": columns, "partition_by": parts}
    told["table"]["hive"] |= stored
    told["format"] = payload
    told.pop("event_time", None)
    told |= {} if times is None else {"event_time": times}
    told |= {} if where is None else {"where": where}
    assert _refused_though_sure(_yaml(told)) == []


def test_the_example_surely_fits_and_is_refused_by_nothing() -> None:
    job = inspect_checked_job(EXAMPLE.read_bytes(), EXAMPLE).job
    assert job is not None
    assert surely_fits(job.spec.routes[0])
    assert _refused_though_sure(EXAMPLE.read_bytes()) == []


def _refused_though_sure(content: bytes) -> list[str]:
    read = inspect_checked_job(content, EXAMPLE)
    if read.job is None or read.problems:
        return []
    return [
        problem.text
        for number, route in enumerate(read.job.spec.routes)
        if surely_fits(route)
        for problem in unfit_rows(read.job, number, route)
    ]


def _yaml(told: Mapping[str, Any]) -> bytes:
    made = io.BytesIO()
    YAML(typ="safe").dump(told, made)
    return made.getvalue()
