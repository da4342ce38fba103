"""Jobs of several kinds on one workload, in turn: what each run took, checked against the rule.

In every round all kinds take in a small and a large topic, so that start-up is not in the slope
between them; the order changes from round to round. The lab and all that runs leave are removed.
"""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.ours import JobChoices, OurRun, check_ours, job_text, run_ours
from bench.standard_events import create_topic
from bench.workloads import WORKLOADS, Totals, expected_totals, fill_topic
from sluiceway.lab.lab import Lab, LabEndpoints, StoreServer

WORKLOAD = "standard"

Runs = dict[str, list[list[OurRun]]]
"""Runs by kind and size, small topics first."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Where the jobs run.

    Attributes:
        folder: Of this measurement, for what a kind of job needs beside the job file.
        expected: What the table of a topic has, by the topic's size.
    """

    endpoints: LabEndpoints
    folder: Path
    expected: Mapping[int, Totals]


@dataclass(frozen=True, slots=True)
class TablePlace:
    """Where the table of one run lies.

    Attributes:
        location: As the job file names it.
        files: Gives the folder of its files on this machine; called once the run is over.
        remove: Removes the table.
    """

    location: str
    files: Callable[[], Path]
    remove: Callable[[], None]


def _in_a_folder(setting: Setting, kind: str, name: str) -> TablePlace:
    del kind
    table = setting.folder / name / "table"
    return TablePlace(str(table), lambda: table, lambda: None)


def _fill_no_other(endpoints: LabEndpoints, topic: str, count: int) -> None:
    del endpoints, topic, count


def _all_is_well(setting: Setting, kind: str, name: str) -> None:
    del setting, kind, name


@dataclass(frozen=True, slots=True)
class Turns:
    """What takes turns.

    Attributes:
        kinds: Of jobs, by name.
        choices: What is different of a job of a kind; called before each of its runs.
        partitions: Of each topic.
        check: Called after a run with its kind and name; raises `WrongOutputError` when it was not
            what it should have been.
        stores: Servers of the lab on top of Kafka and the metastore.
        fill: Fills further topics with the same events; called with a topic's name and size.
        place: Where the table of a run of a kind lies; called with its name.
    """

    kinds: tuple[str, ...]
    choices: Callable[[Setting, str], JobChoices]
    partitions: int
    check: Callable[[Setting, str, str], None] = _all_is_well
    stores: tuple[StoreServer, ...] = ()
    fill: Callable[[LabEndpoints, str, int], None] = _fill_no_other
    place: Callable[[Setting, str, str], TablePlace] = _in_a_folder


def run_in_turn(turns: Turns, counts: tuple[int, int], rounds: int) -> Runs:
    """Start a lab, fill two topics, run all kinds of jobs.

    Raises:
        WrongOutputError: A run failed, its table is not its topic, or `check` says so.
    """
    with started(turns, counts) as setting:
        return take_turns(turns, setting, counts, rounds)


@contextmanager
def started(turns: Turns, counts: tuple[int, int]) -> Iterator[Setting]:
    """A lab with two topics that are filled; ended afterwards."""
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="in-turn-")))
        lab = Lab(folder / "lab", stores=list(turns.stores))
        cleanup.callback(lab.down, remove_data=True)
        expected = {count: expected_totals(WORKLOADS[WORKLOAD], count) for count in counts}
        setting = Setting(lab.up(), folder, expected)
        for count in counts:
            _fill(turns, setting.endpoints, count)
        yield setting


def take_turns(turns: Turns, setting: Setting, counts: tuple[int, int], rounds: int) -> Runs:
    """Run all kinds of jobs; raises as `run_in_turn`."""
    runs: Runs = {kind: [[], []] for kind in turns.kinds}
    for attempt in range(rounds):
        for size, count in enumerate(counts):
            for kind in turns.kinds if attempt % 2 == 0 else reversed(turns.kinds):
                runs[kind][size].append(_run(turns, setting, kind, count, attempt))
    return runs


def _fill(turns: Turns, endpoints: LabEndpoints, count: int) -> None:
    topic = _topic(count)
    create_topic(endpoints.bootstrap_servers, topic, partitions=turns.partitions)
    fill_topic(endpoints.bootstrap_servers, topic, WORKLOAD, count)
    turns.fill(endpoints, topic, count)
    tell(f"{topic}: filled")


def _run(turns: Turns, setting: Setting, kind: str, count: int, attempt: int) -> OurRun:
    name = f"{kind}-{count}-{attempt}"
    folder = setting.folder / name
    folder.mkdir()
    choices = turns.choices(setting, kind)
    workload, job, place = (
        WORKLOADS[WORKLOAD],
        folder / "job.yaml",
        turns.place(setting, kind, name),
    )
    job.write_text(
        job_text(
            workload,
            setting.endpoints,
            choices,
            topic=_topic(count),
            name=name,
            location=place.location,
        )
    )
    found = run_ours(job, folder / "table", choices)
    check_ours(place.files(), workload, setting.expected[count], count)
    turns.check(setting, kind, name)
    place.remove()
    shutil.rmtree(folder)
    tell(f"{name}: {found.usage.cpu_s:.2f} CPU s, {found.usage.wall_s:.2f} s; checked")
    return found


def _topic(count: int) -> str:
    return f"{WORKLOAD}-{count}"


def tell(text: str) -> None:
    """Say on standard error what goes on."""
    print(text, file=sys.stderr, flush=True)
