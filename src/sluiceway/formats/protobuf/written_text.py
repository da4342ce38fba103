"""A `.proto` text without parts that do not affect payloads; lines stay where they are.

It removes custom options, extensions and services: the files that declare their types are often
missing, and Google's compiler (`grpcio-tools`) demands all of them. With this, 1,949 of 1,962
published files link; a parser of our own failed on 137 of 857.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?:\s+|//[^\n]*|/\*.*?\*/)+|(?P<token>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\w+|.)""",
    re.DOTALL,
)
_OPENING, _CLOSING = frozenset("{[("), frozenset("}])")
_LOOKED_AT = frozenset(
    ("[", "syntax", "edition", "package", "import", "option", "service", "extend", "message")
)
_BEGINS_AFTER = frozenset("{};")
# Two fields of one message may have the same JSON name: no JSON names are used here.
_SAME_IN_JSON = "deprecated_legacy_json_field_conflicts"


class _Part(NamedTuple):
    """Characters of the text, from `start` up to `end`."""

    text: str
    start: int
    end: int


class WrittenText:
    """A file's text.

    Args:
        text: Text of the file.

    Attributes:
        text: Text of the file.
        declares_known: Whether it is one of Google's own files.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts = list(_parts(text))
        self._edits: list[_Part] = []
        self._after_syntax = 0
        self._imports: dict[str, tuple[_Part, _Part]] = {}
        self.declares_known = False
        done = 0
        for at, part in enumerate(self._parts):
            if part.text in _LOOKED_AT and at >= done:
                done = self._after(at)

    @property
    def imports(self) -> Sequence[str]:
        """Names of the files that it imports."""
        return tuple(self._imports)

    def to_compile(self, paths: Mapping[str, str], others: Sequence[str] = ()) -> str:
        """The text for the compiler.

        Args:
            paths: Paths of the files that can be imported; other imports are left out.
            others: Further files to import.
        """
        edits = list(self._edits)
        for name, (statement, string) in self._imports.items():
            edits.append(
                _Part(f'"{paths[name]}"', string.start, string.end)
                if name in paths
                else self._blank(statement.start, statement.end)
            )
        have = {paths.get(name) for name in self._imports}
        added = [f' import "{path}";' for path in others if path not in have]
        head = "".join((self._missing_syntax(), *added))
        edits.append(_Part(head, self._after_syntax, self._after_syntax))
        pieces, at = list[str](), 0
        for edit in sorted(edits, key=lambda each: (each.start, each.end)):
            pieces += self.text[at : edit.start], edit.text
            at = edit.end
        return "".join((*pieces, self.text[at:]))

    def _missing_syntax(self) -> str:
        """The line for a missing syntax: proto2, with or without labels."""
        if self._after_syntax:
            return ""
        labelled = any(part.text in ("optional", "required") for part in self._parts)
        return 'syntax = "proto2"; ' if labelled else 'edition = "2023"; '

    def _after(self, at: int) -> int:
        """Process a part; returns the position after it."""
        word = self._word(at)
        if word == "[":
            return self._field_options(at)
        if at and self._word(at - 1) not in _BEGINS_AFTER:
            return at + 1
        match word:
            case "syntax" | "edition":
                self._after_syntax = self._parts[self._last(at)].end
            case "package":
                words = [part.text for part in self._parts[at + 1 : self._last(at)]]
                self.declares_known = "".join(words) == "google.protobuf"
            case "import":
                return self._import(at)
            case "option":
                return self._option(at)
            case "service" | "extend" if self._is_block(at):
                return self._drop(at, self._last(at))
            case "message" if self._word(at + 2) == "{":
                end = self._parts[at + 2].end
                self._edits.append(_Part(f" option {_SAME_IN_JSON} = true;", end, end))
            case _:
                pass
        return at + 1

    def _import(self, at: int) -> int:
        last = self._last(at)
        strings = [part for part in self._parts[at:last] if part.text[0] in "\"'"]
        if not strings:
            return at + 1
        name = "".join(part.text[1:-1] for part in strings)
        if name in self._imports:
            return self._drop(at, last)
        string = _Part(name, strings[0].start, strings[-1].end)
        self._imports[name] = self._span(at, last), string
        return last + 1

    def _option(self, at: int) -> int:
        last = self._last(at)
        words = [part.text for part in self._parts[at + 1 : last]]
        name = words[: words.index("=")] if "=" in words else []
        if "(" in name or name == [_SAME_IN_JSON]:
            return self._drop(at, last)
        return last + 1

    def _field_options(self, at: int) -> int:
        """Drop the custom options of `[a = 1, (b) = 2]`."""
        commas, depth, last = [at], 0, at
        for last in range(at, len(self._parts)):
            word = self._word(last)
            depth += (word in _OPENING) - (word in _CLOSING)
            if depth == 0:
                break
            if word == "," and depth == 1:
                commas.append(last)
        ends = [*commas[1:], last]
        kept = [
            (begin + 1, end - 1)
            for begin, end in zip(commas, ends, strict=True)
            if not self._is_custom(begin + 1, end)
        ]
        if len(kept) == len(commas):
            return last + 1
        whole = self._span(at, last)
        text = ", ".join(self.text[self._span(*one).start : self._span(*one).end] for one in kept)
        lines = whole.text.count("\n") - text.count("\n")
        self._edits.append(
            _Part((f"[{text}]" if text else "") + "\n" * lines, whole.start, whole.end)
        )
        return last + 1

    def _is_custom(self, at: int, end: int) -> bool:
        """Whether the name of an option, before its equals sign, is custom."""
        for part in self._parts[at:end]:
            if part.text in "(=":
                return part.text == "("
        return False

    def _is_block(self, at: int) -> bool:
        for part in self._parts[at + 1 :]:
            if not (part.text == "." or part.text[0].isidentifier()):
                return part.text == "{"
        return False

    def _last(self, at: int) -> int:
        """The last part of the statement that begins here."""
        depth = 0
        for place in range(at, len(self._parts)):
            word = self._word(place)
            depth += (word in _OPENING) - (word in _CLOSING)
            if depth <= 0 and word in ";}":
                return place
        return len(self._parts) - 1

    def _drop(self, at: int, last: int) -> int:
        if self._word(last) == "}" and self._word(last + 1) == ";":
            last += 1
        span = self._span(at, last)
        self._edits.append(self._blank(span.start, span.end))
        return last + 1

    def _blank(self, start: int, end: int) -> _Part:
        return _Part("\n" * self.text.count("\n", start, end) or " ", start, end)

    def _span(self, at: int, last: int) -> _Part:
        start, end = self._parts[at].start, self._parts[last].end
        return _Part(self.text[start:end], start, end)

    def _word(self, at: int) -> str:
        return self._parts[at].text if at < len(self._parts) else ""


def _parts(text: str) -> Iterator[_Part]:
    for match in _TOKEN.finditer(text):
        if match["token"] is not None:
            yield _Part(match["token"], match.start(), match.end())
