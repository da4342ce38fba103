"""`offsets show` and `offsets reset` on a real broker and metastore."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sluiceway.cli.app import run_command
from sluiceway.errors import OffsetsLostError, StorageUnavailableError
from sluiceway.lab.lab import LabEndpoints
from sluiceway.ledger.operator_records import ResetRecord, SourceChangeRecord
from sluiceway.ledger.records import DataRecord, RecordType, decode_record
from sluiceway.observe.steps import Step
from sluiceway.storage.contract import PutResult
from sluiceway.storage.local import LocalStorage
from tools.job_files import event
from tools.route_faults import NewRun, Pause, live, offsets, wait_until
from tools.route_runs import RouteRun
from tools.table_proofs import read_independently
from tools.topic_writer import TopicWriter

_TIMEOUT_S = 180.0


def _events(span: range) -> list[bytes]:
    return [event(n) for n in span]


class Operator:
    """Types commands."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def types(self, *args: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = run_command(list(args))
        shown = self._capsys.readouterr()
        return code, shown.out, shown.err

    def show(self, run: RouteRun) -> tuple[int, dict[str, Any]]:
        code, out, _ = self.types("offsets", "show", str(run.job.path), "-o", "json")
        (route,) = json.loads(out)["routes"]
        assert isinstance(route, dict)
        return code, route

    def reset(self, run: RouteRun, to: str, *options: str) -> tuple[int, str, str]:
        path = str(run.job.path)
        return self.types("offsets", "reset", path, "--to", to, "--reason", "a test", *options)


@pytest.fixture
def operator(capsys: pytest.CaptureFixture[str]) -> Operator:
    return Operator(capsys)


def _cut_off(admin: AdminClient, topic: str, before: int) -> None:
    """What retention does: offsets below `before` are gone."""
    place = TopicPartition(topic, 0, before)
    admin.delete_records([place])[place].result(_TIMEOUT_S)


def test_show_tells_start_end_and_lag_of_each_partition(
    new_run: NewRun, writer: TopicWriter, operator: Operator
) -> None:
    run, topic = new_run(2)
    writer.write(topic, _events(range(10)))
    run.catch_up()
    writer.write(topic, _events(range(10, 14)))
    code, route = operator.show(run)
    assert code == 0
    assert route["broker_error"] is None
    first, second = route["partitions"]
    keys = ("start", "how", "committed_end", "log_start", "log_end", "lag", "generation")
    assert [first[key] for key in keys] == [0, "earliest", 10, 0, 14, 4, 0]
    assert [second[key] for key in keys] == [0, "earliest", 0, 0, 0, 0, 0]
    assert first["newest_event_ms"] is not None
    assert second["newest_event_ms"] is None
    _, out, _ = operator.types("offsets", "show", str(run.job.path))
    assert f"{topic}[0]" in out
    assert "newest event" in out.lower()


