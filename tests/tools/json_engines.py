"""The JSON decoder's fast paths, as parameters of tests."""

import pytest

from sluiceway.formats.json.native_blocks import native_module

ENGINES = (
    "library",
    pytest.param(
        "native",
        marks=pytest.mark.skipif(
            native_module() is None, reason="the native module is not installed: make native"
        ),
    ),
)
