"""Keeps archives on Python's path from being read again and again.

Spark calls `importlib.invalidate_caches` before each task. For every archive from which something
was imported, and for every package in it, Python then reads the archive's whole directory anew, in
Python: 40 ms of CPU a task with Spark's own archives, more than a small task takes for its rows.
"""

import sys
import zipimport


def forget_archives() -> None:
    """Forget who looks for modules in archives. Called at the end of each task; safe to repeat.

    What is loaded stays loaded. A later import from an archive makes its finder anew, of the
    directory that Python holds already.
    """
    for path, finder in tuple(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter):
            sys.path_importer_cache.pop(path, None)
