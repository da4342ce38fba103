"""`python -m partition_oracle --values 1000000 --written 5000`: the last line is the outcome."""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from partition_oracle.ours import Tally, batches, judge, sample
from partition_oracle.values import days, decimals, numbers
from partition_oracle.written import write_texts, write_typed
from sluiceway.lab.lab import LabEndpoints
from tools.lab_fixture import running_lab

_TESTS = Path(__file__).resolve().parents[1]
_TYPED = 300


def encode_all(seed: int, count: int, folder: Path, tally: Tally) -> list[tuple[str, str]]:
    """Judge all values, and put those with a folder into a file for the JVM."""
    kept: list[tuple[str, str]] = []
    with pq.ParquetWriter(folder / "kept.parquet", _SCHEMA) as writer:
        for values in batches(seed, count):
            pairs = judge(values, tally)
            columns = [list(column) for column in zip(*pairs, strict=True)] or [[], []]
            writer.write_table(pa.table(columns, schema=_SCHEMA))
            if pa.types.is_string(values.type):
                kept += pairs
    return kept


_SCHEMA = pa.schema([("text", pa.string()), ("folder", pa.string())])


def compare_with_spark(folder: Path, tally: Tally) -> int:
    """Have the JVM name the same folders; how many it was asked for."""
    done = subprocess.run(
        [sys.executable, "-m", "partition_oracle.jvm", str(folder / "kept.parquet")],
        cwd=_TESTS,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-3000:])
    found = json.loads(done.stdout.splitlines()[-1])
    tally.unequal += found["folders"] + found["back"]
    tally.examples += found["examples"]
    return int(found["values"])


def write_all(
    lab: LabEndpoints, folder: Path, kept: list[tuple[str, str]], written: int, tally: Tally
) -> int:
    """Make real partitions, `written` of texts and some more of other types."""
    seed, typed = 1, min(_TYPED, written)
    triples = zip(numbers(seed, typed), decimals(seed, typed), days(seed, typed), strict=False)
    done = write_typed(lab, folder, list(triples), tally)
    return done + write_texts(lab, folder, sample(kept, written), tally)


def main() -> int:
    """Run the whole proof; values that are refused are told on stderr and not counted."""
    parser = argparse.ArgumentParser(prog="python -m partition_oracle")
    parser.add_argument("--values", type=int, default=1_100_000)
    parser.add_argument("--written", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=20_261_120)
    given = parser.parse_args()
    tally, began = Tally(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="partition-values-") as name:
        folder = Path(name)
        kept = encode_all(given.seed, given.values, folder, tally)
        _say(f"{tally.values} values encoded, {sum(tally.refused.values())} refused", began)
        for why, count in tally.refused.most_common():
            _say(f"  {count} refused: {why}", began)
        told = tally.values - sum(tally.refused.values())
        asked = compare_with_spark(folder, tally)
        _say(f"{asked} of {told} folders compared with Spark's", began)
        with running_lab(folder / "lab") as lab:
            written = write_all(lab.endpoints(), folder, kept, given.written, tally)
        _say(f"{written} partitions written and read by Spark and pyarrow", began)
    for example in tally.examples:
        _say(example, began)
    outcome = {
        "values": asked,
        "written": written,
        "escaped": tally.escaped,
        "unequal": tally.unequal,
    }
    print(json.dumps(outcome), flush=True)
    return 1 if tally.escaped or tally.unequal else 0


def _say(text: str, began: float) -> None:
    print(f"{time.monotonic() - began:7.1f} s  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
