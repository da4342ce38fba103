"""The command `sluiceway`: finds the verb, runs it, turns errors into words and exit codes.

A verb's module is imported when the verb is used, so that help and mistakes are fast.
"""

import atexit
import gc
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

from sluiceway import __version__
from sluiceway.cli.views.error_text import (
    EXIT_BROKEN_PIPE,
    EXIT_FAILED,
    drop_output,
    print_error,
)
from sluiceway.cli.views.typed_commands import JOB_FILE, OWN_ROOM
from sluiceway.errors import WrongUsageError

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

_DOCUMENTS = ("json", "yaml")
_OF_FOLDERS = frozenset({"validate", "plan", "status", "test"})
"""Commands that accept a folder of job files instead of one file."""
_OBJECTS_BEFORE_GC = 50_000
_COMPLETION_OPTIONS = frozenset({"install_completion", "show_completion"})
COMPLETE_VARIABLE = "_SLUICEWAY_COMPLETE"
"""A shell sets this variable to ask for completions."""


@dataclass(frozen=True, slots=True)
class Verb:
    """A command of this version.

    Attributes:
        name: As typed.
        help: One line.
        stops_gracefully: Whether it ends in good order on SIGTERM and SIGINT from its first moment
            on; its context's `obj` is the `StopSignal`.
        place: `module:name` of its Typer application; empty for `app` in the module of its name.
    """

    name: str
    help: str
    stops_gracefully: bool = False
    place: str = ""

    def app(self) -> Any:
        """The command's Typer application. Imports its module, when the command is used."""
        module, _, name = (self.place or f"{self.name}:app").partition(":")
        return getattr(import_module(f"sluiceway.cli.commands.{module}"), name)


VERBS = (
    Verb("run", "Keep a table filled from its topics.", stops_gracefully=True),
    Verb("init", "Write a job file for a topic and a table."),
    Verb("validate", "Check a job file; needs no network."),
    Verb("infer", "Propose columns from records of a topic."),
    Verb("doctor", "Check all that a job needs; say how to mend it."),
    Verb("plan", "Say what the next run would do."),
    Verb("preview", "Show rows of some records; write nothing."),
    Verb("test", "Try a job on sample records, without servers."),
    Verb("status", "Show how each route is."),
    Verb("ledger", "Show what was committed."),
    Verb("verify", "Check the ledger against files and broker."),
    Verb("gc", "Remove what dead attempts have left."),
    Verb("offsets", "Show committed ends; move them."),
    Verb("partitions", "Show partitions; wait for them."),
    Verb("files", "List the files of a table."),
    Verb("at", "Show what a table held at a slot or a time."),
    Verb("dirty", "Show rows that could not be converted; replay them."),
    Verb("late", "Bring late rows into their partitions."),
    Verb("backfill", "Read an hour again and replace its rows."),
    Verb("compact", "Merge small files of partitions."),
    Verb("maintain", "Merge small files, expire old snapshots."),
    Verb("serve", "Show jobs, hours and dirty rows in a browser."),
    Verb("submit", "Start a job that goes on by itself."),
    Verb("list", "List the submitted jobs."),
    Verb("logs", "Show the log of a submitted job."),
    Verb("stop", "End a submitted job."),
    Verb("restart", "End a submitted job and start it again."),
    Verb("switch", "Move a job to another room."),
    Verb("drill", "Try a switch to another room, timed."),
    Verb("adopt", "Continue from the copy of a table whose room is lost."),
    Verb("mirror-jar", "Write what a mirror needs between rooms.", place="drill:mirror_jar_app"),
    Verb("pack", "Pack this Python environment for a cluster."),
    Verb("k8s", "Write what Kubernetes needs to run a job."),
    Verb("dashboards", "Write boards and alert rules."),
    Verb("lab", "Start, show and stop real servers to try it on."),
    Verb("demo", "Show the whole product on this machine."),
    Verb("explain", "Say what a message means and what to do."),
    Verb("completion", "Print a script that completes commands."),
    Verb("schema", "Print the JSON Schema of job files."),
    Verb("version", "Show versions."),
)

GROUPS = (
    ("Begin", ("init", "infer", "lab", "demo")),
    ("Check before a run", ("validate", "doctor", "plan", "preview", "test")),
    (
        "Run",
        (
            *("run", "submit", "list", "logs", "restart", "stop"),
            *("switch", "drill", "adopt", "mirror-jar", "pack", "k8s"),
        ),
    ),
    ("Look", ("status", "serve", "partitions", "files", "at", "ledger", "verify", "dashboards")),
    ("Mend and keep", ("dirty", "late", "offsets", "backfill", "compact", "maintain", "gc")),
    ("Help", ("explain", "schema", "completion", "version")),
)
"""Order of the commands in the help: as users need them."""


def main() -> NoReturn:
    """Run the process's own arguments and exit. The console script and `-m` call it, once."""
    if sys.stdout is None:
        # The caller closed it and wants no output.
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - as long as the process
    code = [EXIT_FAILED]
    # The first that is registered is the last that is called.
    atexit.register(_end, code)
    code[0] = run_command(sys.argv[1:])
    sys.exit(code[0])


