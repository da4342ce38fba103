"""Seeds that caught a mutant are tried first the next time."""

from pathlib import Path

from tools.last_kills import LastKills


def test_seed_of_this_checkout_comes_first_then_that_of_the_project(tmp_path: Path) -> None:
    kills = LastKills(tmp_path / "kept.json", "sim", tmp_path / "build")
    assert kills.seeds("no-fence") == []
    kills.note({"no-fence": 7, "late": 3}, keep=True)
    assert kills.seeds("no-fence") == [7]
    kills.note({"no-fence": 9}, keep=False)
    assert kills.seeds("no-fence") == [9, 7]
    assert kills.seeds("late") == [3]


def test_run_that_caught_a_few_forgets_none_of_the_others(tmp_path: Path) -> None:
    kills = LastKills(tmp_path / "kept.json", "sim", tmp_path / "build")
    kills.note({"no-fence": 7, "rare": 30_379}, keep=True)
    kills.note({"no-fence": 8}, keep=True)
    assert (kills.seeds("no-fence"), kills.seeds("rare")) == ([8], [30_379])
