"""Calls of the HDFS library that are waited for no longer than they may take."""

import queue
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, cast

import pytest

from sluiceway.storage.hdfs import timed_calls as in_time_module
from sluiceway.storage.hdfs.storage import RawFile, close_file
from sluiceway.storage.hdfs.timed_calls import begun, in_time

if TYPE_CHECKING:
    from hdfs_native import Client, FileWriter


def _calls() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "hdfs-call"]


def test_what_a_call_gives_or_raises_comes_back() -> None:
    assert in_time(lambda: 7) == 7
    with pytest.raises(ValueError, match="no such file"):
        in_time(lambda: int("no such file"))

    def refuse() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        in_time(refuse)


def test_a_call_that_never_comes_back_is_left_behind_and_others_go_on() -> None:
    gate = threading.Event()
    try:
        with pytest.raises(TimeoutError, match="HDFS has not answered within 0 s"):
            in_time(gate.wait, 0.05)
        assert in_time(lambda: 7) == 7
        # The process does not wait for it at its end.
        assert all(each.daemon for each in _calls())
    finally:
        gate.set()


def test_threads_are_used_again() -> None:
    for _ in range(200):
        in_time(time.monotonic)
    before = len(_calls())
    for _ in range(200):
        in_time(time.monotonic)
    assert len(_calls()) <= before + 2


def test_what_a_call_holds_or_gives_does_not_outlive_it() -> None:
    class Held:
        gone = threading.Event()

        def __del__(self) -> None:
            self.gone.set()

    held = Held()
    assert begun(partial(id, held)).result(30) == id(held)
    del held
    assert Held.gone.wait(30)
    Held.gone.clear()
    assert isinstance(begun(Held).result(30), Held)
    assert Held.gone.wait(30)


def test_a_call_is_made_here_where_no_thread_begins_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(in_time_module, "_idle", queue.LifoQueue())
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert in_time(threading.get_ident) == threading.get_ident()
    with pytest.raises(ValueError, match="no such file"):
        in_time(lambda: int("no such file"))


def test_a_write_that_never_comes_back_is_an_error_of_its_file() -> None:
    gate = threading.Event()

    class Waits:
        """As the library was seen to wait for a data node that had died."""

        def write(self, data: bytes) -> int:
            assert gate.wait(60)
            return len(data)

    file = RawFile(cast("FileWriter", Waits()), longest_s=0.05)
    try:
        with pytest.raises(OSError, match="has not answered"):
            file.write(b"x")
    finally:
        gate.set()


def test_an_end_of_a_file_that_never_comes_is_an_error_also_where_the_file_never_gets_whole() -> (
    None
):
    gate = threading.Event()

    class Hangs:
        def close(self) -> None:
            assert gate.wait(60)

    class Half:
        """What the name node tells of a file whose last block no data node has reported."""

        def read(self, path: str) -> bytes:
            assert path == "/t/f"
            return b"ha"

    try:
        with pytest.raises(TimeoutError, match="within 0 s"):
            close_file(cast("Client", Half()), cast("FileWriter", Hangs()), "/t/f", 4, 0.3)
    finally:
        gate.set()
