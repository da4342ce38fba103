"""Kept results of large cases, so that a run goes on where the last one stopped."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from model.cases import Case, source_digest
from model.checker import Verdict

KEPT = Path(__file__).parents[2] / "bench" / "results" / "model.jsonl"


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the file.

    Attributes:
        source: Digest of the model that was run.
        verdict: `holds`, `violated` or `incomplete`.
    """

    case: str
    bounds: dict[str, object]
    source: str
    states: int
    steps: int
    depth: int
    live: bool
    seconds: float
    verdict: str


def result_of(case: Case, verdict: Verdict) -> Result:
    """What is kept of a run."""
    outcome = "violated" if verdict.violation else "holds" if verdict.complete else "incomplete"
    return Result(
        case=case.name,
        bounds=plain_bounds(case),
        source=source_digest(case.bounds),
        states=verdict.states,
        steps=verdict.steps,
        depth=verdict.depth,
        live=verdict.live,
        seconds=verdict.seconds,
        verdict=outcome,
    )


def plain_bounds(case: Case) -> dict[str, object]:
    """Bounds as JSON reads them back."""
    plain: dict[str, object] = json.loads(json.dumps(asdict(case.bounds)))
    return plain


def read_results(path: Path) -> list[Result]:
    """All lines of the file; none when it is not there."""
    if not path.exists():
        return []
    return [Result(**json.loads(line)) for line in path.read_text().splitlines() if line]


def kept_result(case: Case, results: list[Result]) -> Result | None:
    """The result of this case and this version of its model, unless it was cut short."""
    wanted = (case.name, plain_bounds(case), source_digest(case.bounds))
    return next(
        (
            result
            for result in results
            if (result.case, result.bounds, result.source) == wanted
            and result.verdict != "incomplete"
        ),
        None,
    )


def keep_result(path: Path, new: Result) -> None:
    """Put a result into the file, in place of an older one of the same case."""
    others = [
        result
        for result in read_results(path)
        if (result.case, result.bounds) != (new.case, new.bounds)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(asdict(result)) for result in (*others, new)]
    path.write_text("\n".join(lines) + "\n")
