"""What the README promises first: `sluiceway demo`, whole, as a user runs it."""

from pathlib import Path

from tools.demo_run import assert_demo_is_right


def test_demo_fills_the_table_through_a_kill_and_leaves_nothing(tmp_path: Path) -> None:
    assert_demo_is_right(tmp_path)
