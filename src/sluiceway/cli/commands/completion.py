"""`sluiceway completion`: a script by which a shell completes commands and options."""

import sys
from enum import StrEnum
from importlib import import_module
from typing import Annotated

import typer

from sluiceway.cli.views.completion_scripts import (
    KnownCommand,
    bash_script,
    fish_script,
    known_commands,
    zsh_script,
)

app = typer.Typer()


class Shell(StrEnum):
    """A shell that there is a script for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


_SCRIPTS = {Shell.BASH: bash_script, Shell.ZSH: zsh_script, Shell.FISH: fish_script}


@app.command()
def completion(
    shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.")],
) -> None:
    """Print a script that completes commands, options and values; print it again after an upgrade.

    $ source <(sluiceway completion bash)
    $ sluiceway completion fish > ~/.config/fish/completions/sluiceway.fish
    """
    sys.stdout.write(_SCRIPTS[shell](all_commands()))


def all_commands() -> list[KnownCommand]:
    """The program and each of its commands."""
    # Which are known is said by the module that finds this one by its name.
    from sluiceway.cli.app import VERBS, without_completion  # noqa: PLC0415

    words = tuple(verb.name for verb in VERBS)
    found = [KnownCommand((), "", words, files=False, options=())]
    for verb in VERBS:
        command = without_completion(typer.main.get_command(import_module(verb.module).app))
        found += known_commands(command, (verb.name,), verb.help)
    return found
