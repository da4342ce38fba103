"""`make demo STORE=hdfs` and `STORE=s3`: the table lies there, and Spark reads it from there."""

from pathlib import Path

import pytest

from tools.demo_run import assert_demo_is_right


@pytest.mark.parametrize("store", ["hdfs", "s3"])
def test_demo_fills_a_table_on_a_store_through_a_kill(store: str, tmp_path: Path) -> None:
    assert_demo_is_right(tmp_path, "--store", store)
