"""First check of a job file: its keys. Keys that this version does not have are named here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from sluiceway.jobfile import document
from sluiceway.jobfile.blocks.block import Block
from sluiceway.jobfile.blocks.values import Secret, is_secret_key
from sluiceway.jobfile.document import Entry, Node, Scalar
from sluiceway.jobfile.positions import Path
from sluiceway.jobfile.problems import JobFileProblem, Mark, quoted
from sluiceway.plugins import plugin_names

_MAX_COMPARED = 100
RENAMED_KEYS: Final[Mapping[str, str]] = {
    "decide": "complete_by",
    "extra": "unknown_fields",
    "key_drain": "key_order_wait",
    "lateness": "allowed_lateness",
    "other": "other_messages",
    "unknown_wait": "unknown_schema_wait",
}
"""Key before 0.1.0 -> the same key now, which the message names. No old key works."""
RENAMED_VALUES: Final[Mapping[tuple[str, str], str]] = {
    ("complete_by", "alone"): "count",
    ("complete_by", "with_watermark"): "watermark_and_count",
    ("late", "side"): "side_output",
}
"""The same of values: key of today and old value -> the value now."""


@dataclass(frozen=True, slots=True)
class FieldLayout:
    """Content of a field: one block, a list of blocks, blocks by name, or free data.

    Attributes:
        block: Block of one item.
        instead: A block that may replace the list.
    """

    kind: Literal["block", "list", "named", "free"]
    block: type[Block] = Block
    instead: type[Block] | None = None


_FREE = FieldLayout("free")
_INNER: dict[Any, Literal["list", "named"]] = {tuple: "list", Mapping: "named"}


def layout_of(annotation: Any) -> FieldLayout:
    """Read a model's field annotation; `None` as an alternative means optional."""
    if isinstance(annotation, type) and issubclass(annotation, Block):
        return FieldLayout("block", annotation)
    origin = get_origin(annotation)
    inner = [layout_of(argument) for argument in get_args(annotation)]
    block, *more = [layout for layout in inner if layout.kind != "free"] or [_FREE]
    if block.kind == "free":
        return _FREE
    if origin in _INNER:
        return FieldLayout(_INNER[origin], block.block)
    return FieldLayout(block.kind, block.block, more[0].block) if more else block


@dataclass(slots=True)
class Shape:
    """Plain data without the refused keys, and the problems of these.

    Attributes:
        data: For the models; lists are tuples.
        problems: One for each refused key or value.
        handled: Paths whose value has a problem already.
        suggested: Keys that a misspelt one was probably meant to be.
        later_in: Mappings that lost a key of a later version.
        given_later: Mappings that need not have their one of several keys.
        blocks: Expected block of a place with another value.
    """

    data: Any = None
    problems: list[JobFileProblem] = field(default_factory=list)
    handled: set[Path] = field(default_factory=set)
    suggested: set[Path] = field(default_factory=set)
    later_in: set[Path] = field(default_factory=set)
    given_later: frozenset[Path] = frozenset()
    blocks: dict[Path, type[Block]] = field(default_factory=dict)

    def mapping_for(self, path: Path, node: Node) -> str:
        """What to do where a mapping is expected, as exactly as the present value allows."""
        block = self.blocks.get(path)
        if block is None:
            return "write keys and values"
        given = node.text if isinstance(node, Scalar) else ""
        choices = [*block.ONE_OF, *_plugins_of(block)]
        inner = _meant(block, given, choices)
        name = f"{path[-1]}: " if path and isinstance(path[-1], str) else ""
        shown = "" if inner is None else f", as {quoted(f'{name}{{{inner}}}')}"
        known = choices or list(_fields(block))
        return f"write keys and values{shown}; known here: {', '.join(known)}"


def _meant(block: type[Block], given: str, choices: list[str]) -> str | None:
    """The value that the user has probably meant; None when that is not clear."""
    needed = [name for name, info in _fields(block).items() if info.is_required()]
    if given in choices:
        return f"{given}: {{}}"
    if given == "true" and not needed and not choices:
        return ""
    if len(needed) == 1 and given not in ("", "true", "false"):
        return f"{needed[0]}: {given}"
    return ", ".join(f"{name}: ..." for name in needed) or None


def _fields(block: type[Block]) -> dict[str, FieldInfo]:
    """Fields of a block by their keys in the job file."""
    return {info.alias or name: info for name, info in block.model_fields.items()}


def check_shape(
    root: Node, block: type[Block], *, given_later: frozenset[Path] = frozenset()
) -> Shape:
    """Check the keys of a tree against a block, and make plain data of the rest.

    Called once per load, after references are resolved.

    Args:
        root: The whole file.
        block: The expected block.
        given_later: Mappings that need not have their one of several required keys, because a later
            overlay may give it.
    """
    shape = Shape(given_later=given_later)
    shape.data = _plain(shape, root, (), FieldLayout("block", block))
    return shape


