"""The tidy test: what a reviewer would otherwise have to look for by hand."""

import ast
import json
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from sluiceway.cli.app import VERBS
from sluiceway.jobfile.blocks.block import Block
from sluiceway.jobfile.blocks.columns import ColumnRules
from sluiceway.jobfile.blocks.models import JobFileBlocks
from sluiceway.types.dirty import DirtyReason
from tools.source_trees import nodes_of, tree_of

ROOT = Path(__file__).resolve().parents[2]
CODE_FOLDERS = ("src", "tests", "bench")
MAX_FILE_LINES = 600
MAX_ROOM_FILES = 35
DRIVER_ROOMS = (
    "driver",
    "driver/spark",
    "operate",
    "route",
    "followers",
    "upkeep",
    "schedule",
    "jobfile/compile",
    "convert",
)
MAX_FUNCTION_LINES = 70
MAX_README_LINES = 120
VAGUE_NAMES = frozenset({"utils", "util", "helpers", "helper", "common", "manager", "misc", "base"})

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
# Put together from pieces, so that this file does not hold what it looks for.
_OWN_MACHINE = re.compile("(?<![\\w.])/(?:work|root|home|mnt|Users)/")
_REGISTRIES = re.compile(
    "|".join(
        rf"{host}\.{top}"
        for host, top in (
            *(("pypi", "org"), ("pythonhosted", "org"), ("maven", "org"), ("npmjs", "org")),
            *((r"maven\.apache", "org"), (r"proxy\.golang", "org"), ("crates", "io")),
        )
    )
    + r"|(?:index|find)-(?:url|links)[= ]+\S*:/"
)

_QUEUE_SYSTEMS = re.compile(r"kafka|rocketmq|rdkafka|bootstrap", re.IGNORECASE)


@cache
def source_files(folder: str) -> tuple[Path, ...]:
    return tuple(sorted((ROOT / folder).rglob("*.py")))


@pytest.fixture(scope="module", autouse=True)
def parsed() -> None:
    """All code is parsed once, for all tests here."""
    for path in all_code():
        nodes_of(path)


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def all_code() -> list[Path]:
    return [path for folder in CODE_FOLDERS for path in source_files(folder)]


@cache
def project_files() -> tuple[Path, ...]:
    """Files of the project: tracked ones and those about to be; in an archive, all."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=False)
        names = listed.stdout.splitlines() if listed.returncode == 0 else []
    except FileNotFoundError:
        names = []
    if not names:
        folders = (*CODE_FOLDERS, "docs", "examples")
        found = [path for folder in folders for path in (ROOT / folder).rglob("*")]
        return tuple(p for p in found if p.is_file() and "__pycache__" not in p.parts)
    return tuple(path for name in names if (path := ROOT / name).is_file())


@cache
def text_of(path: Path) -> str:
    return path.read_text("utf-8")


def documents() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def project() -> dict[str, object]:
    return tomllib.loads(text_of(ROOT / "pyproject.toml"))


def section(*keys: str) -> dict[str, object]:
    found: object = project()
    for key in keys:
        assert isinstance(found, dict)
        found = found[key]
    assert isinstance(found, dict)
    return found


def headings(path: Path) -> list[str]:
    return re.findall(r"^#+ (.+)$", _FENCE.sub("", text_of(path)), re.MULTILINE)


def anchor(heading: str) -> str:
    """A heading's link target, as forges make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


# Code


def test_code_files_are_as_long_as_their_one_subject() -> None:
    lines = {named(path): text_of(path).splitlines() for path in all_code()}
    assert len(lines) > 100
    # A longer one says in its first line why it is not two.
    unexplained = {
        name: len(found)
        for name, found in lines.items()
        if len(found) > MAX_FILE_LINES and "one file because" not in found[0]
    }
    assert unexplained == {}


def test_rooms_of_the_driver_stay_small_enough_to_look_around() -> None:
    files = {room: len(source_files(f"src/sluiceway/{room}")) for room in DRIVER_ROOMS}
    assert all(count > 1 for count in files.values()), files
    assert {room: count for room, count in files.items() if count > MAX_ROOM_FILES} == {}


def test_no_request_of_kafka_ends_a_process() -> None:
    # Without a live broker its answer is empty, and the library dies of an assertion.
    calls = [
        f"{named(path)}:{node.lineno}"
        for path in source_files("src")
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute) and node.attr == "describe_cluster"
    ]
    assert calls == []


def test_functions_are_short_enough() -> None:
    long = {
        f"{named(path)}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in all_code()
        for node in nodes_of(path)
        if isinstance(node, _FUNCTIONS)
        and (node.end_lineno or 0) - node.lineno + 1 > MAX_FUNCTION_LINES
    }
    assert long == {}


