"""Which lines a test or seed comes to, remembered for as long as the code is the same."""

import hashlib
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from mutate.forks import Ran
from mutate.rules import ROOT

REMEMBERED = ROOT / ".sluiceway/mutate-reach.json"


class Memory:
    """What runs on the right product have come to.

    Args:
        path: Where it is kept.
        watched: Names of the functions whose lines are watched.
    """

    def __init__(self, path: Path, watched: set[str]) -> None:
        self._path = path
        self._watched = watched
        self._source = source_hash()
        self._held: dict[str, tuple[str, Ran]] = {}
        held = json.loads(path.read_text("utf-8")) if path.exists() else {}
        if held.get("source") == self._source and watched <= set(held["watched"]):
            self._watched = set(held["watched"])
            self._held = {
                item: (content, Ran(item, "", seconds, [(name, line) for name, line in reached]))
                for item, (content, seconds, reached) in held["items"].items()
            }

    def recall(self, item: str) -> Ran | None:
        """What it came to when its file was as it is; None when that is not known."""
        content, ran = self._held.get(item, ("", None))
        return ran if content == _content(item) else None

    def keep(self, ran: Ran) -> None:
        """Remember a run."""
        self._held[ran.item] = (_content(ran.item), ran)

    def save(self) -> None:
        """Write down what is remembered."""
        items = {
            item: (content, ran.seconds, ran.reached) for item, (content, ran) in self._held.items()
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        held = {"source": self._source, "watched": sorted(self._watched), "items": items}
        self._path.write_text(json.dumps(held), "utf-8")


@cache
def source_hash() -> str:
    """Of the product, the simulation and what tests share."""
    return _hash_of(
        file
        for folder in ("src", "tests/tools", "tests/sim")
        for file in sorted((ROOT / folder).rglob("*.py"))
    )


def _content(item: str) -> str:
    """Of a test, the hash of its file; a seed is all in the source."""
    return _hash_of_file(ROOT / item.partition("::")[0]) if "::" in item else "seed"


@cache
def _hash_of_file(path: Path) -> str:
    return _hash_of([path])


def _hash_of(paths: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest()[:16]
