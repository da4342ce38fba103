"""Which wrong changes of a function are made, and that they leave no trace."""

import ast

import pytest

from mutate.changes import Function, changes_of


def _function(text: str) -> tuple[ast.Module, Function]:
    tree = ast.parse(text)
    (function,) = tree.body
    assert isinstance(function, ast.FunctionDef)
    return tree, function


def _bodies(*lines: str, name: str = "f") -> list[str]:
    """Each wrong variant of a function of these lines, without its head, on one line."""
    tree, function = _function("\n    ".join((f"def {name}(self, a, b):", *lines)))
    found = []
    for change in changes_of(function):
        with change.made():
            body = ast.unparse(ast.fix_missing_locations(tree)).splitlines()[1:]
        found.append("; ".join(line.strip() for line in body))
    return found


def test_condition_is_taken_for_true_for_false_and_for_each_of_its_parts() -> None:
    assert _bodies("if a < 1 and b:", "    self.go()") == [
        "if a < 1 and b:; pass",
        "if True:; self.go()",
        "if False:; self.go()",
        "if b:; self.go()",
        "if a < 1:; self.go()",
        "if a <= 1 and b:; self.go()",
    ]


def test_requirement_holds_always_or_never() -> None:
    assert _bodies("require(a == b, 'I1', f'{a} is not {b}')") == [
        "require(True, 'I1', f'{a} is not {b}')",
        "require(False, 'I1', f'{a} is not {b}')",
    ]


def test_steps_are_left_out_and_change_places() -> None:
    assert _bodies("self.publish(a)", "self.note(a)", "self.done = b") == [
        "pass; self.note(a); self.done = b",
        "self.publish(a); pass; self.done = b",
        "self.publish(a); self.note(a); pass",
        "self.note(a); self.publish(a); self.done = b",
    ]


def test_refusal_is_left_out_where_it_does_not_stand_alone() -> None:
    assert _bodies("if a:", "    raise b") == ["if True:; raise b", "if False:; raise b"]
    assert "pass" in _bodies("self.go()", "raise b")[1]


def test_caught_error_is_not_caught() -> None:
    found = _bodies("try:", "    self.go()", "except OSError:", "    return None")
    assert found[-1].endswith("except OSError:; raise")


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("return max(a, b)", ["return a", "return b"]),
        ("return a + 1", ["return a"]),
        ("return all(a)", ["return any(a)"]),
        ("return f'{a}-{b}'", ["return f'-{b}'", "return f'{a}-'"]),
        ("return replace(a, x=b)", ["return replace(a)"]),
        ("return a", ["return None"]),
    ],
)
def test_value_is_changed(line: str, wrong: list[str]) -> None:
    assert _bodies(line) == wrong


@pytest.mark.parametrize(
    "line",
    [
        "self._log.info('done', rows=a + 1)",
        "self._events.warning('late', rows=a + 1)",
        "raise FencedError(f'{a} of {b + 1}') from a",
        "self._told = f'{a} of {b}'",
    ],
)
def test_what_only_people_read_stays(line: str) -> None:
    wrong = [each for each in _bodies("self.go()", line, "self.end()") if line not in each]
    assert all("pass" in each for each in wrong)


def test_names_that_are_not_used_are_no_step() -> None:
    assert _bodies("del a, b", "self.go()") == ["del a, b; pass"]
    assert _bodies("del self.a[b]") == ["pass"]


def test_loop_is_never_made_endless() -> None:
    assert _bodies("while a:", "    self.go()") == ["while a:; pass", "while False:; self.go()"]


def test_changes_have_names_of_their_own_and_are_taken_back() -> None:
    text = "def f(a):\n    if a > 1:\n        return a > 1\n    return a > 1"
    tree, function = _function(text)
    names = [change.name for change in changes_of(function)]
    assert len(set(names)) == len(names) == 9
    for change in changes_of(function):
        with change.made():
            assert ast.unparse(tree) != text
        assert ast.unparse(tree) == text
