"""The layout of a command's help: at any width of the terminal, in this program's own words."""

from typing import Any

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
