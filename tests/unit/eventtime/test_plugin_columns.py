"""Partition columns by a plug-in: its texts, its refusals, and what it may not answer."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from sluiceway.errors import SourceUnavailableError, UnhealthyEnvironmentError
from sluiceway.eventtime.partition_values import NO_TIMES
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.loader import parse_job
from sluiceway.partitioners import registry
from sluiceway.partitioners.contract import Partitioner, PartitionTexts
from sluiceway.partitioners.registry import PartitionerChoice
from sluiceway.plugins import PluginGroup, installed_plugins
from sluiceway.types.dirty import DirtyReason
from sluiceway.worker.plan import PartitionRule
from sluiceway.worker.row_check import row_problem
from sluiceway.worker.row_times import partition_assigner
from tools.plugin_packages import write_package
from tools.region_partitioner import PACKAGE_CODE, open_regions

ROWS = pa.record_batch(
    {
        "id": pa.array([0, 1, 2, 3, 4, 5]),
        "city": pa.array(["de-berlin", "de-bonn", "nowhere", None, "", "a/b"]),
        "app": pa.array(["x"] * 6),
    }
)
JOB = """\
version: 1
name: small
connections: {main: {kafka: {bootstrap_servers: "k:1"}}, hms: {metastore: {uri: "thrift://h:1"}}}
source: {connection: main, topics: [t], start: earliest}
format: {json: {}}
table:
  hive: {connection: hms, name: ods.t}
  columns: [{name: id, type: bigint}, {name: city, type: string}]
  partition_by:
    - {name: region, partitioner: {regions: {buckets: 2}}}
    - {name: bucket, partitioner: {regions: {buckets: 2}}}
"""


def _rules(*names: str, buckets: str = "2") -> tuple[PartitionRule, ...]:
    choice = PartitionerChoice("regions", (("buckets", buckets),))
    return tuple(PartitionRule(name, None, None, partitioner=choice) for name in names)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    write_package(
        tmp_path, "regions_of_a_test", str(PluginGroup.PARTITIONERS),
        {"regions": "open_regions"}, PACKAGE_CODE,
    )  # fmt: skip
    monkeypatch.syspath_prepend(tmp_path)
    installed_plugins.cache_clear()
    yield
    installed_plugins.cache_clear()


@pytest.mark.usefixtures("package")
def test_rows_go_where_the_plugin_says_or_are_dirty_with_its_reason() -> None:
    app = PartitionRule("app", None, "app")
    assigner = partition_assigner((*_rules("region", "bucket"), app), None, ROWS.schema)
    found = assigner.assign(ROWS, NO_TIMES)
    places = [found.values[code] if code >= 0 else None for code in found.codes]
    assert places == [
        ("de", "0", "x"),
        ("de", "1", "x"),
        None,
        (None, "1", "x"),
        None,
        ("a/b", "1", "x"),
    ]
    assert [row.index for row in found.dirty] == [2, 4]
    refused, empty = found.dirty
    assert (refused.reason, refused.stage) == (DirtyReason.BAD_PARTITION_VALUE, "partition")
    assert refused.message == "nowhere is in no region"
    assert "read back as null" in empty.message


@pytest.mark.usefixtures("package")
def test_columns_with_other_options_have_a_partitioner_of_their_own() -> None:
    rules = (*_rules("region"), *_rules("again", "bucket", buckets="5"))
    found = partition_assigner(rules, None, ROWS.schema).assign(ROWS.slice(5), NO_TIMES)
    assert found.values == [("a/b", "a/b", "0")]


@pytest.mark.usefixtures("package")
def test_job_file_names_the_partitioner_and_its_options() -> None:
    route = compile_route(parse_job(JOB.encode(), Path("job.yaml"), {}).spec.routes[0])
    choice = PartitionerChoice("regions", (("buckets", "2"),))
    assert [(rule.name, rule.partitioner) for rule in route.partitions] == [
        ("region", choice),
        ("bucket", choice),
    ]
    assert {column.hive_type for column in route.table.partition_columns} == {"string"}
    assert "buckets" not in repr(choice)


@pytest.mark.usefixtures("package")
def test_option_that_the_plugin_refuses_is_told_before_any_task() -> None:
    route = compile_route(
        parse_job(JOB.replace("{buckets: 2}", "{bucket: 2}").encode(), Path("j"), {}).spec.routes[0]
    )
    assert route.columns is not None
    problem = row_problem(route.columns, None, route.partitions)
    assert problem == "regions has the option buckets"


def test_partitioner_that_is_not_installed_is_told_at_its_place() -> None:
    with pytest.raises(Exception, match=r"10:\d+: unknown key `regions`"):
        parse_job(JOB.encode(), Path("job.yaml"), {})


ANSWERS: list[tuple[str, Callable[[pa.RecordBatch], object]]] = [
    ("fails: ZeroDivisionError", lambda _: 1 / 0),
    ("answers a list, not PartitionTexts", lambda rows: [rows.column("city")]),
    ("answers 2 columns of 1", lambda rows: PartitionTexts([rows.column("city")] * 2)),
    ("answers 5 values for 6 rows", lambda rows: PartitionTexts([rows.column("city")[1:]])),
    ("answers values of type int64, not text", lambda rows: PartitionTexts([rows.column("id")])),
    ("answers a list, not an Arrow array", lambda _: PartitionTexts([["x"] * 6])),
    ("refuses the row 6 of 6", lambda rows: PartitionTexts([rows.column("city")], {6: "x"})),
    (
        "answers what is no text",
        lambda _: PartitionTexts(
            [pa.StringArray.from_buffers(6, *pa.array([b"\xff"] * 6).buffers()[1:])]
        ),
    ),
]


def _assign_with(answer: Callable[[pa.RecordBatch], object]) -> None:
    class Odd(Partitioner):
        def assign(self, rows: pa.RecordBatch) -> PartitionTexts:
            return answer(rows)  # type: ignore[return-value]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_BUILT_IN", {"regions": lambda *_: Odd()})
        partition_assigner(_rules("region"), None, ROWS.schema).assign(ROWS, NO_TIMES)


@pytest.mark.parametrize(("words", "answer"), ANSWERS)
def test_answer_that_the_contract_does_not_have_halts_and_names_the_plugin(
    words: str, answer: Callable[[pa.RecordBatch], object]
) -> None:
    with pytest.raises(UnhealthyEnvironmentError, match=f"the partitioner 'regions' {words}"):
        _assign_with(answer)


def test_error_of_ours_that_a_partitioner_raises_is_left_as_it_is() -> None:
    def away(_: pa.RecordBatch) -> object:
        raise SourceUnavailableError("the geo service does not answer")

    with pytest.raises(SourceUnavailableError, match="geo service"):
        _assign_with(away)


def test_plain_texts_of_other_arrow_types_are_taken() -> None:
    for made in (
        pa.array(["x"] * 6, pa.large_string()),
        pa.array(["x"] * 6).dictionary_encode(),
        pa.nulls(6),
    ):
        _assign_with(lambda _, made=made: PartitionTexts([made]))  # type: ignore[misc]
    assert open_regions(("a",), ROWS.schema, {}).assign(ROWS).values
