"""The option `--room` of every command with a job file, and the room of this process."""

import os
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from sluiceway.cli.views.typed_commands import OWN_ROOM
from sluiceway.errors import WrongUsageError

ALL_ROOMS = "all"
"""In place of a room's name: `validate` reads the references of every room."""

_JOB_FILE = "job_file"
# As in `jobfile.room_overlay`, which `--help` does not load.
_VARIABLE = "SLUICEWAY_ROOM"


def add_room_option(command: Any) -> None:
    """Add `--room` to a command that has a job file, and to all commands below it.

    Called once, before the command is run.

    Args:
        command: Typer's command; changed in place.
    """
    if any(param.name == _JOB_FILE for param in command.params):
        command.params.append(_option())
    for inner in getattr(command, "commands", {}).values():
        add_room_option(inner)


def _option() -> Any:
    import typer  # noqa: PLC0415 - not needed for help and mistakes

    app = typer.Typer(add_completion=False)

    @app.command()
    def with_room(
        room: Annotated[
            str,
            typer.Option(
                "--room",
                metavar="ROOM",
                help=f"Room of this process, for a job with rooms; else {_VARIABLE}.",
                show_default=False,
                callback=_set_room,
            ),
        ] = "",
    ) -> None:
        del room

    (option,) = (p for p in typer.main.get_command(app).params if p.name == "room")
    option.expose_value = False
    return option


def _set_room(value: str) -> str:
    OWN_ROOM.set(value)
    return value


def names_all_rooms(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether this process names no room of its own: `validate` reads the references of all."""
    return (OWN_ROOM.get() or environ.get(_VARIABLE, "")) == ALL_ROOMS


def choose_room(
    rooms: Iterable[str], home: str, *, opens: bool, environ: Mapping[str, str] = os.environ
) -> str:
    """The room of this process for a job file.

    Args:
        rooms: Rooms of the file; empty for a file without the block.
        home: Its home room.
        opens: Whether the command has to be of a room; if not, it is of the home by default.
        environ: Variables of the process.

    Raises:
        WrongUsageError: No room is named, or the job has no such room.
    """
    named, known = OWN_ROOM.get(), ", ".join(rooms)
    if not known:
        if named:
            raise WrongUsageError(
                f"the job has no room `{named}`: its file has no block `rooms`",
                hint="leave out --room, or add the block",
            )
        return ""
    room = named or environ.get(_VARIABLE, "")
    if room == ALL_ROOMS and not opens:
        return room
    if not room and not opens:
        return home
    first = known.partition(",")[0]
    if not room:
        raise WrongUsageError(
            f"the job has the rooms {known}, and no room is named for this process",
            hint=f"name the room of this machine, such as --room {first} or {_VARIABLE}={first}",
        )
    if room not in known.split(", "):
        raise WrongUsageError(f"the job has no room `{room}`", hint=f"its rooms: {known}")
    return room
