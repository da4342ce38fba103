"""Draws the latest figures of each workload as an SVG: CPU a record, and records a second.

`python -m bench.plot bench/results/compare.jsonl docs/contributors/benchmarks.svg`
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

WIDTH, LABEL, BAR, GAP, PANEL = 860, 120, 13, 10, 44
COLOURS = {"ours": "#1f6f8b", "flink": "#d1873a", "spark": "#8a8f98", "floor": "#b9cbd3"}
NAMES = {"ours": "Sluiceway", "flink": "Flink SQL", "spark": "Spark SQL, files", "floor": "floor"}
PANELS = (
    (
        "CPU, microseconds a record (less is better)",
        {
            "ours": "ours_cpu_us",
            "flink": "flink_cpu_us",
            "spark": "spark_files_cpu_us",
            "floor": "floor_cpu_us",
        },
    ),
    (
        "thousand records a second, whole machine (more is better)",
        {"ours": "ours_krps", "flink": "flink_krps", "spark": "spark_files_krps"},
    ),
)


def latest(lines: Iterable[str]) -> list[dict[str, Any]]:
    """The last line of each workload, with and without the native module, in their first order."""
    found: dict[tuple[str, bool], dict[str, Any]] = {}
    for line in lines:
        result = json.loads(line)
        found[result["shape"], result["native"]] = result
    return list(found.values())


def draw(results: Sequence[dict[str, Any]]) -> str:
    """The picture.

    Args:
        results: As `latest` gives them, at least one.
    """
    body: list[str] = []
    height = 0
    for title, fields in PANELS:
        height = _panel(body, results, title, fields, height)
    height += 10
    place = LABEL
    for engine, colour in COLOURS.items():
        body.append(f'<rect x="{place}" y="{height}" width="12" height="12" fill="{colour}"/>')
        body.append(f'<text x="{place + 18}" y="{height + 11}">{NAMES[engine]}</text>')
        place += 150
    height += 30
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _panel(
    body: list[str],
    results: Sequence[dict[str, Any]],
    title: str,
    fields: dict[str, str],
    top: int,
) -> int:
    values = [float(one[name]) for one in results for name in fields.values() if one.get(name)]
    scale = (WIDTH - LABEL - 80) / max(values, default=1.0)
    body.append(f'<text x="{LABEL}" y="{top + 26}" font-weight="bold">{escape(title)}</text>')
    at = top + PANEL
    for one in results:
        label = one["shape"] + (" (native)" if one["native"] else "")
        body.append(f'<text x="4" y="{at + BAR - 2}">{escape(label)}</text>')
        for engine, name in fields.items():
            value = one.get(name)
            if not value:
                continue
            width = float(value) * scale
            body.append(
                f'<rect x="{LABEL}" y="{at}" width="{width:.1f}" height="{BAR - 2}" '
                f'fill="{COLOURS[engine]}"/>'
            )
            body.append(f'<text x="{LABEL + width + 5:.1f}" y="{at + BAR - 3}">{value:g}</text>')
            at += BAR
        at += GAP
    return at


def main() -> int:
    """Read the results, write the picture."""
    parser = argparse.ArgumentParser(prog="python -m bench.plot")
    parser.add_argument("results", type=Path)
    parser.add_argument("picture", type=Path)
    given = parser.parse_args()
    given.picture.write_text(draw(latest(given.results.read_text().splitlines())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
