"""What docs/rules.md names can be changed, and what is kept of it fits."""

from pathlib import Path

from mutate.campaign import Plan, is_due, mutants_of
from mutate.kept import KEPT, Kept, keep, read_equivalent, read_kept, tidy
from mutate.rules import Subject, proof_hash, read_rules, subjects
from mutate.servers import cheap_files, named_with_servers

ALL = subjects(read_rules())


def _named(name: str) -> Subject:
    return next(subject for subject in ALL if subject.named.name == name)


def test_functions_that_rules_name_have_mutants_with_names_of_their_own() -> None:
    named = [subject.named.name for subject in ALL if subject.changes]
    assert len(named) > 120
    mutants = [mutant.name for mutant in mutants_of(ALL)]
    assert len(set(mutants)) == len(mutants) > 1000
    # What has nothing to change says nothing: no line of it decides anything.
    empty = [each.named.name for each in ALL if not each.changes]
    only_tells = (".__init__", "._tell_published")
    assert [name for name in empty if not name.endswith(only_tells)] == []


def test_function_that_several_rules_name_has_the_tests_of_all() -> None:
    check = _named("fold.Fold.check").named
    assert {"P2", "I1", "I2", "I3"} <= set(check.rules)
    assert "test_edited_record_is_found_by_the_chain" in check.tests
    assert "tests/unit/ledger/test_writer.py" in cheap_files(check.tests)
    assert all("test_writer.py" not in each for each in named_with_servers(check.tests))


def test_equivalent_mutants_exist_and_say_why_nobody_can_tell() -> None:
    equivalent = read_equivalent()
    known = {mutant.name for mutant in mutants_of(ALL)}
    assert sorted(set(equivalent) - known) == []
    assert [name for name, why in equivalent.items() if len(why.split()) < 8] == []
    killed = {name for name, kept in read_kept(KEPT).items() if kept.by}
    assert sorted(killed & set(equivalent)) == []


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


def test_last_result_of_a_mutant_is_kept_and_those_of_no_mutant_go(tmp_path: Path) -> None:
    path = tmp_path / "results" / "mutants.jsonl"
    keep(path, Kept("b", "1", "2", seeds=300))
    keep(path, Kept("a", "1", "2", by="seed 3"))
    keep(path, Kept("b", "1", "2", by="a test"))
    keep(path, Kept("gone", "1", "2"))
    tidy(path, {"a", "b"})
    assert list(read_kept(path).values()) == [
        Kept("a", "1", "2", by="seed 3"),
        Kept("b", "1", "2", by="a test"),
    ]
    assert len(path.read_text().splitlines()) == 2
