"""Fields of job file blocks and ledger records say what they hold, and when they are None.

Editors show these docs, and the reference of the job file is made of them.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.house import PACKAGE
from tools.source_trees import tree_of

BLOCKS = sorted((PACKAGE / "jobfile/blocks").glob("*.py"))
RECORDS = [
    *sorted((PACKAGE / "ledger").glob("*_records.py")),
    *(PACKAGE / f"ledger/{name}.py" for name in ("records", "data_parts", "file_names")),
]
_FIELD = re.compile(r"^    (\w+): (.*(?:\n {8,}.*)*)", re.MULTILINE)


def docs_of(node: ast.ClassDef) -> dict[str, str]:
    """Field -> what the class says of it."""
    listed = (ast.get_docstring(node) or "").partition("Attributes:\n")[2]
    return dict(_FIELD.findall(listed))


def fields_of(path: Path) -> Iterator[tuple[ast.ClassDef, str, str]]:
    """Public classes of a module with the name and the annotation of each field."""
    for node in tree_of(path).body:
        if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
            continue
        for each in node.body:
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                annotation = ast.unparse(each.annotation)
                if "ClassVar" not in annotation and not each.target.id.startswith("_"):
                    yield node, each.target.id, annotation


def is_block(annotation: str) -> bool:
    """Whether a field is another block, whose own docstring says what it is."""
    bodies = [node for path in BLOCKS for node in tree_of(path).body]
    names = {node.name for node in bodies if isinstance(node, ast.ClassDef)}
    return bool(names & set(re.findall(r"\w+", annotation)))


def unclear(path: Path) -> list[str]:
    found = []
    for node, name, annotation in fields_of(path):
        doc = docs_of(node).get(name)
        one_of = "ONE_OF" in ast.unparse(node)
        if doc is None:
            found += [] if is_block(annotation) else [f"{node.name}.{name}: says nothing"]
        elif doc.startswith("Of the "):
            found.append(f"{node.name}.{name}: says only what it belongs to")
        elif "| None" in annotation and not one_of and not re.search(r"\bNone\b", doc):
            found.append(f"{node.name}.{name}: when is it None?")
    return found


@pytest.mark.parametrize("path", [*BLOCKS, *RECORDS], ids=lambda path: path.stem)
def test_fields_say_what_they_hold_and_when_they_are_none(path: Path) -> None:
    assert unclear(path) == []


def test_fields_that_say_nothing_are_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        'class A:\n    """A.\n\n    Attributes:\n        b: Of the a.\n        c: A time.\n'
        '        d: A name; None without.\n    """\n\n    b: int\n    c: int | None\n'
        "    d: str | None\n    e: int\n    f: ConnectionSpec\n"
    )
    assert [each.partition(":")[0] for each in unclear(module)] == ["A.b", "A.c", "A.e"]


def test_blocks_and_records_are_looked_at() -> None:
    looked_at = [name for path in (*BLOCKS, *RECORDS) for _, name, _ in fields_of(path)]
    assert len(looked_at) > 300
