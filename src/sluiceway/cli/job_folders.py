"""Commands over a folder of job files: each file in turn, and one exit code."""

import io
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from sluiceway.errors import JobFileError, WrongUsageError

TESTS_SUFFIX = ".test.yaml"

_SUFFIXES = (".yaml", ".yml")
_WITH_VALUES = frozenset({"-o", "--output", "--route", "--records"})
_EXIT_CHANGES = 4
Run = Callable[[list[str]], int]


def folder_among(args: Sequence[str]) -> int | None:
    """Position of the argument that is a folder instead of a job file; None for none."""
    for place, arg in enumerate(args):
        named = place and args[place - 1] in _WITH_VALUES
        if not named and not arg.startswith("-") and Path(arg).is_dir():
            return place
    return None


def over_folder(args: Sequence[str], place: int, run: Run, answer_as: str) -> int:
    """Run a command for each job file of a folder.

    Args:
        args: Arguments of the command.
        place: Position of the folder among them.
        run: Runs the command with other arguments; it prints errors and returns the exit code.
        answer_as: `json` or `yaml` for one document with the answers of all files, else empty.

    Returns:
        The highest exit code; "something would change" is less than any failure.

    Raises:
        JobFileError: The folder has no job file.
        WrongUsageError: The command would watch the folder.
    """
    folder = Path(args[place])
    files = job_files_in(folder)
    if not files:
        message = "expected a job file, got a folder without *.yaml"
        raise JobFileError(message, where=str(folder), hint="check the path")
    if "--watch" in args:
        raise WrongUsageError("--watch shows one job", hint="name a job file; `serve` shows many")
    codes: list[int] = []
    answers = []
    for file in files:
        told = [*args[:place], str(file), *args[place + 1 :]]
        if answer_as:
            answer, code = _answered(told, run)
            answers.append({"file": str(file), "exit_code": code, "answer": answer})
        else:
            sys.stdout.write(f"{chr(10) if codes else ''}== {file}\n")
            sys.stdout.flush()
            code = run(told)
        codes.append(code)
    if answer_as:
        from sluiceway.cli.options import OutputFormat  # noqa: PLC0415
        from sluiceway.cli.views.answers import write_plain  # noqa: PLC0415

        write_plain({"ok": not any(codes), "jobs": answers}, OutputFormat(answer_as))
    return max((code for code in codes if code != _EXIT_CHANGES), default=0) or max(codes)


def job_files_in(folder: Path) -> list[Path]:
    """The folder's job files by name, without test files; empty where the folder is unreadable."""
    try:
        return sorted(each for each in folder.iterdir() if _is_job(each))
    except OSError:
        return []


def _is_job(path: Path) -> bool:
    name = path.name
    return path.suffix in _SUFFIXES and not name.startswith(".") and not is_tests(path)


def is_tests(path: Path) -> bool:
    """Whether a file holds tests of a job; it lies next to the job file."""
    return path.stem.endswith(".test")


def _answered(args: list[str], run: Run) -> tuple[object, int]:
    """One file's answer as JSON; None where the command gave none."""
    written = io.StringIO()
    with redirect_stdout(written):
        code = run(_as_json(args))
    text = written.getvalue()
    return (json.loads(text) if text.strip() else None), code


def _as_json(args: Sequence[str]) -> list[str]:
    kept: list[str] = []
    left_out = False
    for arg in args:
        if left_out:
            left_out = False
        elif arg in ("-o", "--output"):
            left_out = True
        elif not arg.startswith(("--output=", "-o")):
            kept.append(arg)
    return [*kept, "-o", "json"]


SubmittedJob = Annotated[
    str, typer.Argument(help="Name of a submitted job, or its job file.", metavar="JOB")
]


def named_job(text: str) -> str:
    """A job's name, from a name or from a job file.

    Raises:
        JobFileError: The job file is not valid.
        WrongUsageError: It is neither a file nor a name.
    """
    from sluiceway.errors import WrongUsageError  # noqa: PLC0415 - keeps `--help` quick

    if Path(text).is_file():
        from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415

        return load_checked_job(Path(text)).spec.name
    if not text or "/" in text or text.startswith("."):
        raise WrongUsageError(
            f"expected a job's name or a job file, got {text!r}",
            hint="the names: `sluiceway list`",
        )
    return text


def grace_s(text: str) -> float:
    """Seconds of `--grace`."""
    from sluiceway.jobfile.blocks.values import parse_duration_ms  # noqa: PLC0415

    try:
        return parse_duration_ms(text) / 1000
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--grace") from error
