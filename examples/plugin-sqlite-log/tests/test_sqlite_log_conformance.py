"""The source against Sluiceway's suite, opened as a job opens it: by its name."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from sluiceway.conformance.sources import REQUEST_TIMEOUT_S, SourceConformance, SourceUnderTest
from sluiceway.sources.contract import SourcePartition, Split, SplitReader
from sluiceway.sources.registry import SourceAccess, open_client, open_reader
from sluiceway_sqlite_log.log_file import LogFile


class SqliteLogUnderTest(SourceUnderTest):
    def __init__(self, path: Path) -> None:
        self.file = LogFile(path)
        self._access = SourceAccess("sqlite_log", (("path", str(path)),))
        self._topics = 0
        self.client = open_client(self._access, REQUEST_TIMEOUT_S)

    def new_topic(self, partitions: int) -> str:
        self._topics += 1
        topic = f"t{self._topics}"
        self.file.create_topic(topic, [f"shard-{number}" for number in range(partitions)])
        return topic

    def write(self, topic: str, values: Sequence[bytes | None], partition: int = 0) -> None:
        self.file.append(topic, f"shard-{partition}", values)

    def log(self, topic: str, partition: int) -> SourcePartition:
        return SourcePartition(topic, f"shard-{partition}")

    def reader(self, splits: Sequence[Split]) -> SplitReader:
        return open_reader(self._access, list(splits), owner="suite")


class TestSqliteLog(SourceConformance):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> SourceUnderTest:
        return SqliteLogUnderTest(tmp_path / "log.db")
