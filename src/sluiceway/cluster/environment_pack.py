"""This Python environment as one archive that runs on machines without any Python.

It holds the interpreter, its standard library, this package, and what this package and its plug-ins
need. Of pyspark it holds only the Python part, because the cluster brings the jars. Time, place and
user leave no trace in it, so the same environment gives the same bytes.
"""

import gzip
import hashlib
import json
import os
import re
import stat
import sys
import sysconfig
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.plugins import PluginGroup

SUFFIX = ".tar.gz"
_ROOT = "sluiceway"
_NATIVE = "sluiceway-native"
_LOGINS = "kerberos"
"""Extra of this package that is packed when installed, for a login from a driver on a cluster."""
_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
_MADE_AT_S = 315_532_800
"""1980-01-01: the first time that every kind of archive can hold."""
_COMPRESS_LEVEL = 6
_UNUSED_STANDARD = frozenset(
    {"site-packages", "dist-packages", "test", "idlelib", "tkinter", "turtledemo", "lib2to3"}
    | {"ensurepip", "pydoc_data"}
)
_UNUSED_FOLDERS = frozenset({"__pycache__", "tests", "include"})
_UNUSED_SUFFIXES = frozenset({".pyc", ".pyi", ".pxd", ".pyx", ".h", ".hpp", ".c", ".cpp", ".a"})
_OF_THE_INSTALLER = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})
_OF_A_WHOLE_SPARK = frozenset({"jars", "bin", "sbin", "examples", "data", "licenses", "python"})
_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")

# The interpreter may need a library from another place on its own machine.
_LAUNCHER = """\
#!/bin/sh
case "$0" in */*) here="${0%/*}" ;; *) here=. ;; esac
here="$(cd "$here/.." && pwd -P)" || exit 1
LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
PYTHONNOUSERSITE=1
export LD_LIBRARY_PATH PYTHONNOUSERSITE
"""
_SITE = """\
\"\"\"The packages of this archive are next to it, wherever the interpreter would look.\"\"\"

import site
import sys
from pathlib import Path

_PACKAGES = str(Path(__file__).parent / "site-packages")
if _PACKAGES not in sys.path:
    site.addsitedir(_PACKAGES)
"""

_Content = Path | bytes


@dataclass(frozen=True, slots=True)
class PackedEnvironment:
    """The archive and its contents.

    Attributes:
        path: Absolute path.
        sha256: SHA-256 of the archive.
        size_bytes: Size of the archive.
        packages: Name -> version of every package in it.
    """

    path: Path
    sha256: str
    size_bytes: int
    packages: Mapping[str, str]


def pack_environment(path: Path) -> PackedEnvironment:
    """Write the environment of this process as a `.tar.gz`. Takes about a minute.

    Args:
        path: Replaced in one step once the archive is whole.

    Raises:
        UnhealthyEnvironmentError: A package that is needed is not installed, or the archive
            cannot be written.
    """
    needed = _needed()
    content: dict[str, _Content] = {**_interpreter(), **_standard_library()}
    for found in needed.values():
        content.update(_package(found))
    target = path.absolute()
    part = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as output:
            _write(output, content)
        digest = hashlib.sha256()
        with part.open("rb") as made:
            for block in iter(lambda: made.read(1 << 20), b""):
                digest.update(block)
        size_bytes = part.stat().st_size
        part.replace(target)
    except OSError as error:
        raise UnhealthyEnvironmentError(
            f"the archive of the environment cannot be written: {error}",
            where=str(target),
            hint="free some space, or name another place with `--out`",
        ) from error
    finally:
        part.unlink(missing_ok=True)
    versions = {name: found.version for name, found in sorted(needed.items())}
    return PackedEnvironment(target, digest.hexdigest(), size_bytes, versions)


def environment_label() -> str:
    """Key of an archive of this environment, for a cache of archives.

    Editable packages count with their files' times, others with the installer's file list: a
    private build may keep its version.
    """
    digest = hashlib.sha256(sys.version.encode())
    for name, found in sorted(_needed().items()):
        digest.update(f"{name}=={found.version}\n".encode())
        digest.update((found.read_text("RECORD") or "").encode())
        for place, content in sorted(_edited(found).items()):
            if isinstance(content, Path):
                seen = content.stat()
                digest.update(f"{place} {seen.st_size} {seen.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _needed() -> dict[str, Distribution]:
    """This package, its plug-ins and what they require, by normal name."""
    roots = [_ROOT, *_plugin_packages()]
    try:
        distribution(_NATIVE)
    except PackageNotFoundError:
        # Optional: without it everything works, at a higher price.
        pass
    else:
        roots.append(_NATIVE)
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(_ROOT, _LOGINS, False), *((name, "", True) for name in roots)]
    while waiting:
        name, extra, required = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            each = distribution(name)
        except PackageNotFoundError as error:
            if not required:
                continue
            raise UnhealthyEnvironmentError(
                f"the package {name} is needed, and is not installed",
                hint="install sluiceway again, with its dependencies",
            ) from error
        found[_normal(name)] = each
        waiting += _requirements(each, extra)
    return found


def _plugin_packages() -> list[str]:
    groups = {group.value for group in PluginGroup}
    return sorted(
        {
            each.metadata["Name"]
            for each in distributions()
            if any(point.group in groups for point in each.entry_points)
        }
    )


