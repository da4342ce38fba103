"""`explain`: what the names of messages mean."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from sluiceway.audit.dirty_rows import DirtyState
from sluiceway.audit.partition_states import PartitionProgress
from sluiceway.cli.app import run_command
from sluiceway.cli.views.messages import MessagePage, pages_by_name, read_messages
from sluiceway.errors import SluicewayError, UnhealthyEnvironmentError
from sluiceway.route.status import RouteState
from sluiceway.service.board_files import ALERTS
from sluiceway.types.dirty import DirtyReason

ROOT = Path(__file__).parents[3]


def pages() -> Mapping[str, MessagePage]:
    return pages_by_name(read_messages())


def all_errors(kind: type[SluicewayError] = SluicewayError) -> list[type[SluicewayError]]:
    return [kind, *(each for below in kind.__subclasses__() for each in all_errors(below))]


def test_every_error_code_has_a_page_with_text() -> None:
    codes = {each.code for each in all_errors() if each.__module__ == "sluiceway.errors"}
    assert len(codes) > 25
    assert {code for code in codes if not pages()[code].text} == set()


def test_every_reason_alert_and_state_is_explained() -> None:
    names = {reason.value for reason in DirtyReason} | {alert.name for alert in ALERTS}
    names |= {each.value for each in RouteState} | {each.value for each in PartitionProgress}
    names |= {each.label for each in DirtyState}
    assert names - pages().keys() == set()


def test_every_event_of_the_log_is_explained() -> None:
    call = re.compile(r"\.(?:debug|info|warning|error)\(\s*\"([a-z]+_[a-z_]+|committed|fenced)\"")
    sources = (ROOT / "src" / "sluiceway").rglob("*.py")
    events = {name for path in sources for name in call.findall(path.read_text("utf-8"))}
    assert len(events) > 100
    assert events - pages().keys() - {"event_name"} == set()  # Of an example.


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("`Overflow`", ["overflow of dirty rows", "Example: `300`", "What to do: make"]),
        ("stalecommit", ["StaleCommit\n", "Rows wait"]),
        ("waiting", ["waiting of a route", "An outage"]),
        ("late", ["late of an hour", "late of dirty rows"]),
        ("open", ["open of an hour", "open of a dirty row"]),
        ("prefixes_closed", ["the watermark has passed them"]),
        ("follower_blocked", ["follower_blocked of late_table", "follower_blocked of tell"]),
    ],
)
def test_name_is_explained_in_all_that_it_means(
    typed: str, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["explain", typed]) == 0
    shown = capsys.readouterr().out
    assert [each for each in told if each not in shown] == []


def test_page_of_several_events_is_found_by_each_of_them() -> None:
    found = pages()
    assert found["clock_back"] is found["clock_stepped"]
    assert found["clock_back"].names == ("clock_stepped", "clock_back", "clock_accepted")


@pytest.mark.parametrize("typed", ["SW455", "sw455", "[SW455]:"])
def test_code_is_explained_as_it_stands_in_a_message(
    typed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["explain", typed]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("SW455: offsets are lost\n\nThe log begins after the committed end")
    assert "SW456" not in shown


def test_links_of_a_page_become_names_that_a_terminal_can_show() -> None:
    text = "See [here](#a-b), [`x`](events.md#x), [dirty](../guides/dirty-rows.md#reasons)."
    page = MessagePage("errors", ("SW999",), "SW999: x", text)
    assert page.plain_text == "See here, `x`, dirty (docs/guides/dirty-rows.md#reasons)."


def test_unknown_name_is_a_usage_error_with_the_one_that_was_meant(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command(["explain", "route_wait"]) == 2
    assert "did you mean `route_waits`?" in capsys.readouterr().err
    assert run_command(["explain", "qqqqqq"]) == 2
    assert "did you mean" not in capsys.readouterr().err


def test_all_names_are_listed_and_a_page_is_a_document_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command(["explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("SW451 ") and "another driver" in line for line in lines)
    assert any(line.startswith("route_waits ") for line in lines)
    assert run_command(["explain", "route_waits", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["names"] == ["route_waits"]
    assert found["text"] in (ROOT / "docs/reference/events.md").read_text("utf-8")


def test_installation_without_the_texts_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnhealthyEnvironmentError, match="missing from the installation"):
        read_messages(tmp_path / "none.toml")
