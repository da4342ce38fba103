"""The place of each key and value of a job file."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sluiceway.jobfile import document
from sluiceway.jobfile.document import Entry, Node
from sluiceway.jobfile.problems import Mark, quoted

Path = tuple[str | int, ...]

# Words that are no text without quotes.
_OTHER_KIND = re.compile(r"[-+]?[0-9.]+|true|false|null")


@dataclass(frozen=True, slots=True)
class Positions:
    """Marks by path, such as `("table", "columns", 2, "type")`.

    For a path deeper than the file, its deepest existing part answers. A mapping from fields to
    names (`table.meta`) also answers as a list of {field, name}.
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
        """The node at `path`, or at its deepest existing part."""
        return self._find(path)[1]

    def came(self, path: Path) -> str:
        """The file's text at `path`, for a message; references stay as they are written."""
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

    def text(self, path: Path) -> str:
        """The text at exactly `path`; empty where there is none."""
        node = self.node(path) if self.has(path) else None
        found = node.value if isinstance(node, document.Scalar) else None
        return found if isinstance(found, str) else ""

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


@dataclass(frozen=True, slots=True)
class Places:
    """Places of a route's parts, for problems that are found long after the file was read.

    Holds no values, which may be secret. All are equal: the place of a text is no part of its
    meaning.

    Attributes:
        source: The path as the user gave it.
        marks: Places of keys, and of items of lists.
    """

    source: str = field(compare=False)
    marks: Mapping[Path, Mark] = field(compare=False, repr=False)

    def place(self, path: Path) -> str:
        """`file:line:column` of the key or item at `path`, or of the nearest one above it."""
        above = (path[:length] for length in range(len(path), -1, -1))
        mark = next(self.marks[part] for part in above if part in self.marks)
        return f"{self.source}:{mark.line}:{mark.column}"


def places_in(root: Node, source: str, *within: str) -> Places:
    """The places of the file's blocks with these names, and of the file.

    Args:
        root: The route as a whole job file.
        source: The path as the user gave it.
        within: Keys at the top.
    """
    entries = root.entries if isinstance(root, document.Mapping) else ()
    kept = document.Mapping(tuple(entry for entry in entries if entry.key in within), root.mark)
    return Places(source, dict(_marks(kept, (), root.mark)))


def _marks(node: Node, path: Path, mark: Mark) -> Iterator[tuple[Path, Mark]]:
    """Marks below a node; the reader bounds the depth."""
    yield path, mark
    if isinstance(node, document.Mapping):
        for entry in node.entries:
            yield from _marks(entry.value, (*path, entry.key), entry.mark)
    if isinstance(node, document.Sequence):
        for index, item in enumerate(node.items):
            yield from _marks(item, (*path, index), item.mark)


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
