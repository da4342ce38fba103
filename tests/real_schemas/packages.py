"""Schemas that packages of the Python registry ship; no text of theirs is in the project."""

import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from importlib.metadata import files
from pathlib import Path

LOCK = Path(__file__).parents[1] / "real-schemas-requirements.lock"
INSTALLED = ("googleapis-common-protos", "grpcio-tools")
"""What the product needs itself."""
SUFFIXES = (".proto", ".avsc")

Texts = Mapping[str, str]


def installed_packages() -> Iterator[tuple[str, Texts]]:
    """Names of packages that are there, and their schemas by path."""
    for name in INSTALLED:
        found = [each for each in files(name) or () if each.suffix in SUFFIXES]
        yield name, {str(each): each.read_text("utf-8") for each in found}


def fetched_packages(folder: Path) -> Iterator[tuple[str, Texts]]:
    """Those of the lock, which are fetched by version and hash into a folder, once.

    Raises:
        CalledProcessError: The registry does not have them.
    """
    asked = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    asked += ["--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", str(LOCK)]
    pinned = LOCK.read_text().count("==")
    if len(list(folder.glob("*.whl"))) != pinned:
        print(f"fetching {pinned} packages of {LOCK.name}", file=sys.stderr, flush=True)
        subprocess.run([*asked, "--dest", str(folder)], check=True, timeout=600)
    for wheel in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(wheel) as opened:
            names = [name for name in opened.namelist() if name.endswith(SUFFIXES)]
            texts = {name: opened.read(name).decode("utf-8", "replace") for name in names}
        yield wheel.name.partition("-")[0], texts
