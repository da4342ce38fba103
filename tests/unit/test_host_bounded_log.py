"""A bounded log: no line is lost or cut between its parts, and old parts go."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from sluiceway.host.bounded_log import BoundedLog, opened_parts, part_names


def _read(path: Path) -> list[bytes]:
    return [part.read_bytes() for part in part_names(path) if part.exists()]


@pytest.mark.parametrize("block_lines", [1, 3, 50])
def test_lines_are_whole_in_each_part_and_in_order(tmp_path: Path, block_lines: int) -> None:
    path = tmp_path / "log"
    log = BoundedLog(path, part_bytes=100, kept=4)
    lines = [f"line {number:03d}\n".encode() for number in range(50)]
    for at in range(0, len(lines), block_lines):
        log.write(b"".join(lines[at : at + block_lines]))
    parts = _read(path)
    assert len(parts) == 5
    assert all(len(part) <= 109 for part in parts)
    assert all(part.endswith(b"\n") for part in parts if part)
    assert b"".join(reversed(parts)) == b"".join(lines)[-len(b"".join(parts)) :]


def test_line_without_an_end_does_not_grow_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = BoundedLog(path, part_bytes=100, kept=2)
    for _ in range(60):
        log.write(b"x" * 10)
    assert [len(part) for part in _read(path)] == [0, 200, 200]
    log.write(b"x" * 5000)
    log.write(b"and an end\n")
    log.write(b"next\n")
    assert _read(path)[0] == b"and an end\nnext\n"


def test_log_that_somebody_removed_or_moved_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = BoundedLog(path)
    log.write(b"one\n")
    path.unlink()
    log.write(b"two\n")
    assert path.read_bytes() == b"two\n"
    path.rename(tmp_path / "taken")
    log.write(b"three\n")
    assert path.read_bytes() == b"three\n"
    path.write_bytes(b"")
    log.write(b"four\n")
    assert path.read_bytes() == b"four\n"


def test_two_writers_of_one_log_share_its_parts(tmp_path: Path) -> None:
    path = tmp_path / "log"
    one, other = BoundedLog(path, part_bytes=64), BoundedLog(path, part_bytes=64)
    for number in range(20):
        (one if number % 2 else other).write(f"line {number:02d}\n".encode())
    assert b"".join(reversed(_read(path))).split() == [
        word for number in range(20) for word in (b"line", f"{number:02d}".encode())
    ]


def test_part_that_moves_while_parts_are_opened_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"new\n")
    names = part_names(path)
    # As it is in the middle of a move: nothing at the first name.
    path.rename(names[1])
    names[2].hardlink_to(names[1])
    with ExitStack() as opened:
        found = opened_parts(path, opened)
        assert [part.read() for part in found.values()] == [b"new\n"]
    for name in names[1:3]:
        name.unlink()
    with ExitStack() as opened, pytest.raises(FileNotFoundError, match="log'"):
        opened_parts(path, opened)
