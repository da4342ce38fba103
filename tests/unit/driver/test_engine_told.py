"""A run without the native module says so once, with the price."""

from io import StringIO

import pytest

from sluiceway.driver import run
from sluiceway.observe.log import stderr_log


@pytest.mark.parametrize(
    ("module", "switch", "told"), [(None, "", 1), (None, "0", 0), (object(), "", 0)]
)
def test_run_tells_what_it_costs_to_go_without_the_native_module(
    module: object, switch: str, told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = StringIO()
    monkeypatch.setenv("SLUICEWAY_NATIVE", switch)
    monkeypatch.setattr(run, "native_module", lambda: module)
    run._log_engine(stderr_log(stream=stream))
    assert stream.getvalue().count("native_module_absent") == told
    assert stream.getvalue().count("three times the CPU") == told
