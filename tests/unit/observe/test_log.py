"""Log lines: words on a terminal, JSON elsewhere, whichever was asked for."""

import io
import json
import os
import re

import pytest

from sluiceway.observe.log import LogFormat, WarningsOnDemand, stderr_log


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def written(stream: io.StringIO, *, chosen: LogFormat | None = None) -> str:
    log = stderr_log(stream=stream, log_format=chosen).bind(job="j", route="ods-orders")
    log.warning("route_waits", code="SW102", error="no\nanswer \x1b[2J(look at it)", retry_in_s=2.0)
    return stream.getvalue()


def test_warning_on_a_terminal_is_one_line_for_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    line = written(Terminal())
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d warning ods-orders: route waits \[SW102\]: "
        r"no answer \[2J\(look at it\); tries again in 2 s\n",
        line,
    )


def test_route_that_is_not_tried_again_is_told_without_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    stderr_log(stream=stream).error("route_halted", route="r", code="SW455", retry_in_s=None)
    assert "route halted [SW455]" in stream.getvalue()
    assert stream.getvalue().endswith("; `sluiceway explain route_halted`\n")


def test_level_is_painted_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\033[33mwarning\033[0m" in written(Terminal())
    assert "\033" not in written(io.StringIO(), chosen=LogFormat.TEXT)


@pytest.mark.parametrize(
    ("stream", "chosen"), [(io.StringIO(), None), (Terminal(), LogFormat.JSON)]
)
def test_line_elsewhere_or_when_asked_for_is_json(
    stream: io.StringIO, chosen: LogFormat | None
) -> None:
    line = json.loads(written(stream, chosen=chosen))
    assert line["event"] == "route_waits"
    assert (line["level"], line["route"], line["retry_in_s"]) == ("warning", "ods-orders", 2.0)
    assert line["at"].endswith("Z")


def test_line_without_a_next_step_of_its_own_names_its_page() -> None:
    stream = io.StringIO()
    log = stderr_log(stream=stream, log_format=LogFormat.TEXT)
    log.warning("partition_conflict", values="20261120/08", reason="another's")
    log.info("committed", seq=3, read=10)
    parked, committed = stream.getvalue().splitlines()
    assert parked.endswith(
        "partition conflict: another's values=20261120/08; `sluiceway explain partition_conflict`"
    )
    assert committed.endswith("info    committed seq=3 read=10")


def test_line_that_nobody_can_read_does_not_stop_the_work() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", buffering=1) as stream:
        log = stderr_log(stream=stream)
        with pytest.raises(BrokenPipeError):
            os.write(writing, b"x")
        log.info("committed", seq=1)
        log.warning("route_waits", error="x")
        # What is left in the buffer has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), writing)


def test_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="debug, info, warning, error"):
        stderr_log(level="loud")


def test_halt_in_words_shows_evidence_and_commands_without_the_marks_of_a_program() -> None:
    stream = io.StringIO()
    log = stderr_log(stream=stream, log_format=LogFormat.TEXT)
    commands = ("sluiceway verify JOB", "sluiceway run JOB")
    log.error("route_halted", code="SW403", error="no", evidence={}, commands=commands)
    known = {"end": 7, "log start": 9}
    log.error("route_halted", error="no", evidence=known, commands=commands, retry_in_s=30.0)
    bare, waiting = stream.getvalue().splitlines()
    assert bare.endswith("[SW403]: no; `sluiceway verify JOB`; `sluiceway run JOB`")
    assert waiting.endswith(
        "no evidence=end 7, log start 9; tries again in 30 s; `sluiceway verify JOB`; "
        "`sluiceway run JOB`"
    )


def test_line_for_a_watcher_is_a_sentence() -> None:
    out = io.StringIO()
    log = stderr_log(log_format=LogFormat.TEXT, stream=out, sentences=True)
    log.warning("rows_dirty", route="a", reason="broken 3", rows=8, first_seen=2)
    assert out.getvalue().split(" ", 1)[1] == (
        "warning a: Rows dirty: broken 3 (rows 8, first seen 2); `sluiceway explain rows_dirty`\n"
    )


def test_log_of_warnings_is_made_with_its_first_one(capsys: pytest.CaptureFixture[str]) -> None:
    log = WarningsOnDemand()
    log.info("what_nobody_reads")
    log.debug("nor_this")
    assert capsys.readouterr().err == ""
    log.warning("lag_not_known", code="SW1")
    log.bind(route="a").error("gone")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert (first["event"], first["code"], first["level"]) == ("lag_not_known", "SW1", "warning")
    assert (second["event"], second["route"]) == ("gone", "a")
