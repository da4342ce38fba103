"""One more gateway of the lab's kind: over a folder of one's own, or with options of its own."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from sluiceway.lab.jars import default_cache_folder
from sluiceway.lab.s3 import S3Endpoint, S3Server
from sluiceway.lab.server import accepts_connections
from sluiceway.lab.support import LOOPBACK, pick_free_ports

_PATIENCE_S = 20.0


@contextmanager
def s3_gateway(like: S3Endpoint, folder: Path, *options: str) -> Iterator[S3Endpoint]:
    """Start it; it ends with the block.

    Args:
        like: Its keys and bucket are this one's.
        folder: In which buckets are folders.
        options: Of the program.
    """
    (port,) = pick_free_ports(1)
    program = S3Server(default_cache_folder(os.environ)).program
    keys = {"ROOT_ACCESS_KEY": like.access_key, "ROOT_SECRET_KEY": like.secret_key}
    running = subprocess.Popen(
        [program, "--port", f"{LOOPBACK}:{port}", "--quiet", *options, "posix", folder],
        env={**os.environ, **keys},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        end_s = time.monotonic() + _PATIENCE_S
        while not accepts_connections(port):
            assert running.poll() is None, "the gateway has ended"
            assert time.monotonic() < end_s, "the gateway does not answer"
            time.sleep(0.05)
        yield replace(like, url=f"http://{LOOPBACK}:{port}", folder=folder / like.bucket)
    finally:
        running.terminate()
        running.wait()
