"""Words that texts do not use, and where documents have them: `python -m tools.plain_words`."""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BANNED = {
    "told": r"\btold\b",
    "tells": r"\btells\b",
    "anew": r"\banew\b",
    "nobody": r"\bnobody\b",
    "behind, for after": r"\bbehind (?:it|them|this|that|these|those|each|every|one|ours|its|"
    r"the (?:record|row|slot|file|schema|commit))\b|\b(?:came|comes|lands) behind\b",
    "beside": r"\bbeside\b",
    "as of": r"\bas of\b",
    "one that": r"(?<!the )\bone that\b",
    "those that": r"\bthose that\b",
    "what is there": r"\bwhat is there\b",
}
"""What to call it -> pattern."""
LONGEST_CELL = 300
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")


def documents() -> list[Path]:
    """Every page that a reader meets."""
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def found_in(text: str) -> Iterator[tuple[str, int]]:
    """Banned words and long cells outside of code: what it is called, and its line."""
    text = _FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)
    for number, line in enumerate(text.splitlines(), 1):
        prose = _CODE.sub("`x`", line)
        for name, pattern in BANNED.items():
            yield from ((name, number) for _ in re.finditer(pattern, prose, re.IGNORECASE))
        if line.startswith("|") and any(len(cell) > LONGEST_CELL for cell in prose.split(" | ")):
            yield "cell too long", number


def banned_words() -> int:
    """How many there are in all documents."""
    return sum(1 for path in documents() for _ in found_in(path.read_text("utf-8")))


def main() -> int:
    """Print each with its place, then how many of each."""
    counts: Counter[str] = Counter()
    for path in documents():
        for name, line in found_in(path.read_text("utf-8")):
            print(f"{path.relative_to(ROOT)}:{line}: {name}")
            counts[name] += 1
    print(dict(counts), sum(counts.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
