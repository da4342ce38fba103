"""The JSON decoder's fast paths, as parameters of tests."""

import pytest

from sluiceway.host.native_module import native_module

ENGINES = (
    "library",
    pytest.param(
        "native",
        marks=pytest.mark.skipif(
            native_module() is None, reason="the native module is not installed: make native"
        ),
    ),
)
