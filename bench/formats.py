"""Every format beside Flink: the ratios of CPU and wall a record, tables compared.

Runs `bench.compare` with the native module over the standard events as JSON, Debezium, Avro and
Protobuf, and over lines of plain columns, then our library path alone. The closing line has the
ratio of CPU of each format; `wall` has the ratios of records a second, `library` the ratios of
CPU of the library path.

    python -m bench.formats --small 4000000 --large 12000000 --rounds 3
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from bench.check_output import WrongOutputError
from bench.compare import read_plan, run
from bench.figures import ratio
from bench.tidy_end import end_tidily
from bench.workloads import FORMATS
from sluiceway.host.native_module import SWITCH, native_module


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Measure all formats; raises WrongOutputError."""
    sizes = ["--small", str(given.small), "--large", str(given.large)]
    names = given.formats.split(",")
    chosen = [FORMATS[name] for name in names]
    sizes += ["--rounds", str(given.rounds), "--workloads", ",".join(chosen)]
    os.environ[SWITCH] = "1"
    plan, _ = read_plan([*sizes, "--engines", "ours,flink"])
    native = dict(zip(names, run(plan, given.results), strict=True))
    library: dict[str, dict[str, Any]] = {}
    if not given.without_library:
        os.environ[SWITCH] = "0"
        plan, _ = read_plan([*sizes, "--engines", "ours"])
        library = dict(zip(names, run(plan, None), strict=True))
    return {
        **{name: of["cpu_ratio"] for name, of in native.items()},
        "wall": {name: of["wall_ratio"] for name, of in native.items()},
        "library": {
            name: ratio(native[name]["flink_cpu_us"], of["ours_cpu_us"])
            for name, of in library.items()
        },
        "ours_cpu_us": {name: of["ours_cpu_us"] for name, of in native.items()},
        "flink_cpu_us": {name: of["flink_cpu_us"] for name, of in native.items()},
        "records": [given.small, given.large],
        "rounds": given.rounds,
    }


def main() -> int:
    """Measure, print the closing line."""
    end_tidily()
    parser = argparse.ArgumentParser(prog="python -m bench.formats")
    parser.add_argument("--small", type=int, default=4_000_000)
    parser.add_argument("--large", type=int, default=12_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--without-library", action="store_true")
    parser.add_argument("--results", type=Path, help="add a line a format to this file")
    given = parser.parse_args()
    if native_module() is None:
        parser.error("the native module is not installed: make native")
    began = time.monotonic()
    try:
        found = measure(given)
    except WrongOutputError as error:
        print(f"no measurement: {error}", file=sys.stderr)
        return 1
    print(f"took {time.monotonic() - began:.0f} s", file=sys.stderr)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
