"""`sluiceway partitions` on a ledger alone: no broker, no metastore."""

import json
from pathlib import Path
from typing import Any

import pytest

from sluiceway.cli.app import run_command
from sluiceway.ledger import sealing
from sluiceway.ledger.sealing import to_seal
from sluiceway.ledger.snapshot import write_hint, write_side_file
from sluiceway.upkeep.partition_bodies import ready_body
from tools.table_on_disk import TableOnDisk, table_on_disk

SEVEN, EIGHT = "dt=20261120/hr=07", "dt=20261120/hr=08"


@pytest.fixture
def table(tmp_path: Path) -> TableOnDisk:
    made = table_on_disk(tmp_path)
    made.rows(SEVEN, EIGHT)
    made.rows(EIGHT, closed=(SEVEN,))
    made.writer.commit(lambda fold: ready_body(fold, SEVEN) or pytest.fail("not closed"))
    made.writer.set_published()
    return made


def listed(
    capsys: pytest.CaptureFixture[str], table: TableOnDisk, *options: str
) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert run_command(["partitions", "list", str(table.job), "-o", "json", *options]) == 0
    answer = json.loads(capsys.readouterr().out)
    (route,) = answer["routes"]
    assert (route["table"], route["as_of_slot"]) == ("ods.orders", table.writer.fold.next_seq - 1)
    found: list[dict[str, Any]] = route["prefixes"]
    return found


