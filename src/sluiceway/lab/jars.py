"""Gets jars once, exactly as pinned, into a cache that all labs share."""

import fcntl
import hashlib
import importlib.util
import json
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from xml.sax.saxutils import quoteattr

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.host.java import JavaHome
from sluiceway.lab.daemon import log_tail
from sluiceway.lab.state import make_private_folder
from sluiceway.lab.support import LabProgress, OnProgress

_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class PinnedJar:
    """A jar of Maven Central: its coordinates, size and hash.

    Attributes:
        organisation: Maven's group id.
        name: Maven's artifact id.
        revision: Maven's version.
        size_bytes: Size of the whole file.
        sha256: SHA-256 of the whole file, hexadecimal.
        classifier: Maven's classifier of one of several jars of an artifact; empty for the main
            one.
        packaging: End of the file's name; a server may come as an archive.
    """

    organisation: str
    name: str
    revision: str
    size_bytes: int
    sha256: str
    classifier: str = ""
    packaging: str = "jar"

    @property
    def file_name(self) -> str:
        """Name in the cache."""
        suffix = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.revision}{suffix}.{self.packaging}"


def pinned_jars(name: str) -> tuple[PinnedJar, ...]:
    """Jars with the pins of this version of the package.

    Args:
        name: Name of the file with the pins.
    """
    pins = json.loads(files("sluiceway.lab").joinpath(name).read_text())
    return tuple(PinnedJar(**pin) for pin in pins["jars"])


def default_cache_folder(environment: Mapping[str, str]) -> Path:
    """Folder of downloads: SLUICEWAY_CACHE, else `~/.cache/sluiceway`."""
    configured = environment.get("SLUICEWAY_CACHE", "")
    return Path(configured or "~/.cache/sluiceway").expanduser().absolute()


def spark_jars_folder() -> Path:
    """The folder of pyspark's jars; pyspark itself is not imported.

    Raises:
        UnhealthyEnvironmentError: pyspark is not installed, or lacks its jars.
    """
    spec = importlib.util.find_spec("pyspark")
    for location in (spec and spec.submodule_search_locations) or ():
        folder = Path(location) / "jars"
        if folder.is_dir():
            return folder
    raise UnhealthyEnvironmentError(
        "pyspark with its jars is needed, and is not installed",
        hint="install this package again, with its dependencies",
    )


def jars_folder(cache: Path, label: str, pins: Sequence[PinnedJar]) -> Path:
    """The cache's folder for exactly these jars; another set of pins has another folder."""
    digest = hashlib.sha256("".join(sorted(pin.sha256 for pin in pins)).encode())
    return cache / f"{label}-{digest.hexdigest()[:12]}"


