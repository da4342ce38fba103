"""Files that schemas import without having them: Google's own, and those of serializers."""

from functools import cache
from importlib.resources import files
from pathlib import Path

import grpc_tools

GOOGLE = "google/protobuf/"
GOOGLE_FOLDER = str(Path(grpc_tools.__path__[0]) / "_proto")
"""Where the compiler's own copies of these files are."""

ALWAYS_KNOWN = tuple(
    f"{GOOGLE}{name}.proto"
    for name in (
        *("any", "api", "descriptor", "duration", "empty", "field_mask"),
        *("source_context", "struct", "timestamp", "type", "wrappers"),
    )
)
"""Their types may be used without an import."""

_COMMON = ("google/api/", "google/rpc/", "google/type/")
_CONFLUENT = {
    "confluent/type/decimal.proto": """
syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
""",
    # Options alone.
    "confluent/meta.proto": "",
}


@cache
def google_files() -> frozenset[str]:
    """Names of the files that the compiler has."""
    folder = Path(GOOGLE_FOLDER)
    return frozenset(str(path.relative_to(folder)) for path in folder.rglob("*.proto"))


def bundled_text(name: str) -> str | None:
    """The text of a file that serializers have without being given it; None for another."""
    if name in _CONFLUENT:
        return _CONFLUENT[name]
    folder, _, file = name.rpartition("/")
    if not name.startswith(_COMMON) or not folder.replace("/", "").isidentifier():
        return None
    try:
        return (files(folder.replace("/", ".")) / file).read_text("utf-8")
    except (ModuleNotFoundError, FileNotFoundError, ValueError):
        return None
