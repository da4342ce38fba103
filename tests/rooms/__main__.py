"""Drills of jobs in two rooms; the last line of output is JSON.

python -m rooms --case stretched --drills 20

Rooms are network namespaces, which take root, iproute2 and iptables. A room is killed, stopped or
cut in turn, at a random moment under load. Copies of `mirrored` topics name their rows in a header;
those of `mirrored-by-tail` do not. MirrorMaker is killed too. Of `copied` tables rooms are folders
and process groups: a copier of the programme brings objects in any order, and the driver of room a
is killed.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from rooms.copied import CopiedDrills
from rooms.drills import StretchedDrills
from rooms.judge import DrillResults
from rooms.mirrored import MirroredDrills
from rooms.stretched import cluster_each, stretched_cluster
from sluiceway.lab.lab import Lab
from tools.far_host import NoFarHostError
from tools.lab_fixture import shared_lab

_MOST_S = 60.0
_CASES = ("stretched", "mirrored", "mirrored-by-tail", "copied")


def main() -> int:
    """Run what the arguments say; 0 when every row is in the table once, in time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=_CASES, default="stretched")
    parser.add_argument("--drills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluiceway-rooms-") as scratch:
        folder = Path(scratch)
        try:
            with shared_lab(folder / "lab") as lab:
                played = _played(arguments, lab, folder)
        except NoFarHostError as error:
            print(f"not run: {error}", file=sys.stderr)
            return 2
    return _report(played.as_json(arguments.case))


def _played(arguments: argparse.Namespace, lab: Lab, folder: Path) -> DrillResults:
    case, drills, seed = arguments.case, arguments.drills, arguments.seed
    if case == "copied":
        return CopiedDrills(lab.endpoints().bootstrap_servers, folder, seed).play(drills)
    if case == "stretched":
        with stretched_cluster(lab, folder / "brokers") as cluster:
            return StretchedDrills(cluster, lab, folder, seed).play(drills)
    with cluster_each(lab, folder / "brokers") as clusters:
        header = case == "mirrored"
        return MirroredDrills(clusters, lab, folder, seed, header=header).play(drills)


def _report(results: dict[str, object]) -> int:
    """Print the last line; 0 when nothing is wrong."""
    print(json.dumps(results))
    wrong = ("lost", "doubled", "zombie_commits", "early_ready", "unannounced")
    late = float(str(results["rto_p95_s"])) > _MOST_S
    return int(late or any(results[name] for name in wrong))


if __name__ == "__main__":
    sys.exit(main())
