"""`sluiceway completion`: Typer's script by which a shell completes commands and options.

At a key press the shell runs the program with `COMPLETE_VARIABLE` in its environment.
"""

import os
from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import completion_init, get_completion_script  # type: ignore[attr-defined]
from typer.core import TyperCommand, TyperGroup

app = typer.Typer()


class Shell(StrEnum):
    """A shell with a completion script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@app.command()
def completion(
    shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.")],
) -> None:
    """Print a script that completes commands, options, values and job files.

    $ source <(sluiceway completion bash)
    $ sluiceway completion fish > ~/.config/fish/completions/sluiceway.fish
    """
    from sluiceway.cli.app import COMPLETE_VARIABLE  # noqa: PLC0415 - it finds this module by name

    print(
        get_completion_script(
            prog_name="sluiceway", complete_var=COMPLETE_VARIABLE, shell=shell.value
        )
    )


def complete() -> int:
    """Write the completions for the words that a shell gives in the environment.

    Only the command that is already typed is imported: a key press needs an answer at once.

    Returns:
        The exit code: fish learns from it whether files may follow.
    """
    from sluiceway.cli.app import COMPLETE_VARIABLE, VERBS, verb_command  # noqa: PLC0415

    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    typed = line.split()[1:2]
    commands = {
        verb.name: verb_command(verb)
        if verb.name in typed
        else TyperCommand(verb.name, help=verb.help)
        for verb in VERBS
    }
    completion_init()
    try:
        TyperGroup(name="sluiceway", commands=commands).main(
            args=[], prog_name="sluiceway", complete_var=COMPLETE_VARIABLE
        )
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0
