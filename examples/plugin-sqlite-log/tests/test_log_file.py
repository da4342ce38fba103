"""What only this source has."""

from pathlib import Path

import pytest

from sluiceway.errors import OffsetsLostError, SourceUnavailableError
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway_sqlite_log.log_file import LogFile
from sluiceway_sqlite_log.source import SqliteLogClient, SqliteLogReader, SqliteLogSource

SHARD = SourcePartition("orders", "eu")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log?.db"
    file = LogFile(path)
    file.create_topic("orders", ["eu", "us"])
    file.append("orders", "eu", [b"a", None, b"c"], key=b"k", headers={"from": "test"})
    return path


def test_records_are_whole_and_shards_are_their_own(path: Path) -> None:
    (batch,) = SqliteLogReader(path, [Split(SHARD, 1)]).read(1.0)
    found = batch.records([0, 1])
    assert (list(found.values), list(found.keys)) == ([None, b"c"], [b"k", b"k"])
    assert list(found.headers) == [(("from", b"test"),)] * 2
    assert list(found.partitions) == ["eu", "eu"]


def test_what_is_no_longer_kept_is_lost_and_not_passed_over(path: Path) -> None:
    LogFile(path).drop_before("orders", "eu", 2)
    reader = SqliteLogReader(path, [Split(SHARD, 0)])
    with pytest.raises(OffsetsLostError, match=r"orders\[eu\]: offset 0 .* from 2 to 3"):
        reader.read(1.0)


def test_topic_that_is_made_again_has_another_identity(path: Path, tmp_path: Path) -> None:
    (eu, _) = SqliteLogClient(path, 5.0).discover(["orders"])
    again = LogFile(tmp_path / "again.db")
    again.create_topic("orders", ["eu"])
    (other,) = SqliteLogClient(tmp_path / "again.db", 5.0).discover(["orders"])
    assert eu.identity != other.identity


def test_file_that_is_missing_is_an_outage(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailableError, match="cannot be read"):
        SqliteLogClient(tmp_path / "none.db", 5.0).list_topics()
    assert not (tmp_path / "none.db").exists()


def test_append_to_no_shard_changes_nothing(path: Path) -> None:
    with pytest.raises(KeyError, match="orders/moon"):
        LogFile(path).append("orders", "moon", [b"x"])


@pytest.mark.parametrize(
    ("options", "words"),
    [({}, "absolute path"), ({"path": "log.db"}, "absolute"), ({"path": "/l", "x": "1"}, "not x")],
)
def test_option_that_cannot_be_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        SqliteLogSource().check(options)