def test_modules_of_the_package_have_a_docstring() -> None:
    bare = [named(path) for path in source_files("src") if not ast.get_docstring(tree_of(path))]
    assert bare == []


def test_module_names_say_what_is_inside() -> None:
    vague = [
        named(path)
        for path in all_code()
        if VAGUE_NAMES & {*path.stem.lower().split("_"), path.parent.name.lower()}
    ]
    assert vague == []


@pytest.mark.parametrize("room", ["driver", "route", "worker", "followers", "upkeep"])
def test_rooms_of_drivers_and_tasks_name_no_queue_system(room: str) -> None:
    naming = {
        named(path): _QUEUE_SYSTEMS.findall(text_of(path))
        for path in source_files(f"src/sluiceway/{room}")
    }
    assert naming
    assert {name: found for name, found in naming.items() if found} == {}


# What is shipped and installed


def lock_entries() -> Iterator[tuple[str, list[str]]]:
    """Requirement -> its hashes, from the continued lines of the locks."""
    # What has to be built against the system's libraries is in no plain install.
    locks = ("requirements.lock", "tests/kerberos-requirements.lock")
    joined = "".join(text_of(ROOT / lock) for lock in locks).replace("\\\n", " ")
    for line in joined.splitlines():
        requirement = line.partition("#")[0].strip()
        if requirement:
            name, *options = requirement.split(" --hash=")
            yield name.strip(), [option.strip() for option in options]


def test_lock_pins_every_entry_by_version_and_hash() -> None:
    entries = list(lock_entries())
    assert len(entries) > 20
    bad = [
        name
        for name, hashes in entries
        if "==" not in name
        or not hashes
        or not all(re.fullmatch("sha256:[0-9a-f]{64}", one) for one in hashes)
    ]
    assert bad == []


def test_lock_names_no_address() -> None:
    assert re.findall(r"\S*:/\S*|\S* @ \S*", text_of(ROOT / "requirements.lock")) == []


def test_lock_covers_every_dependency() -> None:
    locked = {re.split("[ =;]", name)[0] for name, _ in lock_entries()}
    wanted = {re.sub("[-_.]+", "-", name) for name in dependencies()}
    assert wanted - locked == set()


def test_lock_of_crates_has_hashes_and_names_no_address() -> None:
    crates = text_of(ROOT / "native/crates.lock").split("[[package]]")[1:]
    assert len(crates) > 10
    checksum = re.compile('^checksum = "[0-9a-f]{64}"$', re.MULTILINE)
    unlocked = [crate.split('"')[1] for crate in crates if checksum.search(crate) is None]
    assert unlocked == ["sluiceway-native"]
    assert "://" not in "".join(crates)


