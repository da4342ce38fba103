"""What `logs` shows, while the log gets new parts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sluiceway.cluster.applications import Application, ApplicationFolder
from sluiceway.cluster.driver_log import DriverLog
from sluiceway.host.bounded_log import BoundedLog, part_names

PART_BYTES = 200


@pytest.fixture
def folder(tmp_path: Path) -> ApplicationFolder:
    found = ApplicationFolder("orders", tmp_path)
    found.make()
    return found


@pytest.fixture
def log(folder: ApplicationFolder) -> Iterator[DriverLog]:
    with _log(folder) as opened:
        yield opened


def _log(folder: ApplicationFolder) -> DriverLog:
    return DriverLog(folder, Application("orders", "o.yaml", "local[1]", "client", "", 0))


def _lines(begin: int, end: int) -> list[str]:
    return [f"line {number:04d}" for number in range(begin, end)]


def _write(log: BoundedLog, begin: int, end: int) -> None:
    for line in _lines(begin, end):
        log.write(f"{line}\n".encode())


@pytest.mark.parametrize("wanted", [1, 5, 19, 20, 21, 60])
def test_last_lines_are_those_of_several_parts(
    folder: ApplicationFolder, log: DriverLog, wanted: int
) -> None:
    _write(BoundedLog(folder.log, part_bytes=PART_BYTES), 0, 95)
    assert log.last(wanted) == _lines(95 - wanted, 95)


@pytest.mark.parametrize("at_once", [1, 7, 20, 45, 75])
def test_nothing_is_left_out_or_shown_twice_across_parts(
    folder: ApplicationFolder, log: DriverLog, at_once: int
) -> None:
    writer = BoundedLog(folder.log, part_bytes=PART_BYTES)
    _write(writer, 0, 10)
    shown = log.last(3)
    for begin in range(10, 400, at_once):
        _write(writer, begin, begin + at_once)
        shown += log.more().splitlines()
    assert log.more() == ""
    assert shown == _lines(7, 10 + at_once * len(range(10, 400, at_once)))


def test_who_comes_too_late_gets_what_is_left_and_kept(
    folder: ApplicationFolder, log: DriverLog
) -> None:
    writer = BoundedLog(folder.log, part_bytes=PART_BYTES)
    _write(writer, 0, 10)
    log.last(1)
    _write(writer, 10, 500)
    kept = [part.read_text() for part in reversed(part_names(folder.log))]
    rest = [f"{line}\n" for line in _lines(10, 20)]
    # A new part may have got the number of the file that was followed.
    assert log.more() == "".join(rest + kept)


def test_last_line_is_shown_in_one_piece_to_who_follows(
    folder: ApplicationFolder, log: DriverLog
) -> None:
    folder.log.write_bytes(b"begin\nnext\nha")
    with _log(folder) as another:
        assert another.last(2) == ["next", "ha"]
    assert log.last(2, whole=True) == ["begin", "next"]
    assert log.more() == ""
    with folder.log.open("ab") as made:
        made.write(b"lf\nlast\n")
    assert log.more() == "half\nlast\n"


def test_half_a_line_waits_for_its_end_also_across_parts(
    folder: ApplicationFolder, log: DriverLog
) -> None:
    writer = BoundedLog(folder.log, part_bytes=20)
    writer.write("begin\nhä".encode())
    log.last(1)
    writer.write(b"lf")
    assert log.more() == ""
    writer.write(b" whole\nnext\nand ha")
    assert log.more() == "lf whole\nnext\n"
    writer.write(b"lf\n")
    assert log.more() == "and half\n"


def test_part_that_is_being_moved_is_not_missed(folder: ApplicationFolder, log: DriverLog) -> None:
    writer = BoundedLog(folder.log, part_bytes=PART_BYTES)
    _write(writer, 0, 5)
    log.last(1)
    _write(writer, 5, 7)
    folder.log.rename(part_names(folder.log)[1])
    assert log.more().splitlines() == _lines(5, 7)
    with _log(folder) as another:
        assert another.last(1) == _lines(6, 7)
    _write(writer, 7, 8)
    assert log.more().splitlines() == _lines(7, 8)
