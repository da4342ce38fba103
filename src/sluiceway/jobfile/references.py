"""`${env:NAME}` and `${file:/path}` in the text values of a job file."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sluiceway.jobfile import document
from sluiceway.jobfile.document import Node, Scalar
from sluiceway.jobfile.problems import JobFileProblem, quoted

MAX_FILE_BYTES = 64 * 1024
MAX_SCHEMA_BYTES = 4 * 1024 * 1024
"""Largest size of a file with a schema, in bytes: each epoch sends it to the tasks."""

_Keys = tuple[str, ...]
_SCHEMAS: frozenset[_Keys] = frozenset(
    {("format", "avro", "schema"), ("format", "avro", "schemas"), ("format", "protobuf", "schema")}
)
REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(slots=True)
class _Resolver:
    environ: Mapping[str, str]
    problems: list[JobFileProblem] = field(default_factory=list)

    def resolve(self, node: Node, keys: _Keys = ()) -> Node:
        """Copy of `node`, at `keys`, with its references replaced; the reader bounds its depth."""
        if isinstance(node, document.Mapping):
            entries = [
                replace(entry, value=self.resolve(entry.value, (*keys, entry.key)))
                for entry in node.entries
            ]
            return document.Mapping(tuple(entries), node.mark)
        if isinstance(node, document.Sequence):
            items = tuple(self.resolve(item, keys) for item in node.items)
            return document.Sequence(items, node.mark)
        most_bytes = MAX_SCHEMA_BYTES if keys[-3:] in _SCHEMAS else MAX_FILE_BYTES
        return self._resolve_scalar(node, most_bytes)

    def _resolve_scalar(self, scalar: Scalar, most_bytes: int) -> Scalar:
        if not isinstance(scalar.value, str) or "${" not in scalar.value:
            return scalar
        literal = REFERENCE.sub("", scalar.value)
        if "${" in literal:
            text = f"expected `${{env:NAME}}` or `${{file:/path}}`, got {quoted(scalar.text)}"
            self.problems.append(JobFileProblem(scalar.mark, text, "close the reference with `}`"))
            return scalar
        value = "".join(self._pieces(scalar, most_bytes))
        return replace(scalar, value=value, sourced=not literal)

    def _pieces(self, scalar: Scalar, most_bytes: int) -> Iterator[str]:
        text, end = str(scalar.value), 0
        for match in REFERENCE.finditer(text):
            yield text[end : match.start()]
            yield self._lookup(match[1], scalar, most_bytes)
            end = match.end()
        yield text[end:]

    def _lookup(self, reference: str, scalar: Scalar, most_bytes: int) -> str:
        kind, _, name = reference.partition(":")
        if kind == "env" and _ENV_NAME.fullmatch(name):
            return self._environment(name, scalar)
        if kind == "file" and name.startswith("/"):
            return self._file(name, scalar, most_bytes)
        text = f"expected `${{env:NAME}}` or `${{file:/path}}`, got {quoted(scalar.text)}"
        return self._wrong(scalar, text, "name a variable, or a file by its absolute path")

    def _environment(self, name: str, scalar: Scalar) -> str:
        value = self.environ.get(name)
        if not value:
            text = f"expected the environment variable {name}, got nothing"
            return self._wrong(scalar, text, f"set it: export {name}=...")
        if not value.isprintable():
            text = f"expected printable text in the environment variable {name}, got other"
            return self._wrong(scalar, text, "remove control characters from it")
        return value

    def _file(self, name: str, scalar: Scalar, most_bytes: int) -> str:
        path = Path(name)
        try:
            # Only regular files: reading a device or a pipe could block for ever.
            size_bytes = path.stat().st_size if path.is_file() else -1
            if not 0 <= size_bytes <= most_bytes:
                text = f"expected a file of at most {most_bytes:,} bytes at {quoted(name)}"
                got, todo = f"one of {size_bytes:,}", "shorten it"
                if size_bytes < 0:
                    got, todo = "none", "check the path"
                return self._wrong(scalar, f"{text}, got {got}", todo)
            value = path.read_text("utf-8").rstrip("\r\n")
        except (OSError, ValueError) as error:
            text = f"expected a readable text file at {quoted(name)}, got {type(error).__name__}"
            return self._wrong(scalar, text, "check that it exists, its permissions and encoding")
        if not value or "\0" in value:
            text = f"expected text in the file {quoted(name)}, got nothing usable"
            return self._wrong(scalar, text, "write the value into it")
        return value

    def _wrong(self, scalar: Scalar, text: str, todo: str) -> str:
        self.problems.append(JobFileProblem(scalar.mark, text, todo))
        return "unresolved"


def resolve_references(root: Node, environ: Mapping[str, str]) -> tuple[Node, list[JobFileProblem]]:
    """Replace all references in the tree's text values. Called once per load.

    Replaced text is not searched again, so a value cannot add references.

    Args:
        root: The tree as read.
        environ: Environment variables.

    Returns:
        A new tree whose `Scalar.text` keeps the written text, and the unresolved references.
    """
    resolver = _Resolver(environ)
    return resolver.resolve(root), resolver.problems
