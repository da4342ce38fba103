"""Decodes payloads of any schema by every path of their format, and compares every outcome.

`python -m tools.path_fuzz --format all --payloads 300000 --workers 2` in `tests/`

A path is the native module on payloads one by one, the module on payloads that it has fetched, the
library path, or the slow path alone, which decides. Each batch has a schema, columns and policies
of its own where the format has schemas. The last line of output is JSON; the exit code is 1 when
something differed.
"""

import argparse
import json
import random
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

from sluiceway.formats.contract import RowDecoder
from sluiceway.formats.framed_rows import MIN_ROWS
from sluiceway.host.native_module import native_module
from tools.fetched_payloads import joined, switched
from tools.format_fuzz import outcomes
from tools.fuzz_subjects import SUBJECTS
from tools.made_avro import MadeAvro, MadeAvroChanges
from tools.made_csv import MadeCsv
from tools.made_protobuf import MadeProtobuf
from tools.payload_damage import damaged

BATCH = 120
_DAMAGED = 0.2
_ODDNESS = (0.0, 0.05, 0.3, 1.0)
_HANG_S = 120.0
_SHOWN = 5

Paths = Mapping[str, Callable[[Sequence[bytes | None]], list[object]]]
Made = tuple[Callable[[], bytes], Paths]
"""A payload, and the ways to decode a batch; the first one decides."""


def _decoded(decoder: RowDecoder, payloads: Sequence[bytes | None]) -> list[object]:
    found = decoder.decode(payloads)
    found.rows.validate(full=True)
    came = outcomes(found, len(payloads))
    if found.kinds is not None:
        for row, kind in zip(found.indices.to_pylist(), found.kinds.to_pylist(), strict=True):
            came[row] = f"{came[row]} {kind}"
    return came


def _fetched(decoder: RowDecoder, payloads: Sequence[bytes | None]) -> list[object]:
    return _decoded(decoder, joined(payloads))


def _protobuf(pick: random.Random) -> Made:
    made = MadeProtobuf(pick)
    fast = made.decoder(1)
    return lambda: made.payload(pick.choice(_ODDNESS)), {
        "exact": partial(_decoded, made.decoder(None)),
        "native": partial(_decoded, fast),
        "fetched": partial(_fetched, fast),
    }


def _avro(pick: random.Random) -> Made:
    made = MadeAvro(pick)
    fast = made.decoder(1)
    return made.payload, {
        "exact": partial(_decoded, made.decoder(None)),
        "library": partial(_decoded, made.decoder(1, native=False)),
        "native": partial(_decoded, fast),
        "fetched": partial(_fetched, fast),
    }


def _avro_changes(pick: random.Random) -> Made:
    made = MadeAvroChanges(pick)
    fast, library = made.changes(1), made.changes(1)
    return made.payload, {
        "exact": partial(_decoded, made.changes(None)),
        "library": lambda given: switched(partial(_decoded, library, given), native=False),
        "native": partial(_decoded, fast),
        "fetched": partial(_fetched, fast),
    }


def _csv(pick: random.Random) -> Made:
    made = MadeCsv(pick)
    fast = made.decoder("native")
    return lambda: made.payload(pick.choice(_ODDNESS)), {
        "exact": partial(_decoded, made.decoder("exact")),
        "library": partial(_decoded, made.decoder("library")),
        "native": partial(_decoded, fast),
        "fetched": partial(_fetched, fast),
    }


def _subject(name: str, pick: random.Random) -> Made:
    """A format without schemas of its own: the decoders and payloads of the other fuzzer."""
    subject = SUBJECTS[name]
    make = pick.choice(subject.decoders)
    library, fast = switched(make, native=False), switched(make, native=True)
    paths = {"library": partial(_decoded, library), "native": partial(_decoded, fast)}
    if fast.takes_any_sequence:
        paths["fetched"] = partial(_fetched, fast)
    return lambda: subject.payload(pick), paths


FORMATS: Mapping[str, Callable[[random.Random], Made]] = {
    "protobuf": _protobuf,
    "avro": _avro,
    "debezium-avro": _avro_changes,
    "csv": _csv,
    **{
        name: partial(_subject, name)
        for name in ("json", "json-framed", "debezium", "maxwell", "canal", "raw")
    },
}


def run_batch(name: str, seed: int) -> dict[str, Any]:
    """Make and judge a batch; the same for the same seed."""
    pick = random.Random(seed)  # noqa: S311
    found: dict[str, Any] = dict.fromkeys(
        ("crashes", "hangs", "unaccounted", "differences", "rows", "dirty"), 0
    )
    examples: list[str] = []
    payload, paths = FORMATS[name](pick)
    payloads: list[bytes | None] = [
        damaged(lambda _: payload() or b"\0", pick) if pick.random() < _DAMAGED else payload()
        for _ in range(max(BATCH, MIN_ROWS))
    ]
    expected: list[object] | None = None
    for path, decode in paths.items():
        began = time.monotonic()
        try:
            came = decode(payloads)
        except Exception as error:  # noqa: BLE001 - any error is what is looked for
            found["crashes"] += 1
            examples.append(
                f"{name} {seed} {path}: {''.join(traceback.format_exception(error)[-2:])}"
            )
            continue
        found["hangs"] += time.monotonic() - began > _HANG_S
        found["unaccounted"] += came.count("lost")
        if expected is None:
            expected = came
            found["dirty"] += sum(isinstance(one, tuple) for one in came)
            found["rows"] += sum(isinstance(one, str) and one != "skipped" for one in came)
        for one, wanted, given in zip(came, expected, payloads, strict=True):
            if one != wanted:
                found["differences"] += 1
                examples.append(f"{name} {seed} {path}: {given!r:.300}: {one}, not {wanted}")
    return {**found, "payloads": len(payloads), "paths": len(paths), "examples": examples[:_SHOWN]}


def main() -> int:
    """Fuzz one format, or all of them; 1 when something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.path_fuzz", description=__doc__)
    parser.add_argument("--format", default="all", choices=["all", *FORMATS])
    parser.add_argument("--payloads", type=int, default=300_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if native_module() is None:
        print("error: the native module is not installed: make native", file=sys.stderr)
        return 1
    total: dict[str, int] = {}
    with ProcessPoolExecutor(options.workers) as pool:
        for name in FORMATS if options.format == "all" else [options.format]:
            batches = -(-options.payloads // BATCH)
            first = options.seed * 1_000_000_007
            report: dict[str, int] = {}
            for found in pool.map(
                partial(run_batch, name), range(first, first + batches), chunksize=20
            ):
                for text in found.pop("examples"):
                    print(text, file=sys.stderr)
                paths = found.pop("paths")
                for key, value in found.items():
                    report[key] = report.get(key, 0) + value
                report["decoded"] = report.get("decoded", 0) + found["payloads"] * paths
            print(f"{name}: {json.dumps(report)}", file=sys.stderr, flush=True)
            total = {key: total.get(key, 0) + value for key, value in report.items()}
    print(json.dumps(total))
    wrong = total["crashes"] + total["hangs"] + total["unaccounted"] + total["differences"]
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
