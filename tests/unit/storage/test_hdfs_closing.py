"""The end of a file of HDFS: hurried once its blocks are reported, never before."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sluiceway.storage.hdfs import storage as hdfs_storage
from sluiceway.storage.hdfs.storage import close_file

ROWS = b"rows"
PATIENCE_S = 60.0


class NameNode:
    """Closes a file once its block was reported, as a real one does; the library's client of it.

    Args:
        reported_after: So many looks of readers find the block.
        library_s: After which the library's own end is through.
        fails: What that end says in place of it.
        recovers: What is told of a lease that is asked back.
        refuses: What is raised in place of it.
    """

    def __init__(
        self,
        *,
        reported_after: int = 3,
        library_s: float = 0.3,
        fails: str = "",
        recovers: bool = True,
        refuses: str = "",
    ) -> None:
        self.looks = 0
        self.recovered_at: list[int] = []
        self.closed = threading.Event()
        self.library_is_through = False
        self._reported_after = reported_after
        self._library_s = library_s
        self._fails = fails
        self._recovers = recovers
        self._refuses = refuses

    def close(self) -> None:
        self.closed.wait(self._library_s)
        self.library_is_through = True
        if self._fails:
            raise RuntimeError(self._fails)

    def read(self, path: str) -> bytes:
        del path
        self.looks += 1
        return ROWS if self.looks >= self._reported_after else b""

    def recover_lease(self, path: str) -> bool:
        del path
        self.recovered_at.append(self.looks)
        if self._refuses:
            raise RuntimeError(self._refuses)
        return self._recovers


def end(node: NameNode, size_bytes: int = len(ROWS)) -> NameNode:
    library: Any = node
    close_file(library, library, "/t/f", size_bytes)
    return node


def test_file_is_closed_once_its_block_is_reported_and_not_before() -> None:
    node = end(NameNode(library_s=5))
    assert node.recovered_at == [3]
    assert not node.library_is_through
    node.closed.set()


def test_file_that_is_closed_at_once_is_not_looked_at() -> None:
    node = end(NameNode(library_s=0))
    assert (node.looks, node.recovered_at) == (0, [])


def test_end_is_left_to_the_library_while_the_block_is_not_reported() -> None:
    node = end(NameNode(reported_after=10_000))
    assert node.library_is_through
    assert node.recovered_at == []


def test_file_of_another_length_is_left_to_the_library() -> None:
    node = end(NameNode(), size_bytes=len(ROWS) + 1)
    assert node.library_is_through
    assert node.recovered_at == []


def test_lease_that_is_not_given_back_leaves_the_end_to_the_library() -> None:
    node = end(NameNode(recovers=False))
    assert node.library_is_through
    assert node.recovered_at == [3]


def test_name_node_that_answers_no_look_is_no_reason_to_call_a_file_closed() -> None:
    node = end(NameNode(refuses="connection refused"))
    assert node.library_is_through


@pytest.mark.parametrize("refuses", ["", "connection refused"])
def test_end_that_fails_is_told(refuses: str) -> None:
    with pytest.raises(RuntimeError, match="data nodes are gone"):
        end(NameNode(fails="data nodes are gone", recovers=False, refuses=refuses))


def test_ends_beyond_what_may_wait_are_through_before_they_return(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hdfs_storage, "_waiting", threading.BoundedSemaphore(1))
    first, second = NameNode(library_s=PATIENCE_S), NameNode()
    end(first)
    end(second)
    assert second.library_is_through
    assert (second.looks, first.library_is_through) == (0, False)
    first.closed.set()


def test_ends_side_by_side_do_not_wait_for_each_other() -> None:
    nodes = [NameNode(library_s=PATIENCE_S) for _ in range(16)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(end, nodes))
    assert not any(node.library_is_through for node in nodes)
    for node in nodes:
        node.closed.set()
