"""Installed packages with entry points, as small as they can be, and the example's own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "plugin-delimited"
SOURCE_EXAMPLE = ROOT / "examples" / "plugin-sqlite-log"


def write_package(folder: Path, name: str, group: str, entries: dict[str, str], code: str) -> None:
    """Put a package on a path as an installer would: a module and its metadata.

    Args:
        folder: On the path of whoever shall find it.
        name: Of the package and of its one module.
        group: Entry point group.
        entries: Name -> attribute of the module.
        code: Of the module.
    """
    (folder / f"{name}.py").write_text(code)
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{key} = {name}:{attribute}" for key, attribute in entries.items()]
    (metadata / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))


def install_example(target: Path, example: Path = EXAMPLE) -> None:
    """Install an example plug-in with pip, without any network."""
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--no-cache-dir"]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *options]
    subprocess.run([*command, "--target", str(target), str(example)], check=True)


def environment_with(target: Path) -> dict[str, str]:
    """Our environment, in which packages of `target` are installed in addition."""
    paths = [str(ROOT / "src"), str(target), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
