"""Arguments that the commands for submitted jobs share."""

from pathlib import Path
from typing import Annotated

import typer

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
