"""The project's code as syntax trees, parsed once a process."""

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """A file's tree."""
    return ast.parse(path.read_bytes())


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file's tree."""
    return tuple(ast.walk(tree_of(path)))
