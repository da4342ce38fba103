"""A library's own commit retries and cleans up: both double or lose rows (a lint)."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "src" / "sluiceway"
FORBIDDEN = frozenset(
    [
        *("append", "overwrite", "upsert", "dynamic_partition_overwrite", "add_files"),
        *("transaction", "commit_transaction", "update_snapshot", "fast_append", "merge_append"),
        *("update_schema", "update_spec", "update_sort_order", "manage_snapshots"),
        *("expire_snapshots", "commit_table_request", "_do_commit"),
    ]
)
COMMITTERS = {"commit_table": frozenset({"sinks/iceberg/catalog/catalogs.py"})}
STORAGES = frozenset({"storage", "self._storage"})
MODULES = frozenset({"pyiceberg.table.update.snapshot", "pyiceberg.table.maintenance"})


def library_calls(text: str, file: str) -> list[str]:
    """Calls of what commits, in a file that knows pyiceberg."""
    tree = ast.parse(text)
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    if not any(module.startswith("pyiceberg") for module in modules):
        return []
    found = [f"{file} imports {module}" for module in modules & MODULES]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        owner = ast.unparse(node.value)
        # Lists have an `append` too, and storages an `overwrite`.
        harmless = node.attr == "append" and "table" not in owner
        harmless = harmless or (node.attr == "overwrite" and owner in STORAGES)
        if node.attr in FORBIDDEN and not harmless:
            found.append(f"{file}:{node.lineno} {node.attr}")
        if node.attr in COMMITTERS and file not in COMMITTERS[node.attr]:
            found.append(f"{file}:{node.lineno} {node.attr}")
    return found


def test_no_file_uses_a_library_commit() -> None:
    found = [
        each
        for path in sorted(SOURCE.rglob("*.py"))
        for each in library_calls(path.read_text(), str(path.relative_to(SOURCE)))
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "load().transaction()",
        "self.table.append(rows)",
        "catalog.commit_table(t, r, u)",
        "from pyiceberg.table.update.snapshot import ExpireSnapshots",
    ],
)
def test_a_library_commit_is_found(line: str) -> None:
    text = f"from pyiceberg.table import Table\n{line}\n"
    assert library_calls(text, "sinks/iceberg/x.py") != []
