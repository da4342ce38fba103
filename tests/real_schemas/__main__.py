"""Schemas that packages ship, each as a registry would hand it out; the last line is JSON.

python -m real_schemas
python -m real_schemas --folder /tmp/wheels     where the packages are kept
"""

import argparse
import json
import sys
import traceback
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from real_schemas.packages import Texts, fetched_packages, installed_packages
from real_schemas.trial import registered, tried

FEWEST = 300


def main() -> int:
    """Try all of them; 0 when there are enough, none crashes and nine of ten link."""
    parser = argparse.ArgumentParser(
        prog="python -m real_schemas",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    folder = Path(sys.prefix) / "real-schemas"
    parser.add_argument("--folder", type=Path, default=folder, help="keeps the packages")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    found = _all(chain(installed_packages(), fetched_packages(options.folder)))
    print(json.dumps(found))
    enough = found["files"] >= FEWEST and found["linked"] >= found["files"] * 9 // 10
    return int(bool(found["crashed"]) or not enough)


def _all(packages: Iterable[tuple[str, Texts]]) -> dict[str, int]:
    found = {"files": 0, "linked": 0, "refused_with_reason": 0, "crashed": 0}
    for package, texts in packages:
        print(f"{package}: {len(texts)} schemas", file=sys.stderr, flush=True)
        for path in sorted(texts):
            found["files"] += 1
            try:
                reason = tried(registered(path, texts))
            except Exception:  # noqa: BLE001 - a crash is what is looked for
                print(f"{path}:\n{traceback.format_exc()}", file=sys.stderr)
                found["crashed"] += 1
                continue
            found["refused_with_reason" if reason else "linked"] += 1
            if reason:
                print(f"{path}: {reason}", file=sys.stderr)
    return found


if __name__ == "__main__":
    sys.exit(main())