def _requirements(each: Distribution, extra: str) -> Iterator[tuple[str, str, bool]]:
    """Name, extra, and whether it is required: with a marker it may be missing here."""
    for text in each.requires or ():
        requirement, _, marker = text.partition(";")
        matched, asked = _NAME.match(requirement), _EXTRA.search(marker)
        if matched is None or (asked[1] if asked else "") != extra:
            continue
        name, required = _normal(matched[1]), not marker.strip()
        yield name, "", required
        for option in (matched[2] or "").split(","):
            if option.strip():
                yield name, option.strip(), required


def _interpreter() -> dict[str, _Content]:
    executable = Path(sys.executable).resolve()
    start = f'exec "$here/bin/{_VERSION}"'
    found: dict[str, _Content] = {
        f"bin/{_VERSION}": executable,
        "bin/python": f'{_LAUNCHER}{start} "$@"\n'.encode(),
        "bin/python3": f'{_LAUNCHER}{start} "$@"\n'.encode(),
        "bin/sluiceway": f'{_LAUNCHER}{start} -m sluiceway "$@"\n'.encode(),
        f"lib/{_VERSION}/sitecustomize.py": _SITE.encode(),
    }
    library = Path(sysconfig.get_config_var("LIBDIR") or "") / str(
        sysconfig.get_config_var("INSTSONAME") or ""
    )
    if library.is_file() and sysconfig.get_config_var("Py_ENABLE_SHARED"):
        found[f"lib/{library.name}"] = library
    return found


def _standard_library() -> dict[str, _Content]:
    root = Path(sysconfig.get_path("stdlib"))
    found: dict[str, _Content] = {}
    for folder, folders, files in os.walk(root):
        inside = Path(folder) == root
        folders[:] = sorted(
            name
            for name in folders
            if name not in _UNUSED_FOLDERS
            and not (inside and (name in _UNUSED_STANDARD or name.startswith("config-")))
        )
        for name in files:
            path = Path(folder) / name
            # Only its own files: Debian has links to its settings there.
            if path.suffix in _UNUSED_SUFFIXES or name in {"sitecustomize.py"}:
                continue
            found[f"lib/{_VERSION}/{path.relative_to(root).as_posix()}"] = path
    return found


def _package(each: Distribution) -> dict[str, _Content]:
    found: dict[str, _Content] = {}
    of_spark = _normal(each.metadata["Name"]) == "pyspark"
    for file in each.files or ():
        place = PurePosixPath(file)
        unused = bool(_UNUSED_FOLDERS.intersection(place.parts)) or place.suffix in _UNUSED_SUFFIXES
        of_installer = place.name in _OF_THE_INSTALLER and place.parent.suffix == ".dist-info"
        if unused or of_installer or ".." in place.parts or place.is_absolute():
            continue
        if of_spark and len(place.parts) > 1 and place.parts[1] in _OF_A_WHOLE_SPARK:
            continue
        if place.suffix == ".pth" and _is_edited(each):
            continue
        path = Path(str(each.locate_file(file)))
        if path.is_file():
            found[f"lib/{_VERSION}/site-packages/{place}"] = path
    found |= _edited(each)
    if _is_edited(each) and not any(map(_is_code, found)):
        raise UnhealthyEnvironmentError(
            f"the package {each.metadata['Name']} is installed to be edited, and its code is not "
            "where its name or its entry points say",
            hint="install it as a wheel: `pip install` without `-e`",
        )
    return found


def _is_code(place: str) -> bool:
    inside = PurePosixPath(place).relative_to(f"lib/{_VERSION}/site-packages").parts
    return not (inside[0].endswith(".dist-info") or inside[0].startswith("__editable__"))


def _edited(each: Distribution) -> dict[str, _Content]:
    """The files of an editable package, from where they are."""
    found: dict[str, _Content] = {}
    if not _is_edited(each):
        return found
    names = {point.value.partition(":")[0].partition(".")[0] for point in each.entry_points}
    names |= {*(each.read_text("top_level.txt") or "").split()}
    names.add(_normal(each.metadata["Name"]).replace("-", "_"))
    for name in sorted(names):
        spec = find_spec(name)
        if spec is None:
            continue
        if spec.submodule_search_locations is None and spec.has_location and spec.origin:
            module = Path(spec.origin)
            found[f"lib/{_VERSION}/site-packages/{module.name}"] = module
        for place in spec.submodule_search_locations or ():
            folder = Path(place)
            for path in sorted(folder.rglob("*")):
                inside = path.relative_to(folder.parent)
                if path.is_file() and not _UNUSED_FOLDERS.intersection(inside.parts):
                    found[f"lib/{_VERSION}/site-packages/{inside.as_posix()}"] = path
    return found


def _is_edited(each: Distribution) -> bool:
    text = each.read_text("direct_url.json")
    return bool(text and json.loads(text).get("dir_info", {}).get("editable"))


def _write(output: BinaryIO, content: Mapping[str, _Content]) -> None:
    zipped = gzip.GzipFile("", "wb", _COMPRESS_LEVEL, output, mtime=0)
    with zipped, tarfile.open(fileobj=zipped, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for place in sorted(content):
            what = content[place]
            data = what if isinstance(what, bytes) else what.read_bytes()
            entry = tarfile.TarInfo(place)
            entry.size, entry.mtime = len(data), _MADE_AT_S
            entry.mode = 0o755 if _is_program(place, what) else 0o644
            archive.addfile(entry, BytesIO(data))


def _is_program(place: str, what: _Content) -> bool:
    if isinstance(what, bytes):
        return place.startswith("bin/")
    return place.startswith("bin/") or bool(what.stat().st_mode & stat.S_IXUSR)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
