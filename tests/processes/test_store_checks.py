"""The closing line of `make proofs NAME=test-stores`: counted from what ran."""

import json
import subprocess
import sys
from pathlib import Path

TESTS = """\
import pytest

@pytest.fixture
def s3():
    return 1

@pytest.fixture
def hdfs():
    raise RuntimeError("no server")

def test_on_s3(s3):
    pass

def test_on_s3_that_fails(s3):
    assert not s3

@pytest.mark.skip
def test_that_is_skipped(hdfs):
    pass
"""
ON_HDFS = """
def test_without_a_server(hdfs):
    pass

@pytest.mark.parametrize("store", ["hdfs"])
def test_by_its_parameter(store):
    pass
"""


def closing_line(folder: Path, tests: str) -> dict[str, object]:
    (folder / "test_some.py").write_text(tests)
    plugin = ("-p", "no:cacheprovider", "-p", "tools.store_checks")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, "-c", "/dev/null", str(folder)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_store_whose_tests_were_skipped_is_not_named(tmp_path: Path) -> None:
    assert closing_line(tmp_path, TESTS) == {"stores": ["s3"], "checks": 2, "passed": 1}


def test_test_whose_server_does_not_start_is_a_check_that_failed(tmp_path: Path) -> None:
    found = closing_line(tmp_path, TESTS + ON_HDFS)
    assert found == {"stores": ["hdfs", "s3"], "checks": 4, "passed": 2}
