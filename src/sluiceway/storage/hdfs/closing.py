"""The end of a file of HDFS, as soon as the name node knows that its last block is kept.

A name node closes a file once a data node has reported its last block. The writer has heard of that
block some milliseconds before. The library asks at once, is refused, and asks again half a second
later: each file would take that long.
"""

import threading
import time
from concurrent.futures import Future, wait
from contextlib import suppress

from hdfs_native import Client, FileWriter

from sluiceway.storage.hdfs.client import FOREIGN
from sluiceway.storage.hdfs.timed_calls import LONGEST_S, begun, in_time, waited_for

_FIRST_LOOK_S = 0.004
_LONGEST_PAUSE_S = 0.1
_PAUSE_GROWS = 1.5
# The library's own question goes on meanwhile; these many files may be left to it at one time.
_MOST_WAITING = 64
_waiting = threading.BoundedSemaphore(_MOST_WAITING)


def close_file(
    client: Client, file: FileWriter, path: str, size_bytes: int, longest_s: float = LONGEST_S
) -> None:
    """End a file: the name node has written down that it is whole, and how long it is.

    Args:
        client: Client that the file was begun with.
        file: Was written whole, and synced.
        path: Path of the file, without the service.
        size_bytes: Bytes that were written.
        longest_s: How long it may take.

    Raises:
        OSError: And what else the library raises (`FOREIGN`): nothing is known of the file.
    """
    if not _waiting.acquire(blocking=False):
        in_time(file.close, longest_s)
        return
    began_s, ending = time.monotonic(), begun(file.close)
    ending.add_done_callback(lambda _: _waiting.release())
    if not _closed_early(client, ending, (path, size_bytes), began_s + longest_s):
        waited_for(ending, longest_s, over_s=time.monotonic() - began_s)


def _closed_early(
    client: Client, ending: "Future[None]", whole: tuple[str, int], until_s: float
) -> bool:
    """Have the name node close the file once it can; False when the library's own end decides.

    For a reader a file is as long as its blocks that the writer has given back *and* a data node
    has reported. Of such a file nothing is left to recover: the name node closes it at once.
    """
    (path, size_bytes), pause_s = whole, _FIRST_LOOK_S
    while not wait({ending}, pause_s).done and time.monotonic() < until_s:
        with suppress(*FOREIGN):
            if len(client.read(path)) == size_bytes:
                return client.recover_lease(path)
        pause_s = min(pause_s * _PAUSE_GROWS, _LONGEST_PAUSE_S)
    return False
