"""Where each key and value of a job file stands."""

import re
from dataclasses import dataclass

from sluiceway.spec import document
from sluiceway.spec.document import Entry, Node
from sluiceway.spec.problems import Mark, quoted

Path = tuple[str | int, ...]

# What is no text without quotes.
_OTHER_KIND = re.compile(r"[-+]?[0-9.]+|true|false|null")


@dataclass(frozen=True, slots=True)
class Positions:
    """Marks by path, as `("table", "columns", 2, "type")`.

    A path that goes deeper than the file is answered by its deepest part that is there. A
    mapping from fields to names (`table.meta`) also answers as a list of {field, name}.
    """

    root: Node

    def value(self, path: Path) -> Mark:
        """Where the value at `path` begins."""
        return self._find(path)[1].mark

    def key(self, path: Path) -> Mark:
        """Where the key at `path` begins; an item of a list has no key and gives its value."""
        entry, node = self._find(path)
        return entry.mark if entry else node.mark

    def node(self, path: Path) -> Node:
        """What the file has at `path`, or the deepest part of it that is there."""
        return self._find(path)[1]

    def came(self, path: Path) -> str:
        """What the file has at `path`, for a message; references stay as they are written."""
        node = self._find(path)[1]
        if isinstance(node, document.Mapping):
            return "a mapping"
        if isinstance(node, document.Sequence):
            return "a list" if node.items else "an empty list"
        if node.value is None:
            return "nothing"
        kind = (
            "the text " if isinstance(node.value, str) and _OTHER_KIND.fullmatch(node.text) else ""
        )
        return kind + quoted(node.text)

    def has(self, path: Path) -> bool:
        """Whether the file has something at exactly `path`."""
        node = self.root
        for step in path:
            found = _child(node, step)
            if found is None:
                return False
            node = found[1]
        return True

    def _find(self, path: Path) -> tuple[Entry | None, Node]:
        entry, node = None, self.root
        for step in path:
            found = _child(node, step)
            if found is None:
                break
            entry, node = found
        return entry, node


def _child(node: Node, step: str | int) -> tuple[Entry | None, Node] | None:
    if isinstance(node, document.Sequence) and isinstance(step, int):
        return (None, node.items[step]) if step < len(node.items) else None
    if isinstance(node, document.Mapping):
        if isinstance(step, int):
            return _renaming(node.entries[step]) if step < len(node.entries) else None
        found = next((entry for entry in node.entries if entry.key == step), None)
        return (found, found.value) if found else None
    return None


def _renaming(entry: Entry) -> tuple[Entry, Node]:
    """The n-th key of a mapping from fields to names, as an item {field, name} of a list."""
    field = Entry("field", entry.mark, document.Scalar(entry.key, entry.key, entry.mark))
    name = Entry("name", entry.mark, entry.value)
    return entry, document.Mapping((field, name), entry.mark)
