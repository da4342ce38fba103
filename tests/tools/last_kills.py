"""Which seed caught which mutant last: it mostly does so again, so it is tried first.

One file is part of the project, written by runs whose results are kept. Another, in `build`, is of
this checkout: each change of the product moves the dice, and a run of its own knows best.
"""

import json
from dataclasses import dataclass
from pathlib import Path

_BUILD = Path(__file__).resolve().parents[2] / "build"


@dataclass(frozen=True, slots=True)
class LastKills:
    """Of one simulation.

    Attributes:
        kept: Part of the project.
        name: Of the simulation; names the file in `build`.
        build: That folder.
    """

    kept: Path
    name: str
    build: Path = _BUILD

    def seeds(self, mutant: str) -> list[int]:
        """Seeds to try first, the likeliest first; none when none is known."""
        found = (read_kills(path).get(mutant) for path in (self._here, self.kept))
        return list(dict.fromkeys(seed for seed in found if seed is not None))

    def note(self, caught: dict[str, int], *, keep: bool) -> None:
        """Remember which seeds have caught which mutants; `keep` has it in the project too."""
        self.build.mkdir(exist_ok=True)
        for path in (self._here, self.kept) if keep else (self._here,):
            all_of_them = sorted((read_kills(path) | caught).items())
            path.write_text(json.dumps(dict(all_of_them), indent=1) + "\n")

    @property
    def _here(self) -> Path:
        return self.build / f"{self.name}-last-kills.json"


def read_kills(path: Path) -> dict[str, int]:
    """Mutant -> seed; empty when there is no such file."""
    found: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
    return found
