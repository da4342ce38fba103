"""Whether all that names the source by its text applies to it: rules, mutants, kept results."""

import ast
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType

from mutate.changes import Change
from mutate.rules import (
    Rule,
    Subject,
    find_functions,
    test_files,
    tests_of_the_design,
)


def lost_rules(rules: Sequence[Rule]) -> Iterator[str]:
    """Code and tests that rules name and that are nowhere, a line each."""
    for rule in rules:
        for dotted in rule.code:
            try:
                list(find_functions(dotted))
            except LookupError as error:
                yield f"{rule.name}: {error}"
        for name in rule.tests:
            if name not in test_files() and name not in tests_of_the_design():
                yield f"{rule.name}: rules.md names {name}, and there is no such test"


def lost_names(named: Iterable[str], made: Iterable[str], where: str) -> list[str]:
    """Names of mutants that nothing in the source is changed by, a line each.

    Args:
        named: Names in a file.
        made: Names of all mutants of the source as it is.
        where: The file's name.
    """
    return [
        f"{name}: {where} names it, and the line is not so any more"
        for name in sorted(set(named) - set(made))
    ]


def unmade_changes(subjects: Iterable[Subject]) -> Iterator[str]:
    """Changes that do not compile, cannot be put in place, or change nothing, a line each."""
    for subject in subjects:
        right = _code(subject)
        for change in subject.changes:
            why = _why_unmade(subject, change, right)
            if why:
                yield f"{subject.named.name}: {change.name}: {why}"


def _why_unmade(subject: Subject, change: Change, right: CodeType) -> str:
    with change.made():
        try:
            wrong = _code(subject)
        except (SyntaxError, TypeError, ValueError) as error:
            return f"does not compile: {error}"
    if wrong.co_freevars != right.co_freevars:
        # Such code cannot take the place of the right one.
        return f"needs {wrong.co_freevars} from outside, not {right.co_freevars}"
    return "changes nothing" if wrong == right else ""


def _code(subject: Subject) -> CodeType:
    """Of the function alone, in its class if it has one: the whole file takes too long."""
    *outer, name = subject.named.qualified.split(".")
    body: list[ast.stmt] = [subject.node]
    for around in reversed(outer):
        holder = ast.parse(f"class {around}:\n    pass").body[0]
        assert isinstance(holder, ast.ClassDef)
        holder.body = body
        body = [holder]
    whole = compile(ast.fix_missing_locations(ast.Module(body, [])), subject.named.path, "exec")
    code = whole
    for each in (*outer, name):
        inside = [inner for inner in code.co_consts if isinstance(inner, CodeType)]
        code = next(inner for inner in inside if inner.co_name == each)
    return code
