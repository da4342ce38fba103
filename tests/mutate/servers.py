"""The two processes that a worker asks: one has collected the tests, one has the simulation."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from mutate.forks import Ran, Request
from mutate.rules import CONFORMANCE, ROOT, test_files

_TESTS = ROOT / "tests"
# What needs neither a server nor a JVM.
_CHEAP = (
    "tests/unit/",
    "tests/processes/",
    "tests/properties/",
    "tests/faults/test_holes.py",
    "tests/contract/test_storage_",
    "tests/contract/test_format_",
)
# They look at the tree of files, or run the whole of something.
_NOT_FOR_ALL = ("test_house.py", "test_proof_tables.py", "test_make_clean.py", "bench")


def is_cheap(path: Path) -> bool:
    """Whether a test file runs without servers."""
    return path.as_posix().startswith(_CHEAP)


def cheap_files(names: frozenset[str]) -> list[str]:
    """Test files without servers in which tests of these names run, as pytest takes them."""
    found = set()
    for path in (path for name in names for path in test_files().get(name, ())):
        if (ROOT / path).is_relative_to(CONFORMANCE):
            found.add(f"tests/contract/test_{path.stem}_conformance.py")
        elif is_cheap(path):
            found.add(path.as_posix())
    return sorted(found)


def all_cheap_files() -> list[str]:
    """All test files that run without servers."""
    found = []
    for path in sorted(_TESTS.rglob("test_*.py")):
        named = path.relative_to(ROOT)
        if is_cheap(named) and not any(part in _NOT_FOR_ALL for part in named.parts):
            found.append(named.as_posix())
    return found


def named_with_servers(names: frozenset[str]) -> list[str]:
    """`file::test` of tests that need servers; the model's are no tests of the product."""
    return sorted(
        f"{path.as_posix()}::{name}"
        for name in names
        for path in test_files().get(name, ())
        if not is_cheap(path) and not (ROOT / path).is_relative_to(CONFORMANCE)
    )


class Server:
    """A process that runs items in forks of its own; see `mutate.forks`."""

    def __init__(self, module: str, arguments: Sequence[str] = (), given: str = "") -> None:
        requests, self_writes = os.pipe()
        self_reads, answers = os.pipe()
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, str(requests), str(answers), *arguments],
            cwd=_TESTS,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(requests, answers),
        )
        os.close(requests)
        os.close(answers)
        self._asked: TextIO = os.fdopen(self_writes, "w", buffering=1)
        self._told: TextIO = os.fdopen(self_reads)
        assert self._process.stdin is not None
        self._process.stdin.write(given.encode())
        self._process.stdin.close()
        line = self._told.readline()
        if not line:
            raise RuntimeError(f"{module} has not started")
        self.items: list[str] = json.loads(line)

    def run(self, request: Request) -> Iterator[Ran]:
        """What each item of a request came to, as they end. To be read to its end."""
        print(json.dumps(asdict(request)), file=self._asked)
        for line in self._told:
            told = json.loads(line)
            if told is None:
                return
            yield Ran(**told)
        raise RuntimeError("a server has died")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._asked.close()
        self._told.close()
        self._process.wait()


def proof_server(scratch: Path, names: frozenset[str] | None) -> Server:
    """With the tests of these names collected; None: with all that need no servers."""
    files = all_cheap_files() if names is None else cheap_files(names)
    scratch.mkdir(parents=True)
    return Server("mutate.proof_server", [str(scratch), *files], json.dumps(sorted(names or ())))


def seed_server() -> Server:
    """With the simulation."""
    return Server("mutate.seed_server")
