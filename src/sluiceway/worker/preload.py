"""What a Python worker loads with its first task, loaded while nobody waits for it.

A module is loaded when it is first needed, and on a busy machine all of them take seconds.
"""

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
    # Arrow looks for pandas at the first conversion, and sets up its writers at the first file.
    pq.write_table(pa.table({"warm": pa.array([0], pa.int64())}), pa.BufferOutputStream())
