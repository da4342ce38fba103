"""YAML text -> a tree of nodes with their places. Safe and bounded.

Only plain data is allowed: no tags, anchors, aliases, directives or second documents, so nothing is
constructed and nothing expands. The tree is built from parser events without recursion; every limit
is checked before the next event is read.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from sluiceway.jobfile.problems import JobFileProblem, Mark, quoted

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 50
MAX_NODES = 20_000

_LONGEST_SHOWN = 200
_START = Mark(1, 1)
_UNREADABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_LINE_BREAK = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_NUMBER = re.compile(r"[-+]?(\.[0-9]{1,30}|[0-9]{1,30}(\.[0-9]{0,30})?)([eE][-+]?[0-9]{1,3})?")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# ruamel.yaml's parser raises these on some malformed input (bad escapes, versions).
_PARSER_FAULTS = (ValueError, OverflowError, AssertionError, LookupError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value.

    Attributes:
        value: Value of the scalar.
        text: Text in the file; messages show this, never the text that a reference stands for.
        mark: Where it begins.
        sourced: True when the whole value comes from references.
    """

    value: str | int | float | bool | None
    text: str
    mark: Mark
    sourced: bool = False


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    items: "tuple[Node, ...]"
    mark: Mark


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of a mapping, where the key stands, and its value."""

    key: str
    mark: Mark
    value: "Node"


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys and values in file order; keys are unique."""

    entries: tuple[Entry, ...]
    mark: Mark


Node = Scalar | Sequence | Mapping


@dataclass(frozen=True, slots=True)
class Document:
    """The result of reading: the tree, unless the text could not be parsed, and all problems."""

    root: Node | None
    problems: tuple[JobFileProblem, ...]


@dataclass(slots=True)
class _Frame:
    """A list or mapping that is being read."""

    mark: Mark
    is_mapping: bool
    items: list[Node] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    key: tuple[str, Mark] | None = None

    def close(self) -> Node:
        if self.is_mapping:
            return Mapping(tuple(self.entries.values()), self.mark)
        return Sequence(tuple(self.items), self.mark)


@dataclass(slots=True)
class _Builder:
    """Turns parser events into nodes; collects problems."""

    frames: list[_Frame] = field(default_factory=list)
    problems: list[JobFileProblem] = field(default_factory=list)
    root: Node | None = None
    documents: int = 0
    nodes: int = 0

    def add(self, event: Event, mark: Mark) -> bool:
        """Add one event. Returns False when further reading makes no sense."""
        if isinstance(event, DocumentStartEvent):
            return self._begin_document(event, mark)
        if isinstance(event, MappingEndEvent | SequenceEndEvent):
            frame = self.frames.pop()
            self._mend_cut_type(frame)
            self._add(frame.close())
        elif isinstance(event, NodeEvent):
            self._refuse_references(event, mark)
            return self._begin_node(event, mark)
        return True

    def _begin_document(self, event: DocumentStartEvent, mark: Mark) -> bool:
        self.documents += 1
        if self.documents > 1:
            self._wrong(mark, "expected one document, got another `---`", "use a file for each job")
            return False
        if event.version or event.tags:
            self._wrong(mark, "expected no directives, got one", "remove the line that begins `%`")
        return True

    def _begin_node(self, event: NodeEvent, mark: Mark) -> bool:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            self._wrong(mark, f"expected at most {MAX_NODES} values, got more", "make it smaller")
            return False
        if isinstance(event, MappingStartEvent | SequenceStartEvent):
            if len(self.frames) == MAX_DEPTH:
                self._wrong(mark, f"expected at most {MAX_DEPTH} levels, got more", "nest less")
                return False
            self.frames.append(_Frame(mark, isinstance(event, MappingStartEvent)))
        elif isinstance(event, ScalarEvent):
            self._add(self._scalar(event, mark))
        else:
            self._add(Scalar("", "*", mark))
        return True

    def _refuse_references(self, event: NodeEvent, mark: Mark) -> None:
        if isinstance(event, AliasEvent):
            self._wrong(mark, "expected a value, got an alias (`*`)", "write the value out")
            return
        if event.anchor is not None:
            self._wrong(mark, "expected a value, got an anchor (`&`)", "remove the anchor")
        if getattr(event, "tag", None) is not None:
            self._wrong(mark, "expected plain data, got a tag (`!`)", "remove the tag")

    def _scalar(self, event: ScalarEvent, mark: Mark) -> Scalar:
        text = str(event.value)
        if _UNREADABLE.search(text):
            self._wrong(mark, "expected printable text, got control characters", "remove them")
            text = _UNREADABLE.sub("?", text)
        plain = event.style is None and bool(event.implicit[0])
        return Scalar(_meaning(text) if plain else text, text, mark)

    def _add(self, node: Node) -> None:
        if not self.frames:
            self.root = node
            return
        frame = self.frames[-1]
        if not frame.is_mapping:
            frame.items.append(node)
        elif frame.key is None:
            frame.key = (self._key(node), node.mark)
        else:
            key, mark = frame.key
            frame.key = None
            self._add_entry(frame, Entry(key, mark, node))

    def _add_entry(self, frame: _Frame, entry: Entry) -> None:
        known = frame.entries.setdefault(entry.key, entry)
        if known is not entry:
            text = f"expected each key once, got {quoted(entry.key)} again"
            self._wrong(entry.mark, text, f"remove one; the first is on line {known.mark.line}")

    def _mend_cut_type(self, frame: _Frame) -> None:
        """Join a type without quotes that YAML cuts at its commas."""
        entries = list(frame.entries.values())
        found = next((each for each in entries if each.key == "type"), None)
        if found is None or not isinstance(found.value, Scalar):
            return
        whole, more = found.value.text, list[str]()
        for entry in entries[entries.index(found) + 1 :]:
            if not _is_cut(whole) or entry.value != Scalar(None, "", entry.value.mark):
                break
            more.append(entry.key)
            whole += f",{entry.key}"
        if not more or _is_cut(whole):
            return
        text = f"expected a type with commas in quotes, got {quoted(found.value.text)}"
        shown = whole if len(whole) <= _LONGEST_SHOWN else "..."
        self._wrong(found.value.mark, text, f'quote it: type: "{shown}"')
        for key in more:
            del frame.entries[key]
        frame.entries["type"] = replace(found, value=replace(found.value, value=whole, text=whole))

    def _key(self, node: Node) -> str:
        if isinstance(node, Scalar):
            return node.text
        self._wrong(node.mark, "expected text as a key, got a list or mapping", "use a plain key")
        return ""

    def _wrong(self, mark: Mark, text: str, todo: str) -> None:
        self.problems.append(JobFileProblem(mark, text, todo))