def _plain(shape: Shape, node: Node, path: Path, layout: FieldLayout) -> Any:
    if layout.kind == "block" and not isinstance(node, document.Mapping):
        shape.blocks[path] = layout.block
    if isinstance(node, Scalar):
        if node.value is None:
            _refuse(shape, path, _nothing(node.mark))
        return node.value
    if isinstance(node, document.Sequence):
        item = FieldLayout("block", layout.block) if layout.kind == "list" else _FREE
        return tuple(_plain(shape, n, (*path, i), item) for i, n in enumerate(node.items))
    if layout.kind == "block":
        return _block(shape, node, path, layout.block)
    if layout.instead is not None:
        return _block(shape, node, path, layout.instead)
    if layout.kind == "named":
        named = FieldLayout("block", layout.block)
        return {e.key: _value(shape, e, (*path, e.key), named) for e in node.entries}
    return {e.key: _option(shape, e, (*path, e.key)) for e in node.entries}


def _value(shape: Shape, entry: Entry, path: Path, layout: FieldLayout) -> Any:
    """A key's value; where it has none, the key is the place to report that."""
    if isinstance(entry.value, Scalar) and entry.value.value is None:
        _refuse(shape, path, _nothing(entry.mark))
        return None
    return _plain(shape, entry.value, path, layout)


def _block(shape: Shape, node: document.Mapping, path: Path, block: type[Block]) -> dict[str, Any]:
    known = _fields(block)
    data = {}
    for entry in node.entries:
        inner = (*path, entry.key)
        if entry.key in block.NULL_WORDS and _is_null_word(entry.value):
            data[entry.key] = "null"
        elif entry.key in known and is_secret_key(entry.key):
            data[entry.key] = _option(shape, entry, inner)
        elif entry.key in known:
            layout = layout_of(known[entry.key].annotation)
            data[entry.key] = _value(shape, entry, inner, layout)
        elif entry.key in _plugins_of(block):
            # Before the keys of later versions: a plug-in may have options that this version lacks.
            data[entry.key] = _value(shape, entry, inner, _FREE)
        elif block.NAMED is not None and _is_named(entry, block):
            data[entry.key] = _value(shape, entry, inner, FieldLayout("block", block.NAMED))
        elif entry.key in block.LATER:
            shape.later_in.add(path)
            _refuse(shape, inner, _later(entry.key, entry.mark))
        else:
            _refuse(shape, inner, _unknown(shape, entry, path, block))
    if path not in shape.given_later or any(key in data for key in block.ONE_OF):
        _require_one(shape, node, data, block)
    return data


def _is_named(entry: Entry, block: type[Block]) -> bool:
    """Whether a key that the block does not have is a name: only a mapping can have one."""
    return entry.key not in block.LATER and isinstance(entry.value, document.Mapping)


def _is_null_word(node: Node) -> bool:
    return isinstance(node, Scalar) and node.value is None and node.text == "null"


def _plugins_of(block: type[Block]) -> tuple[str, ...]:
    return tuple(sorted({name for group in block.PLUGINS for name in plugin_names(group)}))


def _require_one(
    shape: Shape, node: document.Mapping, data: Mapping[str, Any], block: type[Block]
) -> None:
    if not block.ONE_OF and not block.PLUGINS:
        return
    choices = (*block.ONE_OF, *_plugins_of(block))
    given = [key for key in choices if key in data]
    # A misspelt or later key may have been the one; it has a problem of its own.
    if len(given) > 1 or (not given and len(data) == len(node.entries)):
        came = " and ".join(map(quoted, given)) or "none"
        known = ", ".join(choices) or "the installed plug-ins, of which there is none"
        text = f"expected exactly one of {known}, got {came}"
        shape.problems.append(JobFileProblem(node.mark, text, "keep one" if given else "add one"))


def _option(shape: Shape, entry: Entry, path: Path) -> Any:
    """A value of free data: text as it is written, secrets from references only."""
    node = entry.value
    if not isinstance(node, Scalar) or node.value is None:
        return _value(shape, entry, path, _FREE)
    text = node.value if isinstance(node.value, str) else node.text
    if not is_secret_key(entry.key):
        return text
    if not node.sourced:
        expected = f"expected {quoted(entry.key)} from a reference, got plain text"
        todo = "write ${env:NAME} or ${file:/path}, and change the secret if others saw it"
        _refuse(shape, path, JobFileProblem(node.mark, expected, todo))
    return Secret(text)


def _nothing(mark: Mark) -> JobFileProblem:
    return JobFileProblem(mark, "expected a value, got nothing", "give one or remove it")


def _later(key: str, mark: Mark) -> JobFileProblem:
    return JobFileProblem(mark, f"{quoted(key)} is not in this version", "remove it", not_yet=True)


def _unknown(shape: Shape, entry: Entry, parent: Path, block: type[Block]) -> JobFileProblem:
    known = list(_fields(block))
    known += _plugins_of(block)
    choices = [*known, *sorted(block.LATER)]
    renamed = RENAMED_KEYS.get(entry.key)
    if renamed in known:
        close, todo = [renamed], f"its name is {quoted(renamed)} now"
    else:
        close = get_close_matches(entry.key[:_MAX_COMPARED].lower(), choices, n=1)
        todo = f"did you mean {quoted(close[0])}?" if close else f"known here: {', '.join(known)}"
    shape.suggested.update((*parent, key) for key in close)
    return JobFileProblem(entry.mark, f"unknown key {quoted(entry.key)}", todo)


def _refuse(shape: Shape, path: Path, problem: JobFileProblem) -> None:
    shape.problems.append(problem)
    shape.handled.add(path)
