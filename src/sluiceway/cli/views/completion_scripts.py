"""Scripts by which a shell completes the program's commands, made of the commands themselves.

They hold all names, so that a key press asks no Python. Job files and folders are files to them.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

FILES = "files"


@dataclass(frozen=True, slots=True)
class KnownOption:
    """An option.

    Attributes:
        names: As `-o`, `--output`.
        help: One line.
        takes: Values that may follow; `FILES` for a file; None for a flag.
    """

    names: tuple[str, ...]
    help: str
    takes: tuple[str, ...] | str | None


@dataclass(frozen=True, slots=True)
class KnownCommand:
    """A command or a group of commands.

    Attributes:
        path: Words behind the program's name; empty for the program itself.
        help: One line.
        words: What may follow: names of commands below it, or choices of its argument.
        files: Whether an argument is a file.
        options: Of this command.
    """

    path: tuple[str, ...]
    help: str
    words: tuple[str, ...]
    files: bool
    options: tuple[KnownOption, ...]


def known_commands(command: Any, path: tuple[str, ...], help_text: str) -> list[KnownCommand]:
    """A command and all below it.

    Args:
        command: As Typer has made it.
        path: Its words.
        help_text: One line.
    """
    inner = getattr(command, "commands", {})
    options, files, words = [], False, tuple(inner)
    for param in command.params:
        kind = param.type_descriptor.annotation
        choices = (
            tuple(map(str, kind)) if isinstance(kind, type) and issubclass(kind, StrEnum) else ()
        )
        is_path = kind is Path
        if param.param_type_name == "argument":
            files = files or is_path or param.name == "what"
            words = words or choices
        elif not param.hidden:
            takes: tuple[str, ...] | str | None = choices or (FILES if is_path else ())
            names = (*param.opts, *param.secondary_opts)
            takes = None if param.is_flag else takes
            options.append(KnownOption(names, _line(param.help or ""), takes))
    options.append(KnownOption(("-h", "--help"), "Show what it takes.", None))
    found = [KnownCommand(path, _line(help_text), words, files, tuple(options))]
    for name, below in inner.items():
        found += known_commands(below, (*path, name), below.help or "")
    return found


def _line(text: str) -> str:
    return " ".join(text.strip().partition("\n\n")[0].split())


def bash_script(commands: Sequence[KnownCommand]) -> str:
    """For bash 4 and newer; needs nothing beside it."""
    paths, values, candidates = _cases(commands)
    return f"""\
# bash completion of sluiceway; load it with: source <(sluiceway completion bash)
_sluiceway() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}" path="" word
    COMPREPLY=()
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$path $word" in
            {paths}) path="${{path:+$path }}$word" ;;
        esac
    done
    case "$path $prev" in
{_bash_values(values)}
    esac
    case "$path" in
{_bash_candidates(candidates)}
    esac
}}
complete -o filenames -F _sluiceway sluiceway
"""


def zsh_script(commands: Sequence[KnownCommand]) -> str:
    """For zsh; to be loaded, or to be put as `_sluiceway` into a folder of `fpath`."""
    paths, values, candidates = _cases(commands)
    told = []
    for path, given in values:
        done = "_files" if given == FILES else f"compadd -- {_words(given)}"
        told.append(f"        {path}) {done or ':'}; return ;;")
    offered = []
    for command in candidates:
        words = [*command.words, *(name for each in command.options for name in each.names)]
        files = "; _files" if command.files else ""
        offered.append(f"        {_quoted(command.path)}) compadd -- {_words(words)}{files} ;;")
    return f"""\
#compdef sluiceway
# zsh completion of sluiceway; load it with: source <(sluiceway completion zsh)
_sluiceway() {{
    local prev="${{words[CURRENT-1]}}" path_="" word
    for word in "${{(@)words[2,CURRENT-1]}}"; do
        case "$path_ $word" in
            {paths}) path_="${{path_:+$path_ }}$word" ;;
        esac
    done
    case "$path_ $prev" in
{chr(10).join(told)}
    esac
    case "$path_" in
{chr(10).join(offered)}
    esac
}}
if [ "$funcstack[1]" = "_sluiceway" ]; then
    _sluiceway "$@"
else
    compdef _sluiceway sluiceway
fi
"""


def fish_script(commands: Sequence[KnownCommand]) -> str:
    """For fish 3 and newer."""
    known = " ".join(_quoted(command.path) for command in commands if command.path)
    lines = [
        "# fish completion of sluiceway; load it with: sluiceway completion fish | source",
        "function __sluiceway_at",
        "    set -l path",
        "    for word in (commandline -opc)[2..]",
        '        if contains -- (string trim -- "$path $word") ' + known,
        "            set -a path $word",
        "        end",
        "    end",
        '    test "$path" = "$argv"',
        "end",
    ]
    helps = {command.path: command.help for command in commands}
    for command in commands:
        condition = f"__sluiceway_at {' '.join(command.path)}".strip()
        begin = f"complete -c sluiceway -n {shlex.quote(condition)}"
        lines.append(f"{begin} {'-F' if command.files else '-f'}")
        for word in command.words:
            told = helps.get((*command.path, word), "")
            lines.append(f"{begin} -a {shlex.quote(word)} -d {shlex.quote(told)}")
        for option in command.options:
            lines.append(f"{begin} {_fish_option(option)}")
    return "\n".join([*lines, ""])


def _fish_option(option: KnownOption) -> str:
    parts = [
        f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names
    ]
    if option.takes is not None:
        parts.append("-r")
    if option.takes == FILES:
        parts.append("-F")
    elif option.takes is not None:
        parts.append(f"-f -a {shlex.quote(' '.join(option.takes))}" if option.takes else "-f")
    return " ".join([*parts, f"-d {shlex.quote(option.help)}"])


def _cases(
    commands: Sequence[KnownCommand],
) -> tuple[str, list[tuple[str, tuple[str, ...] | str]], Sequence[KnownCommand]]:
    """Patterns of all paths; what follows an option, by pattern; the commands."""
    paths = "|".join(
        _quoted_text(f"{' '.join(command.path[:-1])} {command.path[-1]}")
        for command in commands
        if command.path
    )
    values = []
    for command in commands:
        for option in command.options:
            if option.takes is not None:
                patterns = (f"{' '.join(command.path)} {name}" for name in option.names)
                values.append(("|".join(map(_quoted_text, patterns)), option.takes))
    return paths, values, commands


def _bash_values(values: Sequence[tuple[str, tuple[str, ...] | str]]) -> str:
    lines = []
    for pattern, given in values:
        if given == FILES:
            done = 'mapfile -t COMPREPLY < <(compgen -f -- "$cur")'
        else:
            done = f'mapfile -t COMPREPLY < <(compgen -W {shlex.quote(" ".join(given))} -- "$cur")'
        lines.append(f"        {pattern}) {done}; return ;;")
    return "\n".join(lines)


def _bash_candidates(commands: Sequence[KnownCommand]) -> str:
    lines = []
    for command in commands:
        words = [*command.words, *(name for each in command.options for name in each.names)]
        made = f'compgen -W {shlex.quote(" ".join(words))} -- "$cur"'
        if command.files:
            made += '; compgen -f -- "$cur"'
        lines.append(f"        {_quoted(command.path)}) mapfile -t COMPREPLY < <({made}) ;;")
    return "\n".join(lines)


def _quoted(path: Sequence[str]) -> str:
    return _quoted_text(" ".join(path))


def _quoted_text(text: str) -> str:
    return f'"{text}"'


def _words(words: Sequence[str]) -> str:
    return " ".join(map(shlex.quote, words))
