"""The tools that make the data folders of the lab's servers."""

import sys
from pathlib import Path

import pytest

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.host.java import JavaHome, find_java
from sluiceway.lab.server import ServerSite, format_data


@pytest.fixture(scope="module")
def java() -> JavaHome:
    return find_java()


def test_tool_that_fails_is_told_by_its_last_words(tmp_path: Path, java: JavaHome) -> None:
    program = "import sys; print('line\\n' * 9 + 'disk full'); sys.exit(3)"
    with pytest.raises(UnhealthyEnvironmentError, match=r"(?s)not be formatted:.*disk full"):
        format_data(ServerSite(tmp_path, {}), [sys.executable, "-c", program], java)


def test_tool_that_does_not_end_is_told_in_one_line(tmp_path: Path, java: JavaHome) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with pytest.raises(UnhealthyEnvironmentError, match="not formatted in 0 s"):
        format_data(ServerSite(tmp_path, {}), command, java, timeout_s=0.2)