@pytest.mark.parametrize("pattern", [_OWN_MACHINE, _REGISTRIES], ids=["machine", "registry"])
def test_project_files_name_no_machine_path_or_registry(pattern: re.Pattern[str]) -> None:
    found = [
        f"{named(path)}: {match[0]}"
        for path in project_files()
        for match in pattern.finditer(path.read_text("utf-8", errors="replace"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (_OWN_MACHINE, "in /" + "home/me/x"),
        (_OWN_MACHINE, "'/" + "work/x'"),
        (_REGISTRIES, "https://files.python" + "hosted.org/x"),
        (_REGISTRIES, "--index" + "-url=https://host/simple"),
    ],
)
def test_patterns_of_forbidden_places_find_them(pattern: re.Pattern[str], text: str) -> None:
    assert pattern.search(text)


def test_packed_files_exist() -> None:
    targets = section("tool", "hatch", "build", "targets")
    wheel, sdist = targets["wheel"], targets["sdist"]
    assert isinstance(wheel, dict)
    assert isinstance(sdist, dict)
    wanted = [*wheel["packages"], *wheel["force-include"], *sdist["include"]]
    assert len(wanted) > 10
    assert [name for name in wanted if not (ROOT / name).exists()] == []


# Documentation


def test_readme_is_short_and_shows_the_example_job() -> None:
    readme = text_of(ROOT / "README.md")
    assert len(readme.splitlines()) <= MAX_README_LINES
    job = text_of(ROOT / "examples/orders.yaml")
    assert f"```yaml\n{job}```" in readme


def test_readme_names_every_command() -> None:
    readme = text_of(ROOT / "README.md")
    assert [verb.name for verb in VERBS if f"`sluiceway {verb.name}" not in readme] == []


def test_links_between_documents_lead_somewhere() -> None:
    broken = []
    for path in documents():
        for target in _LINK.findall(_FENCE.sub("", text_of(path))):
            if "://" in target or target.startswith("mailto:"):
                continue
            name, _, fragment = target.partition("#")
            there = (path.parent / name).resolve() if name else path
            known = there.suffix == ".md" and there.is_file()
            if not there.exists() or (
                fragment and not (known and fragment in map(anchor, headings(there)))
            ):
                broken.append(f"{named(path)}: {target}")
    assert broken == []


def makefiles() -> list[Path]:
    return [ROOT / "Makefile", ROOT / "bench/bench.mk", ROOT / "tests/proofs.mk"]


def make_targets() -> set[str]:
    return {
        target
        for path in makefiles()
        for target in re.findall(r"^([a-z0-9-]+):", text_of(path), re.MULTILINE)
    }


def test_make_help_has_at_most_twenty_lines() -> None:
    shown = re.findall(r"^[a-z0-9-]+:.*## .", text_of(ROOT / "Makefile"), re.MULTILINE)
    assert 10 < len(shown) <= 20


def test_names_of_proofs_and_benchmarks_in_documents_exist() -> None:
    named = {
        (verb, name)
        for path in documents()
        for verb, name in re.findall(r"make (proofs|bench) NAME=([a-z0-9-]+)", text_of(path))
    }
    assert ("proofs", "sim") in named
    wanted = {name if verb == "proofs" else f"bench-{name}" for verb, name in named}
    assert wanted - make_targets() == set()


def test_make_targets_named_in_documents_exist() -> None:
    targets = make_targets()
    wanted = {
        target
        for path in documents()
        for target in re.findall(r"(?:`|^)make ([a-z0-9-]+)", text_of(path), re.MULTILINE)
    }
    assert wanted >= {"demo", "test"}
    assert wanted - targets == set()


def dependencies() -> list[str]:
    groups = [
        section("project")["dependencies"],
        *section("project", "optional-dependencies").values(),
        *section("dependency-groups").values(),
    ]
    texts = [text for group in groups if isinstance(group, list) for text in group]
    return sorted({re.split(r"[<>=!~;\[ ]", text)[0].lower() for text in texts})


def test_dependencies_are_explained() -> None:
    rows = re.findall(
        r"^\| `([^`]+)` \|", text_of(ROOT / "docs/contributors/dependencies.md"), re.MULTILINE
    )
    assert [name for name in dependencies() if name not in rows] == []


@cache
def error_codes() -> tuple[str, ...]:
    return tuple(
        node.value.value
        for path in source_files("src")
        for node in nodes_of(path)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and re.fullmatch(r"SW\d{3}", node.value.value)
    )


def test_error_codes_are_unique() -> None:
    counts = Counter(error_codes())
    assert len(counts) > 20
    assert [code for code, count in counts.items() if count > 1] == []


def test_error_codes_are_explained() -> None:
    titles = headings(ROOT / "docs/reference/errors.md")
    assert [code for code in error_codes() if code not in titles] == []


def warning_events() -> set[str]:
    """Events that a driver logs as a warning or an error."""
    methods = {"warning", "error"}
    return {
        node.args[0].value
        for room in DRIVER_ROOMS
        for path in source_files(f"src/sluiceway/{room}")
        for node in nodes_of(path)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in methods
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }


def test_warning_events_are_explained() -> None:
    events = warning_events()
    assert {"route_waits", "route_halted", "task_failed", "follower_blocked"} <= events
    titles = headings(ROOT / "docs/reference/events.md")
    explained = {name for title in titles for name in re.findall(r"`(\w+)`", title)}
    assert events - explained == set()


def test_dirty_reasons_are_explained() -> None:
    rows = re.findall(
        r"^\| `([a-z_]+)` \|", text_of(ROOT / "docs/guides/dirty-rows.md"), re.MULTILINE
    )
    assert [reason.value for reason in DirtyReason if reason.value not in rows] == []


def job_file_keys() -> set[str]:
    return {
        key
        for block in (*Block.__subclasses__(), *ColumnRules.__subclasses__())
        for key in (
            *(info.alias or name for name, info in block.model_fields.items()),
            *block.LATER,
        )
    }


def test_job_file_keys_are_explained() -> None:
    assert issubclass(JobFileBlocks, Block)
    assert len(job_file_keys()) > 40
    reference = text_of(ROOT / "docs/reference/job-file.md")
    written = {part for key in re.findall(r"`([a-z0-9_.]+)`", reference) for part in key.split(".")}
    assert sorted(job_file_keys() - written) == []


def test_kafka_pins_hold_a_hash_each() -> None:
    pins = json.loads(text_of(ROOT / "src/sluiceway/lab/kafka_jars.json"))["jars"]
    assert len(pins) > 20
    assert [pin for pin in pins if not re.fullmatch("[0-9a-f]{64}", pin["sha256"])] == []
