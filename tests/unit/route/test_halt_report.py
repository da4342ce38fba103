"""What a halt tells a person."""

import pickle
import re

import pytest

from sluiceway.cli.app import VERBS
from sluiceway.errors import (
    Fatal,
    FileLostError,
    JobFileError,
    LeaseHeldError,
    LedgerCorruptError,
    OffsetsLostError,
    SluicewayError,
    StateConflictError,
)
from sluiceway.route.halt_report import HaltReport, halt_report
from sluiceway.route.status import RouteState, RouteStatus, decode_status, encode_status


def _fatal_kinds(kind: type[SluicewayError] = Fatal) -> list[type[SluicewayError]]:
    children = [child for child in kind.__subclasses__() if child.__module__ == kind.__module__]
    below = [each for child in children for each in _fatal_kinds(child)]
    return [kind, *below]


@pytest.mark.parametrize("kind", _fatal_kinds(), ids=lambda kind: kind.__name__)
def test_every_halt_names_commands_that_there_are(kind: type[SluicewayError]) -> None:
    report = halt_report(kind("what", where="there", hint="do"), "orders")
    assert 1 <= len(report.commands) <= 3
    verbs = {verb.name for verb in VERBS}
    for command in report.commands:
        words = command.split()
        assert words[0] == "sluiceway"
        assert words[1] in verbs
        assert "JOB" in words
        assert not re.search(r"[{}]", command)
    assert (report.what, report.where, report.hint) == ("what", "there", "do")


def test_error_with_commands_of_its_own_keeps_them() -> None:
    error = OffsetsLostError("gone").with_report({"offsets_lost": 7}, ("sluiceway status JOB",))
    report = halt_report(error, "orders")
    assert report.evidence == {"offsets_lost": "7"}
    assert report.commands == ("sluiceway status JOB",)


def test_job_file_that_is_wrong_is_validated() -> None:
    commands = halt_report(JobFileError("wrong"), "orders").commands
    assert commands == ("sluiceway validate JOB", "sluiceway run JOB")


def test_commands_are_those_of_the_nearest_class() -> None:
    class AltogetherLostError(FileLostError):
        pass

    report = halt_report(AltogetherLostError("gone"), "orders")
    assert report.commands[0] == "sluiceway verify JOB --route orders"
    assert halt_report(StateConflictError("x"), "orders").commands


def test_evidence_and_commands_survive_the_way_from_a_worker() -> None:
    error = LedgerCorruptError("bad", where="slot 3", hint="look").with_report({"a": 1}, ("b JOB",))
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - made here
    assert (again.evidence, again.commands) == ({"a": "1"}, ("b JOB",))
    assert str(again) == str(error)


def test_report_is_kept_in_the_status_file() -> None:
    error = LeaseHeldError("held").with_report({"pid": 7}, ("sluiceway status JOB",))
    report = halt_report(error, "orders")
    status = RouteStatus(route="orders", state=RouteState.HALTED, report=report)
    read = decode_status(encode_status(status))
    assert read is not None
    assert isinstance(read.report, HaltReport)
    assert read == status
