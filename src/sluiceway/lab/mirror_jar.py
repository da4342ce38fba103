"""The transform for MirrorMaker 2 that adds origin headers, built from its source as a jar."""

import subprocess
import tempfile
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Final

from sluiceway.errors import UnhealthyEnvironmentError, WrongUsageError
from sluiceway.host.java import JavaHome
from sluiceway.lab.jars import ensure_jars, jars_folder, pinned_jars
from sluiceway.lab.support import OnProgress

TRANSFORM: Final = "sluiceway.mirror.OriginHeader"
"""The class that a mirror's configuration names."""

_SOURCE = "OriginHeader.java"
_SERVICE = "META-INF/services/org.apache.kafka.connect.transforms.Transformation"
# The oldest Java that Connect of a supported Kafka runs on.
_RELEASE = "11"
_SECONDS = 120
_BEGIN = (1980, 1, 1, 0, 0, 0)


def build_mirror_jar(path: Path, cache: Path, java: JavaHome, on_progress: OnProgress) -> None:
    """Compile the transform and write its jar; one of the same name is replaced.

    Args:
        path: Where to; its folder exists.
        cache: Folder of downloads, for Kafka's interfaces.
        java: A JDK.
        on_progress: Called with the progress of the download.

    Raises:
        UnhealthyEnvironmentError: There is no compiler, or the interfaces cannot be downloaded.
        WrongUsageError: The jar cannot be written.
    """
    compiler = java.path / "bin" / "javac"
    if not compiler.is_file():
        raise UnhealthyEnvironmentError(
            "the transform is compiled with javac, and this Java has none",
            where=str(java.path),
            hint="install a JDK (Debian/Ubuntu: openjdk-17-jdk-headless), or set JAVA_HOME to one",
        )
    pins = pinned_jars("connect_jars.json")
    jars = jars_folder(cache, "connect-4.1.1", pins)
    ensure_jars(jars, pins, java=java, on_progress=on_progress)
    with tempfile.TemporaryDirectory() as folder:
        _compile(compiler, jars, Path(folder))
        try:
            _write_jar(path, Path(folder) / "classes")
        except OSError as error:
            raise WrongUsageError(
                f"the jar cannot be written: {error.strerror}",
                where=str(path),
                hint="name another file with --to",
            ) from error


def _compile(compiler: Path, jars: Path, folder: Path) -> None:
    source = folder / _SOURCE
    source.write_text(files("sluiceway.lab").joinpath(_SOURCE).read_text())
    arguments = ("--release", _RELEASE, "-cp", f"{jars}/*", "-d", str(folder / "classes"))
    done = subprocess.run(  # noqa: S603
        [str(compiler), *arguments, str(source)],
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    if done.returncode != 0:
        raise UnhealthyEnvironmentError(
            f"javac refuses the transform:\n{done.stderr[-2000:]}",
            where=str(compiler),
            hint="set JAVA_HOME to a JDK 17 or 21",
        )


def _write_jar(path: Path, classes: Path) -> None:
    """The same bytes for the same classes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as jar:
        for found in sorted(classes.rglob("*.class")):
            info = zipfile.ZipInfo(str(found.relative_to(classes)), _BEGIN)
            jar.writestr(info, found.read_bytes())
        jar.writestr(zipfile.ZipInfo(_SERVICE, _BEGIN), f"{TRANSFORM}\n")
