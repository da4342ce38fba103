"""A `.proto` text and its imports -> a schema, as registries and job files hold them.

Google's compiler parses and links, but registries accept more texts than it does. So parts that do
not affect payloads are removed first: custom options, extensions, services and missing imports.
Their types may be missing. Lines stay where they are.
"""

import ast
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

import grpc_tools
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_tools import _protoc_compiler as protoc  # The public module adds importers of `_pb2`.

from sluiceway.formats.protobuf.schema import (
    MAX_SCHEMA_BYTES,
    ProtobufSchema,
    ProtobufSchemaError,
    link,
)
from sluiceway.formats.protobuf.written_text import WrittenText

GOOGLE = "google/protobuf/"
GOOGLE_FOLDER = str(Path(grpc_tools.__path__[0]) / "_proto")
"""Folder of the compiler's own copies of these files."""

ALWAYS_KNOWN = tuple(
    f"{GOOGLE}{name}.proto"
    for name in (
        *("any", "api", "descriptor", "duration", "empty", "field_mask"),
        *("source_context", "struct", "timestamp", "type", "wrappers"),
    )
)
"""Files whose types may be used without an import."""

_COMMON = ("google/api/", "google/rpc/", "google/type/")
_CONFLUENT = {
    "confluent/type/decimal.proto": """
syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
""",
    # Only options.
    "confluent/meta.proto": "",
}


@cache
def google_files() -> frozenset[str]:
    """Names of the files that the compiler has."""
    folder = Path(GOOGLE_FOLDER)
    return frozenset(str(path.relative_to(folder)) for path in folder.rglob("*.proto"))


def bundled_text(name: str) -> str | None:
    """The text of a file that serializers know without an import; None for another."""
    if name in _CONFLUENT:
        return _CONFLUENT[name]
    folder, _, file = name.rpartition("/")
    if not name.startswith(_COMMON) or not folder.replace("/", "").isidentifier():
        return None
    try:
        return (files(folder.replace("/", ".")) / file).read_text("utf-8")
    except (ModuleNotFoundError, FileNotFoundError, ValueError):
        return None


ROOT = "schema.proto"

# The compiler's module generates Python code, which holds the descriptor.
_DESCRIPTOR = b"AddSerializedFile("


def compile_proto(text: str, imported: Iterable[tuple[str, str]] = ()) -> ProtobufSchema:
    """Read a `.proto` text. Called once a schema and process.

    Args:
        text: The schema.
        imported: Names and texts of the files that it imports, dependencies first. Of several
            versions of one file the fields of all are read.

    Raises:
        ProtobufSchemaError: The text is no schema, or it lacks a type that it uses.
    """
    given = [one for one in imported if not one[0].startswith(GOOGLE) and not _is_bundled(one[0])]
    if sum(map(len, (text, *(other for _, other in given)))) > MAX_SCHEMA_BYTES:
        raise ProtobufSchemaError(f"the schema has more than {MAX_SCHEMA_BYTES} characters")
    last = dict(given)
    first = dict(reversed(given))
    found, fault = list[ProtobufSchema](), ProtobufSchemaError("")
    for versions in (first, last) if first != last else (last,):
        try:
            found.append(_linked(text, {name: versions[name] for name in last}))
        except ProtobufSchemaError as error:
            fault = error
    if not found:
        raise fault
    for other in found[1:]:
        found[0].merge(other)
    return found[0]


def _is_bundled(name: str) -> bool:
    return bundled_text(name) is not None


def _linked(text: str, given: dict[str, str]) -> ProtobufSchema:
    """The schema of a text, with one version of each file that it imports."""
    texts = {name: WrittenText(_utf8(other)) for name, other in given.items()}
    root = WrittenText(_utf8(text))
    _add_bundled(texts, root)
    # A file with two names counts once.
    by_text = {each.text: f"file{number}.proto" for number, each in enumerate(texts.values())}
    paths = {name: by_text[each.text] for name, each in texts.items()}
    names = {path: name for name, path in paths.items()}
    try:
        return link(_compiled(_files(paths, texts, root), names))
    except ProtobufSchemaError as error:
        absent = [
            name
            for each in (root, *texts.values())
            for name in each.imports
            if name not in paths and name not in google_files()
        ]
        if not absent or "is not defined" not in str(error):
            raise
        raise ProtobufSchemaError(f"{error} It imports {absent[0]}, which is not given") from None


