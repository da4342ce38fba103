"""What docs/contributors/rules.md names can be changed, and what is kept of it fits."""

import ast
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mutate import rules
from mutate.__main__ import main
from mutate.applied import lost_names, lost_rules, unmade_changes
from mutate.campaign import Plan, is_due, mutants_of, queue_of
from mutate.kept import (
    EQUIVALENT,
    KEPT,
    ONCE_SURVIVED,
    Kept,
    drop,
    keep,
    read_equivalent,
    read_kept,
    tidy,
)
from mutate.rules import SOURCE, Subject, proof_hash, read_rules, subjects
from mutate.servers import cheap_files, named_with_servers

ALL = subjects(read_rules())
MADE = {mutant.name for mutant in mutants_of(ALL)}
PARTS = 4
FOLD = "sluiceway/ledger/folding/fold.py"
TERM = "record.term == self.term"


def _named(name: str) -> Subject:
    return next(subject for subject in ALL if subject.named.name == name)


def test_functions_that_rules_name_have_mutants_with_names_of_their_own() -> None:
    named = [subject.named.name for subject in ALL if subject.changes]
    assert len(named) > 120
    mutants = [mutant.name for mutant in mutants_of(ALL)]
    assert len(set(mutants)) == len(mutants) > 1000
    # What has nothing to change says nothing: no line of it decides anything.
    empty = [each.named.name for each in ALL if not each.changes]
    only_tells = (".__init__", "._log_published")
    assert [name for name in empty if not name.endswith(only_tells)] == []


def test_function_that_several_rules_name_has_the_tests_of_all() -> None:
    check = _named("fold.Fold.check").named
    assert {"P2", "I1", "I2", "I3"} <= set(check.rules)
    assert "test_edited_record_is_found_by_the_chain" in check.tests
    assert "tests/unit/ledger/test_writer.py" in cheap_files(check.tests)
    assert all("test_writer.py" not in each for each in named_with_servers(check.tests))


def test_names_in_the_table_of_rules_lead_somewhere() -> None:
    assert list(lost_rules(read_rules())) == []


def test_mutants_that_are_called_equivalent_exist_and_say_why_nobody_can_tell() -> None:
    equivalent = read_equivalent()
    assert lost_names(equivalent, MADE, EQUIVALENT.name) == []
    assert [name for name, why in equivalent.items() if len(why.split()) < 8] == []
    killed = {name for name, kept in read_kept(KEPT).items() if kept.by}
    assert sorted(killed & set(equivalent)) == []


def test_mutants_whose_results_are_kept_exist() -> None:
    # `python -m mutate --drop` forgets those of lines that are meant to be otherwise now.
    assert lost_names(read_kept(KEPT), MADE, KEPT.name) == []


def test_mutants_that_a_named_test_has_to_kill_exist() -> None:
    assert lost_names(ONCE_SURVIVED, MADE, "ONCE_SURVIVED") == []


Run = Callable[[Path], tuple[int, dict[str, int]]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A run that judges none, and its closing line."""

    def run(results: Path) -> tuple[int, dict[str, int]]:
        only = ["--rules", "I3", "--seconds", "0", "--results", str(results)]
        monkeypatch.setattr(sys, "argv", ["mutate", *only])
        code = main()
        return code, json.loads(capsys.readouterr().out.splitlines()[-1])

    return run


def test_line_that_is_changed_on_purpose_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    results = tmp_path / KEPT.name
    results.write_bytes(KEPT.read_bytes())
    assert run(results)[1]["not_applied"] == 0
    changed = (SOURCE / FOLD).read_text("utf-8").replace(TERM, TERM.replace("==", ">="))
    tree, right = ast.parse(changed), rules.parsed
    monkeypatch.setattr(rules, "parsed", lambda path: tree if path == FOLD else right(path))
    code, closing = run(results)
    # Of the line: taken for true, for false, and one half of it not asked.
    assert (code, closing["survived"]) == (1, 0)
    assert closing["not_applied"] >= 3


def test_rule_that_names_code_and_tests_that_are_gone_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    table = read_rules()
    gone = replace(
        table[0], code=("ledger.folding.fold.Fold.forgotten",), tests=("test_of_nothing",)
    )
    monkeypatch.setattr("mutate.__main__.read_rules", lambda: [gone, *table[1:]])
    code, closing = run(tmp_path / "none.jsonl")
    assert (code, closing["not_applied"]) == (1, 2)


@pytest.mark.parametrize("part", range(PARTS))
def test_changes_compile_can_be_put_in_place_and_change_something(part: int) -> None:
    assert list(unmade_changes(ALL[part::PARTS])) == []


def test_mutant_is_run_again_when_its_function_or_the_tests_that_let_it_live_change() -> None:
    mutant = next(iter(mutants_of([_named("fold.Fold.check")])))
    code, proof = mutant.subject.code, proof_hash(mutant.subject.named.tests)
    plan = Plan(seeds=300, jobs=1)
    assert is_due(mutant, None, plan)
    assert not is_due(mutant, Kept(mutant.name, code, "other", by="seed 4"), plan)
    assert is_due(mutant, Kept(mutant.name, "other", proof, by="seed 4"), plan)
    lived = Kept(mutant.name, code, proof, seeds=300)
    assert not is_due(mutant, lived, plan)
    assert is_due(mutant, Kept(mutant.name, code, "other", seeds=300), plan)
    assert is_due(mutant, lived, Plan(seeds=301, jobs=1))
    assert is_due(mutant, lived, Plan(seeds=300, jobs=1, servers=True))


def test_run_with_an_end_goes_on_with_those_that_were_judged_least_often() -> None:
    mutants = mutants_of([_named("fold.Fold.check")])
    code = mutants[0].subject.code
    kept = [Kept(each.name, code, "", by="seed 1", times=at % 3) for at, each in enumerate(mutants)]
    known = {each.mutant: each for each in kept[1:]}
    assert queue_of(mutants, known, Plan(seeds=300, jobs=1)) == mutants[:1]
    first, other = (
        queue_of(mutants, known, Plan(seeds=300, jobs=1, stop_at=9.0, turn=turn)) for turn in "ab"
    )
    assert first[0] is other[0] is mutants[0]
    assert sorted(each.name for each in first) == sorted(each.name for each in mutants)
    assert [known[each.name].times for each in first[1:]] == sorted(each.times for each in kept[1:])
    # Each source begins with others.
    assert [each.name for each in first] != [each.name for each in other]


def test_last_result_of_a_mutant_is_kept_and_those_of_no_mutant_go_when_asked(
    tmp_path: Path,
) -> None:
    path = tmp_path / "results" / "mutants.jsonl"
    keep(path, Kept("b", "1", "2", seeds=300))
    keep(path, Kept("a", "1", "2", by="seed 3"))
    keep(path, Kept("b", "1", "2", by="a test"))
    keep(path, Kept("gone", "1", "2"))
    tidy(path)
    assert list(read_kept(path)) == ["a", "b", "gone"]
    assert drop(path, {"a", "b"}) == ["gone"]
    assert list(read_kept(path).values()) == [
        Kept("a", "1", "2", by="seed 3"),
        Kept("b", "1", "2", by="a test"),
    ]
    assert len(path.read_text().splitlines()) == 2
