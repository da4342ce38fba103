"""`offsets reset`: what a dry run says of consequences that are accepted, or not yet."""

import json

import pytest

from sluiceway.cli.app import run_command
from sluiceway.operate.offset_moves import OffsetMove
from sluiceway.sources.contract import SourceIdentity, SourcePartition

_ZERO, _ONE = SourcePartition("orders", 0), SourcePartition("orders", 1)
_GAP = OffsetMove(_ZERO, 10, 20, 0, 25, 1, "gap", 10)
_TWICE = OffsetMove(_ONE, 10, 9, 0, 25, 1, "twice", 1)
_ANOTHER = OffsetMove(_ZERO, 10, 0, 0, 25, 1, "identity", 0, SourceIdentity("c1", "t2"))


@pytest.fixture(autouse=True)
def moves(monkeypatch: pytest.MonkeyPatch) -> list[OffsetMove]:
    """What the plan comes to."""
    planned: list[OffsetMove] = []
    monkeypatch.setattr(
        "sluiceway.cli.commands.offsets._reset", lambda *_, **__: (tuple(planned), None)
    )
    return planned


def _reset(*options: str) -> int:
    return run_command(
        ["offsets", "reset", "job.yaml", "--to", "latest", "--reason", "why", *options]
    )


@pytest.mark.parametrize(
    ("move", "option"),
    [
        (_GAP, "--accept-gap"),
        (_TWICE, "--accept-doubles"),
        (_ANOTHER, "--accept-identity"),
    ],
)
def test_dry_run_names_the_option_that_is_missing_and_fails_as_execute_would(
    moves: list[OffsetMove], move: OffsetMove, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    moves.append(move)
    assert _reset() == 7
    shown = capsys.readouterr()
    assert f"{move.partition}: {move.old_end} -> {move.new_end}: " in shown.out
    assert f"(needs {option})" in shown.out
    assert shown.out.endswith(f"nothing was changed; it needs {option}\n")
    assert "error[SW458]" in shown.err
    assert f"add {option}" in shown.err
    assert _reset(option) == 0
    shown = capsys.readouterr()
    assert f"(accepted by {option})" in shown.out
    assert "repeat it with --execute" in shown.out
    assert shown.err == ""


def test_dry_run_lists_every_option_that_is_missing(
    moves: list[OffsetMove], capsys: pytest.CaptureFixture[str]
) -> None:
    moves += [_GAP, _TWICE]
    assert _reset("-o", "json") == 7
    answer = json.loads(capsys.readouterr().out)
    assert answer["needs"] == ["--accept-gap", "--accept-doubles"]
    assert [move["partition"] for move in answer["moves"]] == ["orders:0", "orders:1"]
    assert _reset("-o", "json", "--accept-gap") == 7
    assert json.loads(capsys.readouterr().out)["needs"] == ["--accept-doubles"]