def _files(
    paths: dict[str, str], texts: dict[str, WrittenText], root: WrittenText
) -> dict[str, str]:
    """Texts for the compiler, by the paths at which it finds them.

    Args:
        paths: Paths of the imported files, by name.
        texts: The imported files, by name.
        root: The file that imports them.
    """
    paths = paths | {name: name for name in google_files()}
    wanted = {paths.get(name) for each in (root, *texts.values()) for name in each.imports}
    files: dict[str, str] = {}
    # A registry's reference may have a name that no import has: later files see it.
    unnamed: list[str] = []
    for name, each in (*texts.items(), (ROOT, root)):
        others = unnamed if each is root or not paths.keys() >= set(each.imports) else []
        known = () if each.declares_known or "protobuf" not in each.text else ALWAYS_KNOWN
        path = ROOT if each is root else paths[name]
        files[path] = each.to_compile(paths, (*others, *known))
        if path not in wanted:
            unnamed.append(path)
    return files


def bundled_files(names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Names and descriptors of known files, dependencies first.

    Called once for a descriptor set that lacks some of its imports.

    Args:
        names: Names of the files that it lacks; unknown names are skipped.
    """
    known = [name for name in names if name in google_files() or bundled_text(name) is not None]
    text = "".join(f'import "{name}";\n' for name in known)
    root = WrittenText(text)
    texts: dict[str, WrittenText] = {}
    _add_bundled(texts, root)
    paths = {name: f"file{number}.proto" for number, name in enumerate(texts)}
    names = {path: name for name, path in paths.items()}
    for file in _compiled(_files(paths, texts, root), names):
        path = FileDescriptorProto.FromString(file).name
        yield names.get(path, path), file


def _utf8(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ProtobufSchemaError("the schema is no text in UTF-8") from error
    return text.removeprefix("\ufeff")


def _add_bundled(texts: dict[str, WrittenText], root: WrittenText) -> None:
    """Add imported files that serializers know without an import."""
    wanted = [name for each in (root, *texts.values()) for name in each.imports]
    while wanted:
        name = wanted.pop()
        text = None if name in texts else bundled_text(name)
        if text is not None:
            texts[name] = WrittenText(text)
            wanted += texts[name].imports


def _compiled(files: dict[str, str], names: dict[str, str]) -> Iterator[bytes]:
    """Descriptors of some files, dependencies first."""
    # A reader cannot fix its warnings, for example of an unused import.
    warnings.filterwarnings("ignore", category=protoc.ProtocWarning)
    with tempfile.TemporaryDirectory(prefix="sluiceway-proto-") as folder:
        for path, text in files.items():
            (Path(folder) / path).write_text(text, encoding="utf-8")
        try:
            made = protoc.get_protos(ROOT.encode(), [folder.encode(), GOOGLE_FOLDER.encode()])
        except protoc.ProtocErrors as error:
            raise ProtobufSchemaError(_first_fault(error.errors(), names)) from None
    for _, code in made:
        literal = code.partition(_DESCRIPTOR)[2].partition(b")\n")[0]
        yield ast.literal_eval(literal.decode())


def _first_fault(faults: Iterable[protoc.ProtocError], names: dict[str, str]) -> str:
    """Place and text of the first real fault, not of an import that failed because of it."""
    told = [(each.filename.decode(), each.line, each.message.decode()) for each in faults]
    first = next((each for each in told if not each[2].startswith("Import ")), told[0])
    path, line, message = str(first[0]), int(first[1]), str(first[2])
    where = f"line {line + 1}: " if line >= 0 else ""
    where += f"in {names[path]}: " if path in names else ""
    for other, name in names.items():
        message = message.replace(f'"{other}"', f'"{name}"')
    return where + message
