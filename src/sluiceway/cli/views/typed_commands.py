"""Commands in texts of the product, in a form to paste: with the job file, by this program.

Code that finds a fault does not know the job file's path and writes `sluiceway status JOB`; the
view adds the path. In texts such commands stand between backticks.
"""

import re
import shlex
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from sluiceway.cli.own_command import own_command

_PROGRAM = "sluiceway"
_IN_TEXT = re.compile(rf"`({_PROGRAM} [^`]+)`")
_JOB = re.compile(r"(?<=\s)JOB\b")
_TOLD_IN = frozenset({"hint", "error", "message", "commands"})
"""Fields of log lines and answers that hold commands, alone or in a text."""

Fill = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Turns fields into fields whose commands can be pasted in every folder."""

JOB_FILE: ContextVar[str | None] = ContextVar("job_file", default=None)
"""Job file of this process's command, as it was typed; None before it is known."""

OWN_ROOM: ContextVar[str] = ContextVar("own_room", default="")
"""Room that this process's command names with `--room`; empty without the option."""


def typed(command: str, job_file: str | None, *, anywhere: bool = False) -> str:
    """A command in a form to paste.

    Args:
        command: Begins with `sluiceway`; `JOB` stands for the job file.
        job_file: Its path; None leaves `JOB`.
        anywhere: Whether it has to work in every folder, not only in the current one.
    """
    if not command.startswith(f"{_PROGRAM} "):
        return command
    command = own_command(anywhere=anywhere) + command.removeprefix(_PROGRAM)
    if job_file is None:
        return command
    place = shlex.quote(str(Path(job_file).absolute()) if anywhere else job_file)
    return _JOB.sub(lambda _: place, command, count=1)


def quoted(word: str) -> str:
    """A word of a command for a shell, on one line and without control characters.

    Field names come from payloads. A terminal takes a pasted control character for a key, and a
    line's end for the end of the command, quoted or not.
    """
    if word.isprintable():
        return shlex.quote(word)
    shown = "".join(c if c.isprintable() and c not in "'\\" else _escaped(c) for c in word)
    return f"$'{shown}'"


def _escaped(character: str) -> str:
    """For bash and zsh, between `$'` and `'`."""
    if character in "'\\":
        return f"\\{character}"
    return f"\\U{ord(character):08x}"


def typed_text(text: str, job_file: str | None, *, anywhere: bool = False) -> str:
    """A text whose commands between backticks can be pasted; see `typed`."""
    return _IN_TEXT.sub(lambda m: f"`{typed(m[1], job_file, anywhere=anywhere)}`", text)


def typed_fields(job_file: Path) -> Fill:
    """A function that fills in the commands of log lines and answers for programs.

    Args:
        job_file: The path, as it was typed.
    """
    place = str(job_file)

    def made(value: object) -> object:
        match value:
            case str() if value.startswith(f"{_PROGRAM} "):
                return typed(value, place, anywhere=True)
            case str():
                return typed_text(value, place, anywhere=True)
            case list() | tuple():
                return [made(each) for each in value]
            case _:
                return value

    def fill(fields: Mapping[str, Any]) -> dict[str, Any]:
        return {name: made(v) if name in _TOLD_IN else v for name, v in fields.items()}

    return fill


_EXAMPLE = "$ "


def lay_out_help(command: Any) -> None:
    """Set up the help of a command and of all commands below it.

    Called once, before the command is run. Paragraphs become lines that a terminal can break
    anywhere, except examples, which begin with `$`. Arguments are shown in capitals, as in the
    documents, and flags without their type, which is always the same.

    Args:
        command: Typer's command; changed in place.
    """
    if command.help:
        command.help = _paragraphs(command.help)
    for param in command.params:
        if param.metavar is not None:
            continue
        if param.param_type_name == "argument":
            param.metavar = param.name.upper()
        elif getattr(param, "is_flag", False):
            param.metavar = ""
    _lay_out_help_option(command)
    for inner in getattr(command, "commands", {}).values():
        lay_out_help(inner)


def _lay_out_help_option(command: Any) -> None:
    made = command.get_help_option

    def plain(context: Any) -> Any:
        option = made(context)
        if option is not None:
            option.metavar = ""
        return option

    command.get_help_option = plain


def _paragraphs(text: str) -> str:
    paragraphs = text.partition("\f")[0].strip().split("\n\n")
    return "\n\n".join(_one_line(paragraph) for paragraph in paragraphs)


def _one_line(paragraph: str) -> str:
    lines = [line.strip() for line in paragraph.splitlines()]
    if all(line.startswith(_EXAMPLE) for line in lines):
        return "\n".join(lines)
    return " ".join(lines)
