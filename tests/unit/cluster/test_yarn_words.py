import pytest

from sluiceway.cluster import yarn
from sluiceway.cluster.yarn import YarnState, YarnUser, _log_content, _properties, yarn_state
from sluiceway.errors import SubmissionError


def test_log_of_a_node_is_what_stands_between_its_words() -> None:
    answer = (
        "Container: container_1_0001_01_000001 on localhost\nLogAggregationType: LOCAL\n====\n"
        'LogType:stdout\nLogLength:12\nLogContents:\n{"event": 1}\nEnd of LogType:stdout. This '
        "log file belongs to a running container.\n*****\n"
    )
    assert _log_content(answer) == '{"event": 1}'
    assert _log_content("of another release") == "of another release"


def test_settings_are_written_as_java_reads_them() -> None:
    assert _properties({"b": "C:\\x", "a": "1\n2\r3"}) == "a=1\\n2\\r3\nb=C:\\\\x\n"


def test_application_that_may_run_again_has_not_ended() -> None:
    assert [
        state
        for state in ("ACCEPTED", "RUNNING", "FINISHED", "FAILED", "KILLED")
        if YarnState(state, "", "").ended
    ] == ["FINISHED", "FAILED", "KILLED"]


def test_application_that_yarn_does_not_know_any_more_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = "Application with id 'application_1_0001' doesn't exist in RM or Timeline Server."

    def refuses(*_: object) -> str:
        raise SubmissionError(f"YARN does not answer:\n{said}")

    monkeypatch.setattr(yarn, "_ask", refuses)
    assert yarn_state("application_1_0001", YarnUser("")) == YarnState("FORGOTTEN", "UNDEFINED", "")
    said = "Connection refused"
    with pytest.raises(SubmissionError, match="refused"):
        yarn_state("application_1_0001", YarnUser(""))
