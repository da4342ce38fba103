import time

import pytest

from sluiceway.cli.app import run_command
from sluiceway.cli.views import status_watch
from sluiceway.cli.views.status_watch import watch
from tools.terminals import terminal

_PROGRAM = """
from itertools import count
from sluiceway.cli.views.status_watch import watch
numbers = count()
watch(lambda: "look %d\\n%s" % (next(numbers), "x" * 300), every_s=0.1)
print("over", flush=True)
"""


def test_watch_on_a_terminal_shows_anew_in_place_until_q() -> None:
    for key in ("q", "\x03"):
        with terminal("-c", _PROGRAM) as seen:
            seen.read_until("look 3")
            seen.type(key)
            seen.read_until("over")
            assert seen.process.wait(30) == 0
            assert "\x1b[?1049h" in seen.text
            assert "\x1b[?1049l" in seen.text
            # Nothing is cleared as a whole between two looks.
            assert "\x1b[2J" not in seen.text


_LONG = """
from sluiceway.cli.views.status_watch import watch
reason = "  [SW102] " + " ".join("word%d" % each for each in range(40)) + " because of the end"
watch(lambda: "ROUTE  STATE\\n" + reason, every_s=0.1)
"""


def test_reason_below_a_route_is_shown_whole_on_a_narrow_terminal() -> None:
    with terminal("-c", _LONG) as seen:
        seen.read_until("because of the end")
        seen.type("q")
        assert seen.process.wait(30) == 0


def test_watch_elsewhere_writes_one_look_after_the_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = iter(["one\n", "two\n"])

    def look() -> str:
        found = next(looks, None)
        if found is None:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    watch(look)
    assert capsys.readouterr().out == "one\ntwo\n"


def test_watch_with_a_document_is_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLUICEWAY_KAFKA", "127.0.0.1:1")
    monkeypatch.setenv("SLUICEWAY_METASTORE", "thrift://127.0.0.1:1")
    job = str(status_watch.__file__).partition("/src/")[0] + "/examples/orders.yaml"
    assert run_command(["status", job, "--watch", "-o", "json"]) == 2
    assert "--watch shows a table" in capsys.readouterr().err