def _is_cut(text: str) -> bool:
    """Whether a bracket is still open."""
    return text.count("(") > text.count(")") or text.count("<") > text.count(">")


def _meaning(text: str) -> str | int | float | bool | None:
    """Value of an unquoted scalar by the core schema of YAML 1.2, decimal numbers only."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    return text


def read_document(content: bytes) -> Document:
    """Parse a job file's bytes. Called once per load; never raises for bad content.

    Args:
        content: The whole file.

    Returns:
        The tree and every problem of the text itself.
    """
    if len(content) > MAX_BYTES:
        text = f"expected at most {MAX_BYTES} bytes, got more"
        return Document(None, (JobFileProblem(_START, text, "a job file is a few kilobytes"),))
    try:
        text = content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        mark = _mark_at(content[: error.start].decode("utf-8"))
        problem = JobFileProblem(mark, "expected UTF-8, got other bytes", "save the file as UTF-8")
        return Document(None, (problem,))
    unreadable = _UNREADABLE.search(text)
    if unreadable:
        mark = _mark_at(text[: unreadable.start()])
        came = f"expected printable text, got U+{ord(unreadable[0]):04X}"
        return Document(None, (JobFileProblem(mark, came, "remove the character"),))
    return _parse(text)


def _parse(text: str) -> Document:
    builder = _Builder()
    last = _START
    try:
        for event in _events(text):
            mark = Mark(event.start_mark.line + 1, event.start_mark.column + 1)
            last = mark
            if not builder.add(event, mark):
                return Document(None, tuple(builder.problems))
    except MarkedYAMLError as error:
        builder.problems.append(_syntax_problem(error, last))
    except (YAMLError, *_PARSER_FAULTS):
        what = "expected YAML, got something else after this place"
        builder.problems.append(JobFileProblem(last, what, "look for a bad escape or character"))
    else:
        if builder.root is None:
            what = "expected a job, got an empty file"
            builder.problems.append(JobFileProblem(_START, what, "begin with `version: 1`"))
        return Document(builder.root, tuple(builder.problems))
    return Document(None, tuple(builder.problems))


def _events(text: str) -> Iterator[Event]:
    events: Iterator[Event] = YAML(typ="safe", pure=True).parse(text)
    return events


def _syntax_problem(error: MarkedYAMLError, last: Mark) -> JobFileProblem:
    at = error.problem_mark or error.context_mark
    mark = Mark(at.line + 1, at.column + 1) if at else last
    began = error.context_mark
    since = f" that begins in line {began.line + 1}" if began and error.context else ""
    what = f"{error.context or ''}{since} {error.problem or ''}".strip()
    if "'\\t'" in what:
        return JobFileProblem(mark, "expected spaces, got a tab", "indent and separate with spaces")
    todo = "check quotes, colons and indentation; quote `${...}` and `{...}` between braces"
    return JobFileProblem(mark, f"expected YAML, got an error: {what}", todo)


def _mark_at(before: str) -> Mark:
    """Place right after the text `before`."""
    lines = _LINE_BREAK.split(before.removeprefix("\ufeff"))
    return Mark(len(lines), len(lines[-1]) + 1)
