"""What is known of each mutant, a line each, so that a run goes on where the last one stopped."""

import json
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path

from mutate.rules import ROOT

KEPT = ROOT / "bench/results/mutants.jsonl"
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
# Each of them once lived through all unit tests and 300 to 1,500 seeds.
ONCE_SURVIVED = [
    "fold.Fold.check: record.term == self.term not asked in: "
    "record.term == self.term and self.fence is not None",
    "writer.LedgerWriter._follows: record_hash(before) != record.prev -> False",
    "writer.LedgerWriter._put_until_known: not self._follows(record) -> False",
    "moved_partitions.MovedPartitions.due: not is_shown -> False",
    "route_readiness.RouteReadiness.mark: "
    "max(view.read_at_us, before.read_at_us or 0) -> view.read_at_us",
    "committer.EpochCommitter.commit_epoch: "
    "check_staged_files(owned.storage, owned.layout, results) removed",
    "route_planner.RoutePlanner.check_again: self._second_look.update(fold, view.bounds) removed",
]


@dataclass(frozen=True, slots=True)
class Kept:
    """The last result of a mutant.

    Attributes:
        mutant: The function, and what is changed in it.
        code: Hash of the function as it was.
        proof: Hash of the tests that its rules named.
        by: The test or the seed that killed it; empty when it survived.
        seeds: How many had been tried when it survived.
        servers: Whether it survived the tests on servers too.
        unnamed: A test that kills it and that no rule names, when it was looked for.
        seconds: Of the processor, in tests and seeds.
        times: How often it has been judged as the function is.
    """

    mutant: str
    code: str
    proof: str
    by: str = ""
    seeds: int = 0
    servers: bool = False
    unnamed: str = ""
    seconds: float = 0.0
    times: int = 0


def read_kept(path: Path | None) -> dict[str, Kept]:
    """By the mutant's name; the last line of a name counts."""
    if path is None or not path.exists():
        return {}
    kept = [Kept(**json.loads(line)) for line in path.read_text("utf-8").splitlines() if line]
    return {each.mutant: each for each in kept}


def keep(path: Path, kept: Kept) -> None:
    """Add a result."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as stream:
        stream.write(_line(kept))


def tidy(path: Path) -> None:
    """One line a mutant, in order."""
    _write(path, read_kept(path))


def drop(path: Path, made: set[str]) -> list[str]:
    """Forget results of mutants that are no more; their names.

    Args:
        path: The kept results.
        made: Names of all mutants of the source as it is.
    """
    kept = read_kept(path)
    _write(path, {name: each for name, each in kept.items() if name in made})
    return sorted(kept.keys() - made)


def _write(path: Path, kept: dict[str, Kept]) -> None:
    if kept or path.exists():
        path.write_text("".join(_line(kept[name]) for name in sorted(kept)), "utf-8")


def _line(kept: Kept) -> str:
    held = {key: value for key, value in asdict(kept).items() if value not in ("", 0, False)}
    return json.dumps(held, ensure_ascii=False) + "\n"


def read_equivalent(path: Path = EQUIVALENT) -> dict[str, str]:
    """Mutant -> why it cannot be distinguished from the product."""
    entries = tomllib.loads(path.read_text("utf-8")).get("mutant", [])
    return {str(entry["name"]): str(entry["why"]) for entry in entries}
