"""`explain`: the runbook's pages by the names of messages, also from an installed wheel."""

import json
import re
from pathlib import Path

import pytest

from sluiceway.audit.dirty_rows import DirtyState
from sluiceway.audit.partition_states import Stand
from sluiceway.cli import runbook
from sluiceway.cli.app import run_command
from sluiceway.cli.runbook import pages_of, read_runbook
from sluiceway.errors import SluicewayError, UnhealthyEnvironmentError
from sluiceway.route.status import RouteState
from sluiceway.service.alerts import ALERTS
from sluiceway.types.dirty import DirtyReason

ROOT = Path(__file__).parents[3]
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text("utf-8")


def all_errors(kind: type[SluicewayError] = SluicewayError) -> list[type[SluicewayError]]:
    return [kind, *(each for below in kind.__subclasses__() for each in all_errors(below))]


def test_every_error_code_has_a_page_with_text() -> None:
    pages = read_runbook()
    codes = {each.code for each in all_errors() if each.__module__ == "sluiceway.errors"}
    assert len(codes) > 25
    assert {code for code in codes if not pages[code].text} == set()


def test_every_reason_alert_and_state_is_explained() -> None:
    names = {reason.value for reason in DirtyReason} | {alert.name for alert in ALERTS}
    names |= {each.value for each in RouteState} | {each.value for each in Stand}
    names |= {each.label for each in DirtyState}
    assert names - read_runbook().keys() == set()


def test_every_event_of_the_log_is_explained() -> None:
    call = re.compile(r"\.(?:debug|info|warning|error)\(\s*\"([a-z]+_[a-z_]+|committed|fenced)\"")
    sources = (ROOT / "src" / "sluiceway").rglob("*.py")
    events = {name for path in sources for name in call.findall(path.read_text("utf-8"))}
    assert len(events) > 100
    assert events - read_runbook().keys() - {"event_name"} == set()  # Of an example.


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("`Overflow`", ["overflow of dirty rows", "Example: `300`", "What to do: make"]),
        ("stalecommit", ["StaleCommit\n", "Rows wait"]),
        ("waiting", ["waiting of a route", "An outage"]),
        ("late", ["late of an hour", "late of dirty rows"]),
        ("open", ["open of an hour", "open of a dirty row"]),
        ("prefixes_closed", ["the watermark has passed them"]),
        ("follower_waits", ["follower_waits of late_table", "follower_waits of tell"]),
    ],
)
def test_name_is_explained_in_all_that_it_means(
    typed: str, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["explain", typed]) == 0
    shown = capsys.readouterr().out
    assert [each for each in told if each not in shown] == []


def test_page_of_several_events_is_found_by_each_of_them() -> None:
    pages = read_runbook()
    assert pages["clock_back"] is pages["clock_stepped"]
    assert pages["clock_back"].names == ("clock_stepped", "clock_back", "clock_believed")


@pytest.mark.parametrize("typed", ["SW455", "sw455", "[SW455]:"])
def test_code_is_explained_as_it_stands_in_a_message(
    typed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["explain", typed]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("SW455: offsets are lost\n\nThe log begins behind the committed end")
    assert "SW456" not in shown


def test_links_of_a_page_become_names_that_a_terminal_can_show() -> None:
    page = pages_of(
        "### SW999: x\n\nSee [here](#a-b), [dirty](dirty.md#reasons), [R](../README.md).\n"
    )
    assert (
        page["SW999"].plain_text == "See here, dirty (docs/dirty.md#reasons), R (docs/README.md)."
    )


def test_headings_that_are_no_pages_end_the_one_before() -> None:
    pages = pages_of(
        "### SW998: a\n\nfirst\n\n## Warnings\n\nnot this\n\n### Event `x_y`\n\nsecond\n"
    )
    assert {name: page.text for name, page in pages.items()} == {"SW998": "first", "x_y": "second"}


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
    assert found["text"] in RUNBOOK


def test_installation_without_a_checkout_reads_the_packed_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "runbook.md"
    packed.write_text("### SW997: packed\n\ntext\n")
    monkeypatch.setattr(runbook, "_CHECKOUT", tmp_path / "none.md")
    monkeypatch.setattr(runbook, "_PACKED", packed)
    assert read_runbook()["SW997"].text == "text"
    packed.unlink()
    with pytest.raises(UnhealthyEnvironmentError, match="missing from the installation"):
        read_runbook()