def _end(code: Sequence[int]) -> None:
    """End the process without taking the interpreter down.

    A thread that cannot be ended may wait in a library, in a call to a store that does not answer.
    When the call returns while the interpreter is taken down, the thread is ended by force. A
    library in C++ or Rust takes that for a fault: the process would abort, with another exit code.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code[0])


def run_command(args: Sequence[str]) -> int:
    """Run one command. The only place where errors become exit codes.

    Args:
        args: Arguments after the program's name.

    Returns:
        The exit code: 0 ok, 1 failed, 2 usage, 3 job file, 5 environment, 6 dirty limit, 7 state
        conflict, 130 interrupted, 141 the reader of standard output is gone.
    """
    JOB_FILE.set(None)
    OWN_ROOM.set("")
    try:
        code = _dispatch(list(args))
        # A failed flush is reported here, not at the interpreter's end.
        sys.stdout.flush()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the boundary of the process
        return print_error(error, answer_as=_document_requested(args))
    return code


def _document_requested(args: Sequence[str]) -> str:
    """`json`, `yaml` or empty; found without parsing the options, which may be wrong."""
    asked = ""
    for name, value in pairwise([*args, ""]):
        if name in ("-o", "--output"):
            asked = value
        elif name.startswith("--output="):
            asked = name.removeprefix("--output=")
        elif name.startswith("-o"):
            asked = name.removeprefix("-o").removeprefix("=")
    return asked if asked in _DOCUMENTS else ""


def _dispatch(args: list[str]) -> int:
    if not args and os.environ.get(COMPLETE_VARIABLE):
        from sluiceway.cli.commands.completion import complete  # noqa: PLC0415 - seldom

        return complete()
    if not args:
        print(_help_text(), file=sys.stderr)
        return EXIT_USAGE
    name, rest = args[0], args[1:]
    if name in ("--help", "-h"):
        print(_help_text())
        return 0
    if name == "--version":
        print(f"sluiceway {__version__}")
        return 0
    verb = next((verb for verb in VERBS if verb.name == name), None)
    if verb is None:
        return _refuse(name)
    if name in _OF_FOLDERS and any(Path(arg).is_dir() for arg in rest):
        from sluiceway.cli.job_folders import folder_among, over_folder  # noqa: PLC0415 - seldom

        place = folder_among(rest)
        if place is not None:
            return over_folder(rest, place, partial(_run_one, verb), _document_requested(rest))
    return _run(verb, rest)


def _run_one(verb: Verb, args: list[str]) -> int:
    """Run one file of several: print its errors, and let the others go on."""
    JOB_FILE.set(None)
    try:
        return _run(verb, args)
    except Exception as error:  # noqa: BLE001 - as in `run_command`
        return print_error(error, answer_as=_document_requested(args))


def _run(verb: Verb, args: list[str]) -> int:
    if not verb.stops_gracefully:
        # Imported objects stay: a scan of them every 700 objects is a twelfth of such a command.
        gc.set_threshold(_OBJECTS_BEFORE_GC, *gc.get_threshold()[1:])
        return _run_typer(verb, args, None)
    # Before anything heavy: a signal may come while modules are still being imported.
    from sluiceway.driver.stop import StopSignal, listening  # noqa: PLC0415

    stop = StopSignal()
    with listening(stop):
        return _run_typer(verb, args, stop)


def _run_typer(verb: Verb, args: list[str], context: object) -> int:
    import typer  # noqa: PLC0415 - not needed for help and mistakes

    command = verb_command(verb)
    name, in_words = f"sluiceway {verb.name}", not _document_requested(args)
    try:
        code = command.main(args=args, prog_name=name, obj=context, standalone_mode=in_words)
    except typer.TyperException as error:
        # Only where Typer does not say it in words itself.
        todo = f"`{name} --help` lists what it takes"
        raise WrongUsageError(error.format_message(), hint=todo) from error
    except typer.Abort:
        print("Aborted.", file=sys.stderr)
        return EXIT_FAILED
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):
            # Typer and Rich end so; the rest of their buffer has no reader.
            drop_output()
            return EXIT_BROKEN_PIPE
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return code if isinstance(code, int) else 0


def verb_command(verb: Verb) -> Any:
    """A verb's Typer command, without Typer's completion options: completion is its own verb."""
    import typer  # noqa: PLC0415 - as in `_run_typer`

    from sluiceway.cli.room_option import add_room_option  # noqa: PLC0415
    from sluiceway.cli.views.typed_commands import lay_out_help  # noqa: PLC0415

    command: Any = typer.main.get_command(verb.app())
    command.params = [p for p in command.params if p.name not in _COMPLETION_OPTIONS]
    add_room_option(command)
    lay_out_help(command)
    command.context_settings["help_option_names"] = ["-h", "--help"]
    return command


def _refuse(name: str) -> int:
    known = [verb.name for verb in VERBS]
    close = get_close_matches(name, known, n=1)
    todo = f"did you mean `{close[0]}`?" if close else f"known: {', '.join(known)}"
    kind = "option" if name.startswith("-") else "command"
    raise WrongUsageError(f"no {kind} `{name}`; {todo}")


def _help_text() -> str:
    width = max(len(verb.name) for verb in VERBS)
    known = {verb.name: verb.help for verb in VERBS}
    commands = [
        line
        for title, names in GROUPS
        for line in (f"  {title}", *_listed(names, known, width), "")
    ]
    return "\n".join(
        [
            "Usage: sluiceway COMMAND [OPTIONS]",
            "",
            "Moves message queues into Hive tables, exactly once, on Spark.",
            "",
            "Commands:",
            *commands,
            "Options:",
            "  -h, --help  Show this; after a command, show its options.",
            "  --version   Show the version.",
        ]
    )


def _listed(names: Sequence[str], known: Mapping[str, str], width: int) -> list[str]:
    return [f"    {name:<{width}}  {known[name]}" for name in names if name in known]