def test_list_tells_state_rows_and_place_without_any_server(
    table: TableOnDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    seven, eight = listed(capsys, table)
    assert (seven["prefix"], seven["state"], seven["version"]) == (SEVEN, "ready", 1)
    assert (eight["prefix"], eight["state"], eight["rows"], eight["files"]) == (
        EIGHT,
        "open",
        20,
        2,
    )
    assert eight["partitions"][0]["location"] == EIGHT
    assert eight["whole"] is True


def test_list_chooses_by_state_and_by_time(
    table: TableOnDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    def names(*options: str) -> list[str]:
        return [each["prefix"] for each in listed(capsys, table, *options)]

    assert names("--state", "ready") == [SEVEN]
    assert names("--state", "late") == []
    assert names("--from", EIGHT) == [EIGHT]
    assert names("--to", "2026-11-20T08:00:00Z", "--route", "orders") == [SEVEN]


def test_list_for_people_has_a_line_a_time(
    table: TableOnDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["partitions", "list", str(table.job)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "orders -> ods.orders"
    assert lines[1].split() == [
        "PARTITION", "STATE", "VERSION", "ROWS", "FILES", "BYTES", "LATE", "DELAY", "WHERE",
    ]  # fmt: skip
    assert lines[2].split() == [SEVEN, "ready", "1", "10", "1", "1,000", "0", "-", SEVEN]
    assert len(lines) == 4


@pytest.mark.parametrize(
    ("options", "code"), [(["--state", "gone"], 2), (["--from", "x"], 2), (["-o", "xml"], 2)]
)
def test_list_refuses_what_it_does_not_know(
    table: TableOnDisk, options: list[str], code: int
) -> None:
    assert run_command(["partitions", "list", str(table.job), *options]) == code


def test_list_without_ledger_and_metastore_says_which_does_not_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = table_on_disk(tmp_path)
    text = table.job.read_text().replace('/t"', '/elsewhere"')
    table.job.write_text(text)
    assert run_command(["partitions", "list", str(table.job)]) == 1
    assert "SW102" in capsys.readouterr().err


def test_list_refuses_the_ledger_of_another_job(
    table: TableOnDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    table.job.write_text(table.job.read_text().replace("name: orders\n", "name: others\n", 1))
    code = run_command(["partitions", "list", str(table.job)])
    assert (code, "SW454" in capsys.readouterr().err) == (7, True)


def test_wait_for_what_is_announced_tells_it_at_once(
    table: TableOnDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    job = str(table.job)
    assert run_command(["partitions", "wait", job, "ods.orders", SEVEN, "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ready"], answer["why"]["reason"]) == (True, "ready")
    assert answer["announced"] == {
        "prefix": SEVEN,
        "version": 1,
        "seq": table.writer.fold.closed[SEVEN].ready_seq,
        "at_ms": None,
        "rows": 10,
        "files": 1,
        "whole": True,
        "partitions": [{"partition": SEVEN, "version": 0, "rows": 10, "files": 1}],
    }
    assert run_command(["partitions", "wait", job, "orders", SEVEN]) == 0
    assert capsys.readouterr().out == f"{SEVEN}: ready, version 1, 10 rows in 1 file\n"


@pytest.mark.parametrize(
    ("route", "partition", "options", "code"),
    [
        ("orders", EIGHT, [], 2),
        ("ods.others", SEVEN, [], 2),
        ("orders", SEVEN, ["--timeout", "soon"], 2),
        ("orders", SEVEN, ["--version", "0"], 2),
        ("orders", SEVEN, ["--version", "2", "--timeout", "10ms"], 1),
    ],
)
def test_wait_refuses_at_once_what_never_comes_and_tells_when_the_time_is_over(
    table: TableOnDisk, route: str, partition: str, options: list[str], code: int
) -> None:
    assert run_command(["partitions", "wait", str(table.job), route, partition, *options]) == code


def test_why_answers_in_words_and_as_json(
    table: TableOnDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["partitions", "why", str(table.job), SEVEN]) == 0
    assert capsys.readouterr().out.startswith(f"{SEVEN}: ready. it was announced, version 1, in")
    assert run_command(["partitions", "why", str(table.job), EIGHT, "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["state"], answer["reason"]) == ("open", "not_announced")


def test_why_of_what_is_no_time_is_a_wrong_usage_as_it_is_for_wait(
    table: TableOnDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    table.job.write_text(table.job.read_text() + "ready: {}\n")
    no_time = "is no time of this table; times are written dt=yyyyMMdd/hr=HH"
    assert run_command(["partitions", "why", str(table.job), "dt=20261120"]) == 2
    in_order = "they are announced in order, so for all of it look at the last one"
    told = capsys.readouterr()
    assert f"dt=20261120 {no_time}; {in_order}\n" in told.err
    assert f"partitions list {table.job}` shows which times there are" in told.err
    assert run_command(["partitions", "why", str(table.job), "dt=20261120/h=8"]) == 2
    assert run_command(["partitions", "wait", str(table.job), "orders", "dt=20261120/h=8"]) == 2
    assert f"dt=20261120/h=8 {no_time}\n" in capsys.readouterr().err


def test_why_says_that_no_driver_works_and_names_the_command_with_the_job(
    table: TableOnDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    table.job.write_text(table.job.read_text() + "ready: {}\n")
    assert run_command(["partitions", "why", str(table.job), EIGHT]) == 0
    told = capsys.readouterr().out
    assert "No driver works for it now, so this stays until one does: " in told
    assert f"run {table.job}`" in told
    assert run_command(["partitions", "why", str(table.job), EIGHT, "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["driver_runs"], answer["expected_ms"]) == (False, None)


@pytest.fixture
def sealed(table: TableOnDisk, monkeypatch: pytest.MonkeyPatch) -> TableOnDisk:
    """Seven is sealed; what is told of it stands in its READY record alone."""
    writer, log = table.writer, table.log
    monkeypatch.setattr(sealing, "MAX_UNSEALED", 0)
    writer.set_effects(writer.fold.next_seq)
    table.rows(EIGHT)
    names = to_seal(writer.fold)
    assert names == (SEVEN,)
    slot = writer.commit(write_side_file(log.storage, log.layout, writer.fold, names)).seq
    write_hint(log.storage, log.layout, slot)
    return table


def test_sealed_time_is_waited_for_and_told_of_as_it_was_announced(
    sealed: TableOnDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    job = str(sealed.job)
    assert run_command(["partitions", "wait", job, "orders", SEVEN, "-o", "json"]) == 0
    announced = json.loads(capsys.readouterr().out)["announced"]
    assert (announced["prefix"], announced["version"], announced["rows"]) == (SEVEN, 1, 10)
    again = ["partitions", "wait", job, "orders", SEVEN, "--version", "2", "--timeout", "1s"]
    assert run_command(again) == 1
    capsys.readouterr()
    assert run_command(["partitions", "why", job, SEVEN, "-o", "json"]) == 0
    why = json.loads(capsys.readouterr().out)
    assert (why["state"], why["reason"]) == ("ready", "ready")
    assert "closed for ever" in why["text"]


def test_list_says_how_many_times_are_sealed(
    sealed: TableOnDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [each["prefix"] for each in listed(capsys, sealed)] == [EIGHT]
    assert run_command(["partitions", "list", str(sealed.job)]) == 0
    assert "note: 1 that were touched long ago are sealed" in capsys.readouterr().out


def test_list_of_a_table_without_partition_columns_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = table_on_disk(tmp_path, partition_by="[]", event_time="")
    made.rows("")
    assert run_command(["partitions", "list", str(made.job)]) == 0
    told = capsys.readouterr().out
    assert "the table has no partition columns: `" in told
    assert f"sluiceway files {made.job}` lists its files" in told
    assert "nothing is committed" not in told
