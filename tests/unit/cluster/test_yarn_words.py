from sluiceway.cluster.yarn import YarnState, _log_content, _properties


def test_log_of_a_node_is_what_stands_between_its_words() -> None:
    answer = (
        "Container: container_1_0001_01_000001 on localhost\nLogAggregationType: LOCAL\n====\n"
        'LogType:stdout\nLogLength:12\nLogContents:\n{"event": 1}\nEnd of LogType:stdout. This '
        "log file belongs to a running container.\n*****\n"
    )
    assert _log_content(answer) == '{"event": 1}'
    assert _log_content("of another release") == "of another release"


def test_settings_are_written_as_java_reads_them() -> None:
    assert _properties({"b": "C:\\x", "a": "1\n2"}) == "a=1\\n2\nb=C:\\\\x\n"


def test_application_that_may_run_again_has_not_ended() -> None:
    assert [
        state
        for state in ("ACCEPTED", "RUNNING", "FINISHED", "FAILED", "KILLED")
        if YarnState(state, "", "").ended
    ] == ["FINISHED", "FAILED", "KILLED"]
