"""Which form timestamps have in Parquet files: by who reads the table, or as the job file says."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.sinks.files.contract import INT96, MICROS, TIMESTAMPS, FileChoice
from sluiceway.sinks.files.field_ids import FIELD_IDS, ids_setting
from sluiceway.sinks.files.registry import open_format
from sluiceway.sinks.hive.folder_catalog import FolderCatalog
from sluiceway.sinks.hive.table import HiveTableSink
from sluiceway.sinks.table_options import FOLDER, TableOptions
from sluiceway.storage.local import LocalStorage
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema

ROWS = pa.table({"at": pa.array([253_402_214_400_000_000], pa.timestamp("us"))})


def physical(choice: FileChoice, folder: Path) -> str:
    """Of the column in a file of this choice."""
    storage = LocalStorage()
    made = open_format(ROWS.schema, choice).new_file(storage.create_staged(f"{folder}/f.parquet"))
    for batch in ROWS.to_batches():
        made.write(batch)
    made.close()
    file = pq.ParquetFile(folder / "f.parquet", coerce_int96_timestamp_unit="us")
    assert file.read().cast(ROWS.schema).equals(ROWS)
    return str(file.schema.column(0).physical_type)


@pytest.mark.parametrize("kind", ["timestamp", "array<struct<at:timestamp>>"])
@pytest.mark.parametrize(
    ("version", "said", "form"),
    [
        (2, None, INT96),
        (3, None, INT96),
        (4, None, MICROS),
        (5, None, MICROS),
        (3, MICROS, MICROS),
        (4, INT96, INT96),
    ],
)
def test_form_is_by_the_version_of_the_metastore_unless_the_job_file_says_it(
    version: int,
    said: str | None,
    form: str,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FolderCatalog, "major_version", lambda _: version)
    assert form_of_table(tmp_path, said, kind) == form


def test_a_catalog_in_a_folder_has_readers_of_micros_only(tmp_path: Path) -> None:
    assert form_of_table(tmp_path, None, "timestamp with local time zone") == MICROS


def form_of_table(folder: Path, said: str | None, kind: str) -> str | None:
    options = TableOptions(
        metastore=f"{FOLDER}{folder}",
        database="ods",
        table="orders",
        schema=Schema((Field("at", parse_hive_type(kind)),)),
        partition_columns=(),
        parquet_timestamps=said,
    )
    sink = HiveTableSink(options)
    try:
        return sink.open().files.setting(TIMESTAMPS)
    finally:
        sink.close()


@pytest.mark.parametrize(("form", "kept"), [(INT96, "INT96"), (MICROS, "INT64")])
def test_files_keep_times_in_the_form(form: str, kept: str, tmp_path: Path) -> None:
    assert physical(FileChoice(settings=((TIMESTAMPS, form),)), tmp_path) == kept


def test_files_of_lake_tables_never_have_int96(tmp_path: Path) -> None:
    assert (
        physical(FileChoice(settings=((FIELD_IDS, ids_setting({"at": 1})),)), tmp_path) == "INT64"
    )
