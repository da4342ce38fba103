"""Finds a Java that Spark can use."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sluiceway.errors import UnhealthyEnvironmentError

ACCEPTED_MAJORS = (17, 21)
JAVA_HOME = "JAVA_HOME"
USUAL_FOLDERS = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*",
    "/usr/local/opt/openjdk*",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)
_INSTALL_HINT = (
    "install Java 17 and try again. Debian/Ubuntu: sudo apt-get install openjdk-17-jre-headless; "
    "Fedora: sudo dnf install java-21-openjdk-headless; "
    "macOS: brew install openjdk@17. If it is in an unusual place, set JAVA_HOME to its folder"
)
_ASK_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A Java installation.

    Attributes:
        path: Its home folder: the one that holds `bin/java`.
        major: Feature release, such as 17.
        vendor: Who built it, in its own words.
        passed_over: What JAVA_HOME names, and why it is not used; empty when there is nothing to
            say.
    """

    path: Path
    major: int
    vendor: str
    passed_over: str = ""

    def __str__(self) -> str:
        return f"{self.major} ({self.vendor}) in {self.path}"

    @property
    def executable(self) -> Path:
        """The `java` command."""
        return self.path / "bin" / "java"


def find_java(
    environment: Mapping[str, str] | None = None, *, folders: Sequence[str] = USUAL_FOLDERS
) -> JavaHome:
    """Find the Java to run Spark and the lab with: JAVA_HOME, then PATH, then `folders`.

    Called on the driver before Spark starts and by the lab; starts each candidate once to ask
    it (about 0.1 s). Spark itself reads JAVA_HOME: set it to `path` for its process.

    Args:
        environment: Variables JAVA_HOME and PATH; None takes this process's.
        folders: Glob patterns of Java homes; `~` is the user's home.

    Returns:
        The first one of an accepted release; its `passed_over` explains why JAVA_HOME is not used.

    Raises:
        UnhealthyEnvironmentError: There is none; the message names what was found and the fix.
    """
    rejected, wrong_home = [], list[str]()
    for origin, executable in _candidates(environment or os.environ, folders):
        found = _ask(executable)
        if isinstance(found, JavaHome) and found.major in ACCEPTED_MAJORS:
            return replace(found, passed_over=next(iter(wrong_home), ""))
        what = f"Java {found.major}" if isinstance(found, JavaHome) else found
        rejected.append(f"{origin}: {executable} is {what}")
        if origin == JAVA_HOME:
            wrong_home.append(f"JAVA_HOME is not used: {executable} is {what}")
    needed = " or ".join(str(major) for major in ACCEPTED_MAJORS)
    found_text = "; ".join(rejected) or "no Java in JAVA_HOME, on the PATH or in the usual folders"
    raise UnhealthyEnvironmentError(
        f"Java {needed} is needed; found {found_text}", hint=_INSTALL_HINT
    )


def _candidates(
    environment: Mapping[str, str], folders: Sequence[str]
) -> Iterator[tuple[str, Path]]:
    seen: set[Path] = set()
    for origin, executable in _places(environment, folders):
        resolved = executable.resolve()
        if resolved not in seen:
            seen.add(resolved)
            yield origin, executable


def _places(environment: Mapping[str, str], folders: Sequence[str]) -> Iterator[tuple[str, Path]]:
    java_home = environment.get(JAVA_HOME, "")
    if java_home:
        yield JAVA_HOME, Path(java_home) / "bin" / "java"
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        yield "PATH", Path(on_path)
    for pattern in folders:
        home = Path(pattern).expanduser()
        below_root = str(home.relative_to(home.anchor) / "bin" / "java")
        for executable in sorted(Path(home.anchor).glob(below_root)):
            yield "usual folders", executable


def _ask(executable: Path) -> JavaHome | str:
    """The command's own data, or why it is not a usable Java."""
    command = [str(executable), "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(  # noqa: S603
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_ASK_TIMEOUT_S,
        )
    except FileNotFoundError:
        return "not there"
    except subprocess.TimeoutExpired:
        return f"not usable: it says nothing within {_ASK_TIMEOUT_S:g} s"
    except OSError as error:
        return f"not usable: {error.strerror}"
    said = done.stderr + done.stdout
    settings = dict(re.findall(r"^\s*(java\.[a-z.]+) = (.*)$", said, re.MULTILINE))
    version = settings.get("java.specification.version", "")
    if done.returncode != 0 or not version or "java.home" not in settings:
        first_line = next(iter(said.strip().splitlines()), "it said nothing")
        return f"not a working Java: {first_line.strip()}"
    # Java 8 calls itself 1.8.
    major = int(version.removeprefix("1.").split(".")[0])
    return JavaHome(Path(settings["java.home"]), major, settings.get("java.vendor", "unknown"))