def test_show_without_brokers_tells_what_the_ledger_knows(
    new_run: NewRun, writer: TopicWriter, operator: Operator
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    run.catch_up()
    path = run.job.path
    text = path.read_text()
    before, _, rest = text.partition('bootstrap_servers: "')
    path.write_text(f'{before}bootstrap_servers: "127.0.0.1:1"' + rest.partition('"')[2])
    code, route = operator.show(run)
    assert code == 0
    assert "127.0.0.1:1" in route["broker_error"]
    (one,) = route["partitions"]
    assert (one["committed_end"], one["log_end"], one["lag"]) == (10, None, None)
    _, out, _ = operator.types("offsets", "show", str(path))
    assert "the brokers do not answer" in out


def test_retention_past_the_end_halts_with_the_command_that_resolves_it(
    new_run: NewRun, writer: TopicWriter, admin: AdminClient, operator: Operator
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    run.catch_up()
    writer.write(topic, _events(range(10, 30)))
    _cut_off(admin, topic, 20)
    with pytest.raises(OffsetsLostError, match="10 offsets were deleted") as halted:
        run.catch_up()
    error = halted.value
    assert error.evidence["offsets_lost"] == "10"
    assert error.commands[1] in str(error)
    code, route = operator.show(run)
    assert code == 1
    assert "10 offsets were deleted" in route["partitions"][0]["problem"]

    # The driver is gone; what it found and how to go on is not.
    code, out, _ = operator.types("status", str(run.job.path))
    assert code == 1
    assert "evidence: committed_end 10, log_start 20, log_end 30" in out
    typed = error.commands[2].replace("JOB", str(run.job.path))
    # By the program's own name, whatever path it was started with.
    assert f"{typed}\n" in out

    # The command is run as it stands in the message, first without, then with --execute.
    before = run.records()
    words = [word if word != "JOB" else str(run.job.path) for word in error.commands[1].split()]
    code, out, _ = operator.types(*words[1:])
    assert code == 0
    assert f"{topic}[0]: 10 -> 20: 10 offsets are never read" in out
    assert run.records() == before
    words = [word if word != "JOB" else str(run.job.path) for word in error.commands[2].split()]
    code, out, _ = operator.types(*words[1:])
    assert code == 0
    assert "done: slot" in out

    reset = run.records()[-1].body
    assert isinstance(reset, ResetRecord)
    assert reset.operator.count("@") == 1
    run.catch_up()
    assert run.rows() == offsets(0, range(10), range(20, 30))
    run.assert_verified()
    assert operator.show(run)[1]["partitions"][0]["generation"] == 1


def test_reset_to_read_again_needs_the_word_and_doubles_rows_knowingly(
    new_run: NewRun, writer: TopicWriter, operator: Operator
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    run.catch_up()
    before = run.records()
    code, out, _ = operator.reset(run, "6", "--partition", f"{topic}:0")
    assert (code, "needs --accept-doubles" in out) == (7, True)
    assert "4 offsets are read again" in out
    code, _, err = operator.reset(run, "6", "--partition", f"{topic}:0", "--execute")
    assert (code, "--accept-doubles" in err) == (7, True)
    code, _, err = operator.reset(
        run, "6", "--partition", f"{topic}:0", "--execute", "--accept-gap"
    )
    assert code == 7
    assert run.records() == before
    code, out, err = operator.reset(
        run, "6", "--partition", f"{topic}:0", "--execute", "--accept-doubles"
    )
    assert code == 0, err
    run.catch_up()
    assert run.rows() == sorted(offsets(0, range(10), range(6, 10)))
    run.assert_verified()


@pytest.mark.parametrize("landed", [True, False])
def test_reset_whose_answer_is_lost_is_settled_by_the_slot(
    new_run: NewRun,
    writer: TopicWriter,
    operator: Operator,
    monkeypatch: pytest.MonkeyPatch,
    *,
    landed: bool,
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    run.catch_up()
    writer.write(topic, _events(range(10, 14)))
    put = LocalStorage.put_if_absent
    failures: list[str] = []

    def fails(storage: LocalStorage, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        wanted = "/log/" in path and decode_record(content, path).type is RecordType.RESET
        if wanted and len(failures) < 2:
            failures.append(path)
            if landed:
                put(storage, path, content, tmp_folder=tmp_folder)
            raise StorageUnavailableError("no answer", where=path)
        return put(storage, path, content, tmp_folder=tmp_folder)

    monkeypatch.setattr(LocalStorage, "put_if_absent", fails)
    code, _, err = operator.reset(run, "latest", "--accept-gap", "--execute")
    assert code == 0, err
    assert len(failures) == 2
    writer.write(topic, _events(range(14, 16)))
    run.catch_up()
    assert [record.type for record in run.records()].count(RecordType.RESET) == 1
    assert run.rows() == offsets(0, range(10), range(14, 16))
    run.assert_verified()


def test_reset_to_a_time_and_to_the_end(
    new_run: NewRun, writer: TopicWriter, operator: Operator
) -> None:
    run, topic = new_run(2)
    for n in range(6):
        writer.write_record(topic, event(n), timestamp_ms=1_763_625_600_000 + n * 1000)
    run.catch_up()
    code, out, _ = operator.reset(run, "2025-11-20T08:00:03Z", "--accept-doubles")
    assert code == 0
    assert f"{topic}[0]: 6 -> 3" in out
    assert f"{topic}[1]" not in out
    writer.write(topic, _events(range(6, 9)))
    code, _, err = operator.reset(run, "latest", "--execute", "--accept-gap")
    assert code == 0, err
    writer.write(topic, _events(range(9, 11)))
    run.catch_up()
    assert run.rows() == offsets(0, range(6), range(9, 11))
    run.assert_verified()
    code, out, _ = operator.reset(run, "latest", "--execute")
    assert (code, "nothing to do" in out) == (0, True)


def test_reset_beside_a_live_driver_is_refused_and_changes_nothing(
    new_run: NewRun, writer: TopicWriter, operator: Operator
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    published = Pause(Step.PUBLISHED)
    published.goes_on.set()
    with live(run, published) as running:
        assert published.reached.wait(_TIMEOUT_S)
        before = run.records()
        code, _, err = operator.reset(run, "earliest", "--execute", "--accept-doubles")
        assert (code, "a live driver runs this route" in err) == (7, True)
        assert run.records() == before
        running.stop()
    run.catch_up()
    assert run.rows() == offsets(0, range(10))


@pytest.mark.parametrize(
    ("to", "options", "code", "message"),
    [
        ("999", ["--partition", "{topic}:0"], 7, "outside of the log"),
        ("0", ["--partition", "{topic}:7"], 7, "does not read"),
        ("0", [], 2, "an offset needs --partition"),
        ("yesterday", [], 2, "expected earliest, latest"),
        ("earliest", ["--partition", "orders"], 2, "expected TOPIC:PARTITION"),
    ],
)
def test_reset_that_cannot_be_is_refused_with_a_word(  # noqa: PLR0917, PLR0913
    new_run: NewRun,
    writer: TopicWriter,
    operator: Operator,
    to: str,
    options: list[str],
    code: int,
    message: str,
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(3)))
    run.catch_up()
    before = run.records()
    filled = [option.format(topic=topic) for option in options]
    got, _, err = operator.reset(run, to, "--execute", "--accept-doubles", *filled)
    assert got == code
    assert message in " ".join(err.replace("│", " ").split())
    assert run.records() == before


def test_topic_that_was_created_again_is_read_after_the_operator_accepted_it(
    new_run: NewRun,
    writer: TopicWriter,
    admin: AdminClient,
    operator: Operator,
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    run.catch_up()
    admin.delete_topics([topic], operation_timeout=_TIMEOUT_S)[topic].result(_TIMEOUT_S)
    wait_until(lambda: topic not in admin.list_topics(timeout=_TIMEOUT_S).topics)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(_TIMEOUT_S)
    writer.write(topic, _events(range(20, 24)))
    with pytest.raises(OffsetsLostError, match="is not the log that was read") as halted:
        run.catch_up()
    command = halted.value.commands[2]
    assert "--accept-identity" in command
    code, _, err = operator.reset(run, "earliest", "--execute", "--accept-doubles")
    assert (code, "--accept-identity" in err) == (7, True)
    words = [word if word != "JOB" else str(run.job.path) for word in command.split()]
    code, _, err = operator.types(*words[1:])
    assert code == 0, err
    change = run.records()[-1].body
    assert isinstance(change, SourceChangeRecord)
    assert change.partitions[0].evidence == {"log_start": "0", "log_end": "4"}
    run.catch_up()
    assert run.rows("id") == [(n,) for n in (*range(10), *range(20, 24))]
    run.assert_verified()


def test_independent_reader_wants_each_offset_as_often_as_the_ledger_says(
    new_run: NewRun,
    writer: TopicWriter,
    operator: Operator,
    lab_endpoints: LabEndpoints,
    tmp_path: Path,
) -> None:
    run, topic = new_run(2)
    writer.write(topic, _events(range(10)))
    writer.write(topic, _events(range(5)), partition=1)
    run.catch_up()
    code, _, err = operator.reset(
        run, "6", "--partition", f"{topic}:0", "--accept-doubles", "--execute"
    )
    assert code == 0, err
    run.catch_up()
    writer.write(topic, _events(range(10, 14)))
    code, _, err = operator.reset(run, "latest", "--accept-gap", "--execute")
    assert code == 0, err
    writer.write(topic, _events(range(14, 17)))
    run.catch_up()
    expectation = tmp_path / "expectation.json"
    expectation.write_text('{"required": ["id", "ts"]}')
    found = read_independently(lab_endpoints, run.job, expectation=expectation)
    assert (found["lost"], found["doubled"], found["written"]) == (0, 0, 10 + 4 + 3 + 5)
    run.assert_verified()
    # It would have seen a row too few or too many.
    again = run.records()[-1].body
    assert isinstance(again, DataRecord)
    (file,) = again.files
    path = run.root() / file.final
    copy = path.with_name("copy.parquet")
    copy.write_bytes(path.read_bytes())
    with pytest.raises(AssertionError, match="doubled: 3"):
        read_independently(lab_endpoints, run.job, expectation=expectation)
    copy.unlink()
    path.unlink()
    with pytest.raises(AssertionError, match="lost: 3"):
        read_independently(lab_endpoints, run.job, expectation=expectation)
