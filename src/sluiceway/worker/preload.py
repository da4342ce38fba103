"""What a Python worker loads before its first task, and forgets after each one.

A module is loaded when it is first needed, and on a busy machine all of them take seconds.
"""

import sys
import zipimport
from importlib import import_module

import pyarrow as pa
import pyarrow.parquet as pq

from sluiceway.host.native_module import native_module
from sluiceway.sources.registry import load_usual_reader

_LOADED_LATE = ("sluiceway.formats.json.choice", "sluiceway.storage.local")


def warm_worker() -> None:
    """Load what tasks use. Called in a worker before its first task; cheap when repeated.

    Plug-ins and the clients of single stores are left to the task that needs them.
    """
    native_module()
    load_usual_reader()
    for name in _LOADED_LATE:
        import_module(name)
    # Arrow imports pandas at the first conversion, and sets up its writers at the first file.
    pq.write_table(pa.table({"warm": pa.array([0], pa.int64())}), pa.BufferOutputStream())


def forget_archives() -> None:
    """Forget the finders of modules in archives. Called at the end of each task; safe to repeat.

    Spark calls `importlib.invalidate_caches` before each task. Then Python reads again the whole
    directory of every archive from which something was imported, for every package in it. With
    Spark's own archives that is 40 ms of CPU a task, more than a small task takes for its rows.

    Loaded modules stay loaded. A later import from an archive makes its finder again, from
    the directory that Python holds already.
    """
    for path, finder in tuple(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter):
            sys.path_importer_cache.pop(path, None)
