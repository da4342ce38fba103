"""The tables that say what proves what name things that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from model.cases import MUTANTS
from sluiceway.observe.steps import Step
from tools.source_trees import nodes_of, tree_of

ROOT = Path(__file__).resolve().parents[2]
CONFORMANCE = ROOT / "src/sluiceway/conformance"
RULES = ROOT / "docs/contributors/rules.md"
PROTOCOL = ROOT / "docs/contributors/protocol.md"
_LINKED = re.compile(r"\[(\w+)\]\([^)]*\)")
_NAMED_RULE = re.compile(r"\brules? (\d+)")
FAILURES = ROOT / "tests/failure_coverage.md"
TRACK_RECORD = ROOT / "tests/track_record.md"
FAILURE_COUNT = 98
LEAST_COVERED = 60
STATES = ("covered", "not applicable", "open")

_TEST = re.compile(r"`(test_\w+)`")
_CODE = re.compile(r"`([a-z_]+(?:\.[A-Za-z_]\w*)+)`")


@cache
def known_tests() -> frozenset[str]:
    return frozenset(
        node.name
        for path in (*(ROOT / "tests").rglob("test_*.py"), *CONFORMANCE.glob("*.py"))
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


def rows(path: Path) -> list[list[str]]:
    """Cells of all table rows, without heads."""
    lines = path.read_text("utf-8").splitlines()
    found = []
    for before, line in zip(["", *lines], lines, strict=False):
        is_rule = re.fullmatch(r"\|[-:|]+\|", line)
        if line.startswith("| ") and not is_rule and before.startswith("|"):
            found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found


def defined(name: str) -> bool:
    """Whether `package.module.Class.method` (from `sluiceway.` on) is in the source."""
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        path = ROOT.joinpath("src/sluiceway", *parts[:length]).with_suffix(".py")
        if path.is_file():
            return _holds(tree_of(path).body, parts[length:])
    return False


def _holds(body: list[ast.stmt], names: list[str]) -> bool:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == names[0]:
            return len(names) == 1 or _holds(node.body, names[1:])
    return False


@pytest.mark.parametrize("path", [RULES, FAILURES, TRACK_RECORD], ids=lambda path: path.stem)
def test_tests_named_in_the_tables_exist(path: Path) -> None:
    named = set(_TEST.findall(path.read_text("utf-8")))
    named |= set(re.findall(r"-k (test_\w+)", path.read_text("utf-8")))
    assert len(named) > 5
    prefixes = {name for name in named if any(one.startswith(name) for one in known_tests())}
    assert named - prefixes == set()
    if path != TRACK_RECORD:
        assert named - known_tests() == set()


def test_rules_are_all_there_and_name_code_that_exists() -> None:
    found = rows(RULES)
    wanted = [f"P{n}" for n in range(1, 9)] + [f"I{n}" for n in range(1, 10)]
    wanted += [f"R{n}" for n in range(1, 31)]
    assert [_LINKED.sub(r"\1", row[0]) for row in found] == wanted
    named = {name for row in found for name in _CODE.findall(row[1])}
    assert len(named) > 30
    assert [name for name in sorted(named) if not defined(name)] == []
    empty = [row[0] for row in found if not _CODE.search(row[1]) and "*not yet*" not in row[1]]
    assert empty == []
    unproven = [
        row[0] for row in found
        if "*not yet*" not in row[1] and not _TEST.search(row[2])
    ]  # fmt: skip
    assert unproven == []


def test_test_files_named_beside_rules_exist_and_hold_tests() -> None:
    named = set(
        re.findall(r"`((?:unit|processes|properties|contract|faults)/\S+\.py)`", RULES.read_text())
    )
    assert len(named) > 10
    assert [
        name for name in sorted(named) if "def test_" not in (ROOT / "tests" / name).read_text()
    ] == []


def test_rules_that_code_and_pages_name_are_told_on_the_page_of_the_protocol() -> None:
    told = {int(number) for number in re.findall(r"^### Rule (\d+)$", PROTOCOL.read_text(), re.M)}
    assert told == set(range(1, 31))
    pages = [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/**/*.md")]
    named = {int(number) for page in pages for number in _NAMED_RULE.findall(page.read_text())}
    assert len(named) > 20
    assert named - told == set()


def test_mutants_named_in_the_tables_exist() -> None:
    known = {mutant.mutation.name.lower() for mutant in MUTANTS}
    in_rules = {
        name
        for row in rows(RULES)
        for part in re.findall(r"model mutants? (.*)$", row[2])
        for name in re.findall(r"`(\w+)`", part)
    }
    in_record = set(re.findall(r"--only (\w+)", TRACK_RECORD.read_text("utf-8")))
    assert len(in_rules) > 5
    assert len(in_record) > 5
    assert (in_rules | in_record) - known == set()


def test_failures_are_all_there_with_a_state_and_enough_are_covered() -> None:
    found = rows(FAILURES)
    assert [int(row[0]) for row in found] == list(range(1, FAILURE_COUNT + 1))
    assert {row[2] for row in found} <= set(STATES)
    covered = [row for row in found if row[2] == "covered"]
    assert [row[0] for row in covered if not _TEST.search(row[3])] == []
    assert [row[0] for row in found if not row[3]] == []
    assert len(covered) >= LEAST_COVERED
    counts = [sum(row[2] == state for row in found) for state in STATES]
    said = FAILURES.read_text("utf-8")
    words = r"(\d+) are covered, (\d+) do not apply to this version, (\d+) are\s+open"
    match = re.search(words, said)
    assert match is not None
    assert [int(count) for count in match.groups()] == counts


def test_paths_of_the_track_record_exist() -> None:
    named = set(re.findall(r"pytest (tests/\S+\.py)", TRACK_RECORD.read_text("utf-8")))
    assert len(named) >= 3
    assert [path for path in sorted(named) if not (ROOT / path).is_file()] == []


def test_every_step_of_the_protocol_is_in_the_table_of_promises() -> None:
    table = [row for row in rows(ROOT / "docs/contributors/promises.md") if len(row) == 5]
    named = [row[0] for row in table]
    assert [step.name for step in Step if step.name not in named] == []
    assert [row[0] for row in table if not all(row[:4])] == []


def test_files_that_the_architecture_names_are_where_it_says() -> None:
    page = (ROOT / "docs/contributors/architecture.md").read_text("utf-8")
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", page)
    assert len(named) > 20
    assert [name for name in named if not (ROOT / "src/sluiceway" / name).is_file()] == []


def test_each_question_of_where_to_change_has_a_file_in_each_room_that_it_names() -> None:
    text = (ROOT / "docs/contributors/architecture.md").read_text("utf-8")
    section = text.partition("## Where would I change ...?")[2].partition("\n## ")[0]
    row = re.compile(r"\| ([^|]+) \| ([^|]+) \| ([^|]+) \|")
    found = map(row.fullmatch, section.splitlines())
    rows_of = [each.groups() for each in found if each and "`" in each[2]]
    assert len(rows_of) == 12
    for question, rooms, names in rows_of:
        files = re.findall("`([^`]+)`", names)
        of_files = dict.fromkeys(f"{file.partition('/')[0]}/" for file in files)
        assert [*of_files] == re.findall("`([^`]+)`", rooms), question


def test_paths_that_the_page_of_promises_names_exist() -> None:
    named = set(
        re.findall(
            r"`((?:tests|src)/[\w/.]+)`", (ROOT / "docs/contributors/promises.md").read_text()
        )
    )
    assert len(named) > 10
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