def ensure_jars(
    folder: Path, pins: Sequence[PinnedJar], *, java: JavaHome, on_progress: OnProgress
) -> None:
    """Make sure that `folder` has all jars, each with its pinned hash.

    Safe to call from several processes at once: one downloads, the others wait, and the folder
    appears complete or not at all.

    Args:
        folder: A folder from `jars_folder`.
        pins: The jars that it must hold.
        java: Java that runs the download.
        on_progress: Called with the progress of the download.

    Raises:
        UnhealthyEnvironmentError: The download failed, or a jar is not what was pinned.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _lock(folder.with_name(f"{folder.name}.lock"), on_progress):
        if not folder.exists():
            _download(folder, pins, java=java, on_progress=on_progress)
        check_jars(folder, pins)


def check_jars(folder: Path, pins: Sequence[PinnedJar]) -> None:
    """Compare every jar in `folder` with its pinned hash.

    Raises:
        UnhealthyEnvironmentError: One is missing or differs; names it.
    """
    for pin in pins:
        path = folder / pin.file_name
        if not path.is_file():
            raise UnhealthyEnvironmentError(
                "the jar is missing", where=str(path), hint=_fresh_start_hint(folder)
            )
        with path.open("rb") as jar:
            found = hashlib.file_digest(jar, "sha256").hexdigest()
        if found != pin.sha256:
            raise UnhealthyEnvironmentError(
                f"the jar is not the pinned one: sha256 {pin.sha256} expected, {found} found",
                where=str(path),
                hint=_fresh_start_hint(folder),
            )


def _fresh_start_hint(folder: Path) -> str:
    return (
        f"remove {folder} and try again; if it comes back, what serves the jars (a proxy or a "
        "mirror) alters them"
    )


@contextmanager
def _lock(path: Path, on_progress: OnProgress) -> Iterator[None]:
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_progress(LabProgress("waiting for another process that downloads the same jars"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _download(
    folder: Path, pins: Sequence[PinnedJar], *, java: JavaHome, on_progress: OnProgress
) -> None:
    # Under the lock: a leftover of this name is from a process that was killed.
    scratch = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(scratch, ignore_errors=True)
    make_private_folder(scratch)
    try:
        _run_ivy(scratch, pins, java=java, on_progress=on_progress)
        check_jars(scratch / "jars", pins)
        (scratch / "jars").rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _run_ivy(
    scratch: Path, pins: Sequence[PinnedJar], *, java: JavaHome, on_progress: OnProgress
) -> None:
    (scratch / "ivysettings.xml").write_text(_ivy_settings(scratch / "ivy"))
    (scratch / "ivy.xml").write_text(_ivy_module(pins))
    command = [
        *(str(java.executable), "-cp", f"{spark_jars_folder()}/*", "org.apache.ivy.Main"),
        *("-settings", str(scratch / "ivysettings.xml"), "-ivy", str(scratch / "ivy.xml")),
        *("-retrieve", str(scratch / "jars" / "[artifact]-[revision](-[classifier]).[ext]")),
    ]
    log_file = scratch / "ivy.log"
    total_bytes = sum(pin.size_bytes for pin in pins)
    with (
        log_file.open("wb") as log,
        subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        ) as ivy,
    ):
        try:
            while ivy.poll() is None:
                done_bytes = min(_downloaded_bytes(scratch / "ivy"), total_bytes)
                on_progress(LabProgress(f"downloading {scratch.stem}", done_bytes, total_bytes))
                time.sleep(_POLL_S)
        finally:
            ivy.kill()
    if ivy.returncode != 0:
        raise UnhealthyEnvironmentError(
            f"the jars could not be downloaded; the end of what Ivy said:\n{log_tail(log_file)}",
            hint="it needs Maven Central; behind a proxy, set JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=",
        )
    on_progress(LabProgress(f"downloading {scratch.stem}", total_bytes, total_bytes))


def _downloaded_bytes(ivy_cache: Path) -> int:
    total = 0
    for path in ivy_cache.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            # Ivy has just renamed it; the next look counts it.
            continue
    return total


def _ivy_settings(ivy_cache: Path) -> str:
    return (
        '<ivysettings><settings defaultResolver="central"/>'
        f"<caches defaultCacheDir={quoteattr(str(ivy_cache))}/><resolvers>"
        # The pins are the whole closure: descriptions of modules are not needed.
        '<ibiblio name="central" m2compatible="true" usepoms="false"/>'
        "</resolvers></ivysettings>\n"
    )


def _artifact(pin: PinnedJar) -> str:
    named = f" m:classifier={quoteattr(pin.classifier)}" if pin.classifier else ""
    kind = quoteattr(pin.packaging)
    return f"<artifact name={quoteattr(pin.name)} type={kind} ext={kind}{named}/>"


def _ivy_module(pins: Sequence[PinnedJar]) -> str:
    modules: dict[tuple[str, str, str], list[PinnedJar]] = {}
    for pin in pins:
        modules.setdefault((pin.organisation, pin.name, pin.revision), []).append(pin)
    dependencies = "\n".join(
        f"<dependency org={quoteattr(org)} name={quoteattr(name)} "
        f'rev={quoteattr(revision)} conf="default->default" transitive="false">'
        f"{''.join(map(_artifact, jars))}</dependency>"
        for (org, name, revision), jars in modules.items()
    )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="sluiceway" module="lab"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>\n{dependencies}\n'
        "</dependencies></ivy-module>\n"
    )
