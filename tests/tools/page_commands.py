"""Commands of a page of the documents, run by a shell as a reader would paste them."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class Step:
    """A command and what the page shows below it."""

    command: str
    shown: str


def steps_of(page: str) -> list[Step]:
    """The commands of all console blocks, in order."""
    found = []
    for language, block in _BLOCK.findall((DOCS / page).read_text("utf-8")):
        if language == "console":
            parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
            found += [Step(*part.split("\n", 1)) for part in parts]
    return found


def blocks_of(page: str, language: str) -> list[str]:
    """The page's blocks of a language, in order."""
    text = (DOCS / page).read_text("utf-8")
    return [block for kind, block in _BLOCK.findall(text) if kind == language]


class PageShell:
    """Runs commands in one folder; what it has exported stays.

    Args:
        folder: Where they run.
        environ: Added to the environment.
        changed: Makes of a command what a test runs instead; None leaves it out.
    """

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        changed: Callable[[str], str | None],
    ) -> None:
        self._folder = folder
        bin_folder = str(Path(sys.executable).parent)
        path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
        self._environ = {**os.environ, **environ, "PATH": path, "NO_COLOR": "1"}
        self._changed = changed

    def run(self, step: Step) -> str:
        """Run a step; its standard output. Fails when it does."""
        command = self._changed(step.command)
        if command is None:
            return ""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self._folder,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-4000:])
        return done.stdout
